"""Every change, in order. The page follows them, and they wake tests that wait for something."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "message", "ephemeral", "view", "home", "status",
    "person", "channel", "group", "install", "call", "delivery", "socket", "stage",
]  # fmt: skip
_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class WorkspaceChange:
    """What changed. The records say what is there now."""

    number: int
    kind: Kind
    team: str = ""
    channel: str = ""
    ts: str = ""
    user: str = ""


class Changes:
    def __init__(self) -> None:
        self.number = 0
        self._kept: deque[WorkspaceChange] = deque(maxlen=_KEPT)
        self._woken = asyncio.Event()

    def tell(self, kind: Kind, *, team: str = "", channel: str = "", ts: str = "", user: str = "") -> None:
        self.number += 1
        self._kept.append(WorkspaceChange(self.number, kind, team, channel, ts, user))
        woken, self._woken = self._woken, asyncio.Event()
        woken.set()

    def since(self, number: int) -> list[WorkspaceChange]:
        return [change for change in self._kept if change.number > number]

    async def after(self, number: int) -> None:
        while self.number <= number:
            await self._woken.wait()

    async def follow(self, number: int = 0) -> AsyncIterator[WorkspaceChange]:
        while True:
            for change in self.since(number):
                yield change
                number = change.number
            await self.after(number)
