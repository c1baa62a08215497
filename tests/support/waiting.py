"""Waits for what another process, a thread or a database does, which no event in this loop reports."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

T = TypeVar("T")

LOOK_AGAIN = 0.01


@overload
async def until(look: Callable[[], Coroutine[Any, Any, T | None]], within: float = ...) -> T: ...
@overload
async def until(look: Callable[[], T], within: float = ...) -> T: ...
async def until(look: Callable[[], object], within: float = 60.0) -> object:
    """What `look` returns, as soon as it returns something true.

    `within` only ends a test that would never end. It is no promise about speed.

    >>> asyncio.run(until(lambda: "there"))
    'there'
    """
    async with asyncio.timeout(within):
        while True:
            seen = look()
            if found := (await seen if inspect.isawaitable(seen) else seen):
                return found
            await asyncio.sleep(LOOK_AGAIN)
