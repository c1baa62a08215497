"""A lease as a worker has it, on a job that nobody else wants."""

from __future__ import annotations

import asyncio

from adk_confirm.runtime.errors import Busy
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.lease import POLL, TERM, JobKey, Lease, claim


async def a_lease(database: Database, key: str = "a lease") -> Lease:
    lease = await try_lease(database, JobKey("reply", key), term=3600.0)
    assert lease is not None
    return lease


async def try_lease(database: Database, job: JobKey, *, topic: str | None = None, term: float = TERM) -> Lease | None:
    """The lease, or None if somebody else has it."""
    token = await database.run(claim, job, term=term)
    return None if token is None else Lease(database, job, token, topic=topic, term=term)


async def wait_for_lease(
    database: Database, job: JobKey, *, topic: str, patience: float, term: float = TERM, poll: float = POLL
) -> Lease:
    """Waits until the holder releases the job, or its lease lapses. Raises `Busy` after `patience` seconds."""
    loop = asyncio.get_running_loop()
    until = loop.time() + patience
    with database.waiter(topic) as waiter:
        while True:
            lease = await try_lease(database, job, topic=topic, term=term)
            if lease is not None:
                return lease
            left = until - loop.time()
            if left <= 0:
                raise Busy(
                    f"Somebody else is at work on this and did not finish within {patience:g} seconds. "
                    "Nothing was changed; trying again is safe."
                )
            await waiter.wait(min(poll, left))
