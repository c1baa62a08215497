"""Stops a run: what may be interrupted, and the result of a call that did not begin."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

STOPPED = "Somebody stopped the agent before this tool ran. Nothing ran."


async def until_stopped(work: Coroutine[Any, Any, T], stop: asyncio.Event | None) -> T | None:
    """The awaitable's result. None if the stop came first; then it is cancelled."""
    if stop is None:
        return await work
    if stop.is_set():
        work.close()
        return None
    failures: list[BaseException] = []

    async def worked() -> T | None:
        try:
            return await work
        except BaseException as error:  # noqa: BLE001  (raised below: in a task of its own it could end the loop)
            failures.append(error)
            return None

    working, stopped = asyncio.create_task(worked()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            return None
        result = await working
        if failures:
            raise failures[0]
        return result
    finally:
        stopped.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
