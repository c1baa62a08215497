"""Transactions that wait for SQLite's writer together, and so make one group with one commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable

from runtime.store.database import Database


async def together(database: Database, *calls: Awaitable[object]) -> list[object]:
    """What each was answered, exceptions included; the writer is held up until all of them stand in line."""
    go_on = threading.Event()
    holding = asyncio.create_task(database.run(lambda _: go_on.wait()))
    await asyncio.sleep(0)
    waiting = asyncio.gather(*calls, return_exceptions=True)
    await asyncio.sleep(0)
    go_on.set()
    answers = await waiting
    await asyncio.wait([holding])
    holding.exception()  # it may have been in the same group: what became of it is of no interest
    return answers
