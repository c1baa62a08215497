"""Handles each delivery from Slack once, if this process remembers it. The store checks again, and is always right."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

REMEMBERED = 1000
"""How many keys are remembered."""

R = TypeVar("R")


class OnceOnly(Generic[R]):
    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._known: dict[Hashable, asyncio.Future[bool]] = {}  # whether it was done; the oldest first

    async def do(self, key: Hashable, work: Callable[[], Awaitable[R]]) -> R | None:
        """Does the work for this key. Returns None if it was done before, and waits if that goes on just now. Work that
        failed is done again."""
        while (before := self._known.get(key)) is not None:
            if await asyncio.shield(before):
                return None
        mine = self._known[key] = asyncio.get_running_loop().create_future()
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        try:
            result = await work()
        except BaseException:
            if self._known.get(key) is mine:
                del self._known[key]
            mine.set_result(False)
            raise
        mine.set_result(True)
        return result
