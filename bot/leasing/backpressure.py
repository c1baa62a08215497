"""Who goes first: a click until its ack, then an approved call until its agent has it. Cards and threads can wait, as
Slack lets them change only so often.

While one of the first two is under way, nothing of the last is begun: for a moment at a time, not for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MOMENT = 1.0
"""The longest pause of background work at a time, however many people click."""

LULL = 0.005
"""If nothing is under way for so long, nothing is coming: of many clicks in a row one is always under way."""

MANY = 24
"""From this many clicks at once, each is only stored before its ack and counted afterwards."""


class Backpressure:
    def __init__(self, moment: float = MOMENT, lull: float = LULL) -> None:
        self._moment, self._lull = moment, lull
        self._clicks, self._under_way, self._begun = 0, 0, 0
        self._none = asyncio.Event()
        self._none.set()
        self._last_click = self._last = float("-inf")

    @contextmanager
    def given(self) -> Iterator[None]:
        """Wrap the handling of a click in this: somebody waits for its ack."""
        self._clicks += 1
        try:
            with self.hurrying():
                yield
        finally:
            self._clicks -= 1
            self._last_click = asyncio.get_running_loop().time()

    @contextmanager
    def hurrying(self) -> Iterator[None]:
        """Wrap work in this that decides, or hands an approved call to its agent."""
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

    @property
    def under_way(self) -> bool:
        return self._under_way > 0

    @property
    def many(self) -> bool:
        return self._clicks >= MANY

    async def stand_back(self) -> bool:
        """Call this before work that can wait. Returns whether nothing went first for a moment."""
        loop = asyncio.get_running_loop()
        if self._under_way or loop.time() - self._last < self._lull:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._moment):
                    await self._lulled()
        return not self._under_way and loop.time() - self._last >= self._moment

    @property
    def nobody_clicks(self) -> bool:
        """Whether nobody has clicked for a moment."""
        return not self._clicks and asyncio.get_running_loop().time() - self._last_click >= self._moment

    async def _lulled(self) -> None:
        seen = None
        while seen != self._begun:
            await self._none.wait()
            seen = self._begun
            await asyncio.sleep(self._lull)
