"""Lets urgent work go first: clicks until they are acknowledged, then approved calls until their tools start.

Cards and threads can wait, because Slack limits how often they change anyway. While urgent work is under way, only a
few of them are begun each second, so they are delayed and never blocked completely.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum

MOMENT = 1.0
"""The longest time that background work is held back, however many people click."""

LULL = 0.005
"""Without urgent work for this long, no more is expected soon: in a series of clicks one is always under way."""

MANY = 100
"""From this many clicks at once, each is only stored before its ack and counted afterwards."""


class Pace(Enum):
    """How much low-priority work may begin now."""

    FREE = "free"  # nothing urgent for a moment: everything
    PAUSE = "pause"  # between two clicks: a few rows, since the next click may come at once
    BUSY = "busy"  # urgent work goes on, but this has waited long enough: a little


class Backpressure:
    """Counts urgent work, and holds back work that can wait."""

    def __init__(self, moment: float = MOMENT, lull: float = LULL) -> None:
        self._moment, self._lull = moment, lull
        self._clicks, self._under_way, self._begun = 0, 0, 0
        self._none = asyncio.Event()
        self._none.set()
        self._last_click = self._last = float("-inf")

    @contextmanager
    def handling_click(self) -> Iterator[None]:
        """Wrap the handling of a click in this, until its ack. A person waits for that."""
        self._clicks += 1
        try:
            with self.urgent_work():
                yield
        finally:
            self._clicks -= 1
            self._last_click = asyncio.get_running_loop().time()

    @contextmanager
    def urgent_work(self) -> Iterator[None]:
        """Wrap work that decides, or that sends a decision to an agent, in this."""
        self._under_way += 1
        self._begun += 1
        self._none.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            self._last = asyncio.get_running_loop().time()
            if not self._under_way:
                self._none.set()

    @contextmanager
    def starting_call(self) -> Iterator[Callable[[], None]]:
        """Wrap the start of an approved call in this. Call what it yields once the call has started. The priority ends
        after a moment even without that, since a tool may run for hours."""
        with ExitStack() as going_first:
            going_first.enter_context(self.urgent_work())
            timer = asyncio.get_running_loop().call_later(self._moment, going_first.close)
            try:
                yield going_first.close
            finally:
                timer.cancel()

    @property
    def under_way(self) -> bool:
        return self._under_way > 0

    @property
    def many(self) -> bool:
        return self._clicks >= MANY

    async def wait_for_urgent_work(self) -> Pace:
        """Waits while urgent work is under way. Call this before work that can wait. Returns how much may begin."""
        loop = asyncio.get_running_loop()
        if self._under_way or loop.time() - self._last < self._lull:
            try:
                async with asyncio.timeout(self._moment):
                    await self._wait_for_lull()
            except TimeoutError:
                return Pace.BUSY
        return Pace.FREE if loop.time() - self._last >= self._moment else Pace.PAUSE

    @property
    def nobody_clicks(self) -> bool:
        """Whether nobody has clicked for a moment."""
        return not self._clicks and asyncio.get_running_loop().time() - self._last_click >= self._moment

    async def _wait_for_lull(self) -> None:
        seen = None
        while seen != self._begun:
            await self._none.wait()
            seen = self._begun
            await asyncio.sleep(self._lull)
