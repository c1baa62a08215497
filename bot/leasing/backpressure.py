"""Clicks first: people wait for an ack, while cards and threads can wait, since Slack limits how often they change.

While a click is being stored, nothing new is begun in the background, for a moment at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MOMENT = 1.0
"""The longest pause of background work at a time, however many people click."""

LULL = 0.005
"""After so many seconds without a click, background work goes on."""

MANY = 24
"""From this many clicks at once, each is only stored before its ack and counted afterwards."""


class Precedence:
    def __init__(self, moment: float = MOMENT, lull: float = LULL) -> None:
        self._moment, self._lull = moment, lull
        self._under_way, self._begun = 0, 0
        self._none = asyncio.Event()
        self._none.set()
        self._last = float("-inf")

    @contextmanager
    def given(self) -> Iterator[None]:
        """Wraps work that somebody waits for."""
        self._under_way += 1
        self._begun += 1
        self._none.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._last = asyncio.get_running_loop().time()
                self._none.set()

    @property
    def under_way(self) -> bool:
        return self._under_way > 0

    @property
    def many(self) -> bool:
        return self._under_way >= MANY

    async def stand_back(self) -> bool:
        """Before something is begun that can wait; whether nobody has clicked for a moment."""
        if self._under_way or self._idle < self._lull:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._moment):
                    await self._quiet()
        return self.quiet

    @property
    def quiet(self) -> bool:
        """Nobody has clicked for a moment."""
        return not self._under_way and self._idle >= self._moment

    @property
    def _idle(self) -> float:
        return asyncio.get_running_loop().time() - self._last

    async def _quiet(self) -> None:
        seen = None
        while seen != self._begun:
            await self._none.wait()
            seen = self._begun
            await asyncio.sleep(self._lull)
