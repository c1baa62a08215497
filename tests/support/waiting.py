"""Waits for what another process, a thread or a database does, if no event of this loop reports it."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

T = TypeVar("T")

LOOK_AGAIN, AT_MOST = 0.01, 0.2


@overload
async def until(look: Callable[[], Coroutine[Any, Any, T | None]], within: float = ...) -> T: ...
@overload
async def until(look: Callable[[], T], within: float = ...) -> T: ...
async def until(look: Callable[[], object], within: float = 60.0) -> object:
    """What `look` returns, as soon as it returns something true.

    `within` only ends a test that would hang. It is no promise about speed.

    >>> asyncio.run(until(lambda: "there"))
    'there'
    """
    async with asyncio.timeout(within):
        while True:
            began = time.perf_counter()
            seen = look()
            if found := (await seen if inspect.isawaitable(seen) else seen):
                return found
            # A costly look is followed by a longer pause, to leave the machine to what is awaited.
            await asyncio.sleep(min(max(LOOK_AGAIN, 4 * (time.perf_counter() - began)), AT_MOST))
