"""A process that starts leaves the leases of others alone, whoever they are: they end by themselves."""

from __future__ import annotations

import pytest

from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.lease import JobKey, claim
from adk_confirm.runtime.store.tables import open_store
from tests.support.kill import child, here
from tests.support.waiting import until

JOB = JobKey("lab", "s1")
TERM = 1.0


async def works_on_it(url: str, term: str) -> None:
    """In the child."""
    database = await open_store(url)
    await database.run(claim, JOB, term=float(term))
    here("working")


async def is_free(database: Database) -> bool:
    return await database.run(claim, JOB, term=30.0) is not None


async def test_what_a_killed_process_worked_on_is_free_when_its_lease_ends(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with child(works_on_it, database_url, str(TERM)) as process:
        await process.reached("working")
        process.kill()
        await process.gone()

    with caplog.at_level("INFO"):
        database = await open_store(database_url)
    assert "jobs that others hold: 1. Those of a process that died go on within 1 s" in caplog.text
    try:
        assert not await is_free(database)
        await until(lambda: is_free(database))
    finally:
        await database.close()
