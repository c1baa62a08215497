"""Gives people turns, so that somebody who clicks again and again does not delay others.

Votes on one confirmation are stored one after another. Without turns, each waiting vote would hold a database
connection that others need.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

MOST_EACH = 4
"""How many votes of one person are stored at once."""


class FairTurns:
    def __init__(self) -> None:
        self._gates: dict[Hashable, _Gate] = {}

    @asynccontextmanager
    async def of(self, person: Hashable, confirmation: str) -> AsyncIterator[None]:
        """Hold this while a vote is stored. Locks are always taken in the same order, so there is no deadlock."""
        async with self._turn(("person", person), MOST_EACH), self._turn(("confirmation", confirmation), 1):
            yield

    @asynccontextmanager
    async def form(self, person: Hashable) -> AsyncIterator[None]:
        """Hold this while a form of somebody is built or read: one at a time."""
        async with self._turn(("form", person), 1):
            yield

    @asynccontextmanager
    async def _turn(self, key: Hashable, most: int) -> AsyncIterator[None]:
        gate = self._gates.setdefault(key, _Gate(most))
        gate.users += 1
        try:
            async with gate.slots:
                yield
        finally:
            gate.users -= 1
            if not gate.users:
                del self._gates[key]


class _Gate:
    def __init__(self, most: int) -> None:
        self.slots, self.users = asyncio.Semaphore(most), 0
