"""Makes transactions wait for SQLite's writer together, so that they form one group with one commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable

from adk_confirm.runtime.store.database import Database


async def together(database: Database, *calls: Awaitable[object]) -> list[object]:
    """The results, or exceptions, of all of them. The writer is held up until all of them are queued."""
    go_on = threading.Event()
    holding = asyncio.create_task(database.run(lambda _: go_on.wait()))
    await asyncio.sleep(0)
    waiting = asyncio.gather(*calls, return_exceptions=True)
    await asyncio.sleep(0)
    go_on.set()
    answers = await waiting
    await asyncio.wait([holding])
    holding.exception()  # it may have been in the same group; its result is of no interest
    return answers
