"""A lease as a worker has it, on a row that nobody else wants."""

from __future__ import annotations

import asyncio

from adk_confirm.runtime.errors import Busy
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.lease import POLL, TERM, Lease, LeasedRow, claim


async def a_lease(database: Database, key: str = "a lease") -> Lease:
    def put_there(tx: Tx) -> None:
        tx.insert("bot_replies", {"vote": key, "seat": "{}", "body": "{}"})

    await database.run(put_there)
    lease = await try_lease(database, LeasedRow("bot_replies", "vote", key), term=3600.0)
    assert lease is not None
    return lease


async def try_lease(
    database: Database, row: LeasedRow, *, topic: str | None = None, term: float = TERM
) -> Lease | None:
    """The lease, or None if somebody else has it."""
    token = await database.run(claim, row, term=term)
    return None if token is None else Lease(database, row, token, topic=topic, term=term)


async def wait_for_lease(
    database: Database, row: LeasedRow, *, topic: str, patience: float, term: float = TERM, poll: float = POLL
) -> Lease:
    """Waits until the holder releases the row, or its lease lapses. Raises `Busy` after `patience` seconds."""
    loop = asyncio.get_running_loop()
    until = loop.time() + patience
    with database.waiter(topic) as waiter:
        while True:
            lease = await try_lease(database, row, topic=topic, term=term)
            if lease is not None:
                return lease
            left = until - loop.time()
            if left <= 0:
                raise Busy(
                    f"Somebody else is at work on this and did not finish within {patience:g} seconds. "
                    "Nothing was changed; trying again is safe."
                )
            await waiter.wait(min(poll, left))
