"""Clicks first: whoever clicked waits for an ack; cards and threads, which Slack lets change only so often, can wait.

While a click is on its way into the store, nothing new is begun in the background: for a moment, not for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MOMENT = 1.0
"""The longest that background work stands back at a time, however many click."""

MANY = 4
"""So many clicks at once and each is only stored before its ack, and counted after."""


class Precedence:
    def __init__(self, moment: float = MOMENT) -> None:
        self._moment = moment
        self._under_way = 0
        self._none = asyncio.Event()
        self._none.set()

    @contextmanager
    def given(self) -> Iterator[None]:
        """Around what somebody waits for."""
        self._under_way += 1
        self._none.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._none.set()

    @property
    def many(self) -> bool:
        return self._under_way >= MANY

    async def stand_back(self) -> None:
        """Before something is begun that can wait."""
        if self._under_way:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._moment):
                    await self._none.wait()
