"""A process that starts alone frees all leases. One that starts beside others leaves theirs alone."""

from __future__ import annotations

import asyncio

import pytest

from adk_confirm.runtime.store import postgres as engine
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.lease import JobKey, claim
from adk_confirm.runtime.store.tables import open_store
from tests.support.kill import child, here
from tests.support.postgres import postgres_server
from tests.support.scratch import SCRATCH

JOB = JobKey("lab", "s1")


@pytest.fixture(autouse=True)
def _up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own server may have been started just now."""
    monkeypatch.setattr(engine, "BACK_SECONDS", 0.0)


async def works_on_it(url: str) -> None:
    """In the child."""
    database = await open_store(url)
    await database.run(claim, JOB, term=30.0)
    here("working")


async def test_what_a_killed_process_worked_on_is_free_at_once(database_url: str) -> None:
    async with child(works_on_it, database_url) as process:
        await process.reached("working")
        process.kill()
        await process.gone()

    database = await open_store(database_url)
    try:
        assert await database.run(claim, JOB, term=30.0) is not None
    finally:
        await database.close()


async def test_what_a_living_process_works_on_is_its_own(postgres_url: str) -> None:
    async with child(works_on_it, postgres_url) as process:
        await process.reached("working")

        second = await open_store(postgres_url)
        assert await second.run(claim, JOB, term=30.0) is None

        process.kill()
        await process.gone()
        third = await open_store(postgres_url)  # the second is there: leases lapse by time
        assert await third.run(claim, JOB, term=30.0) is None
        await second.close()
        await third.close()


async def settles_in(url: str) -> None:
    """In the child."""
    engine.BACK_SECONDS = 0.0
    database = await Database.open(url)
    await database.run_if_alone(lambda _: here("alone"))


@pytest.mark.slow
async def test_who_freezes_while_it_settles_in_keeps_nobody_from_starting(postgres_url: str) -> None:
    async with child(settles_in, postgres_url) as process:
        await process.reached("alone")
        async with asyncio.timeout(20):
            second = await open_store(postgres_url)
        await second.close()


async def test_who_starts_right_after_the_server_may_not_be_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others work on, and have not said again that they are there."""
    with postgres_server(SCRATCH) as server, server.database() as url:
        first = await open_store(url)
        assert await first.run(claim, JOB, term=600.0) is not None
        monkeypatch.setattr(engine, "RETRY_SECONDS", 600.0)
        monkeypatch.setattr(engine, "BACK_SECONDS", 60.0)
        server.goes_away(crashes=True)
        await asyncio.to_thread(server.comes_back)
        second = await open_store(url)
        assert await second.run(claim, JOB, term=30.0) is None
        await first.close()
        await second.close()


def others_there(tx: Tx) -> int:
    return int(tx.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"))


def break_every_other_connection(tx: Tx) -> None:
    own = "datname = current_database() AND pid <> pg_backend_pid()"
    tx.all(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {own}")


async def test_that_it_is_there_is_said_again_after_every_reconnection(postgres_url: str) -> None:
    first = await open_store(postgres_url)
    watching = await Database.open(postgres_url)
    assert await watching.read(others_there) == 1

    await watching.run(break_every_other_connection)
    while await watching.read(others_there) != 1:
        await first.read(others_there)

    alone: list[str] = []
    second = await Database.open(postgres_url)
    await second.run_if_alone(lambda _: alone.append("second"))
    assert alone == []
    await first.close()
    await second.close()
    await watching.close()
