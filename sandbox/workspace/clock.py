"""Slack's clock: the real time, which tests and the demo can move forward."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Clock:
    def __init__(self) -> None:
        self._ahead = 0.0
        self._pushed = asyncio.Event()

    def now(self) -> float:
        return time.time() + self._ahead

    def advance(self, seconds: float) -> None:
        """Moves the clock forward. Everything that is due by then happens."""
        self._ahead += seconds
        pushed, self._pushed = self._pushed, asyncio.Event()
        pushed.set()

    async def sleep(self, seconds: float) -> None:
        until = self.now() + seconds
        while (left := until - self.now()) > 0:
            pushed = self._pushed
            with contextlib.suppress(TimeoutError):
                # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the push.
                async with asyncio.timeout(left):
                    await pushed.wait()

    async def within(self, seconds: float, work: Awaitable[T]) -> T:
        """The result of the work, or TimeoutError when so much time has passed on this clock."""
        task = asyncio.ensure_future(work)
        timer = asyncio.ensure_future(self.sleep(seconds))
        try:
            await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise TimeoutError
            return task.result()
        finally:
            for each in (task, timer):
                if not each.done():
                    each.cancel()
            await asyncio.gather(task, timer, return_exceptions=True)
