"""A lease as a worker has it, on a job that nobody else wants."""

from __future__ import annotations

from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.lease import TERM, JobKey, Lease, claim


async def a_lease(database: Database, key: str = "a lease") -> Lease:
    lease = await try_lease(database, JobKey("reply", key), term=3600.0)
    assert lease is not None
    return lease


async def try_lease(database: Database, job: JobKey, *, topic: str | None = None, term: float = TERM) -> Lease | None:
    """The lease, or None if somebody else has it."""
    token = await database.run(claim, job, term=term)
    return None if token is None else Lease(database, job, token, topic=topic, term=term)
