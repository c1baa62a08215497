"""Finds work that a dead process left, here or elsewhere, and resumes it. Work that fails is retried after a pause."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.run.live_run import Run
from adk_confirm.runtime.store.records import SessionId

log = logging.getLogger(__name__)

LONGEST_PAUSE = 600.0

Resume = Callable[[], Awaitable[Run]]


class Recovery:
    """`find` returns the sessions with unfinished work, each with a function that resumes it."""

    def __init__(self, find: Callable[[], Awaitable[list[tuple[SessionId, Resume]]]]) -> None:
        self._find = find
        self._taken: dict[SessionId, Run] = {}
        self._failed: dict[SessionId, tuple[int, float]] = {}  # failures in a row, and the time of the next attempt

    async def once(self) -> list[Run]:
        """Resumes what it finds, and returns the runs that it began."""
        for name in [name for name, run in self._taken.items() if run.ended]:
            self._note_end(name, self._taken.pop(name).failure)
        begun = []
        for name, take_up in await self._find():
            if name in self._taken or self._failed.get(name, (0, 0.0))[1] > time.monotonic():
                continue
            try:
                self._taken[name] = await take_up()
            except ConfirmError as error:
                self._note_end(name, error)  # it is found again, unless another process resumes it
            else:
                begun.append(self._taken[name])
        return begun

    async def forever(self, pause: float) -> None:
        while True:
            try:
                await self.once()
            except ConfirmError as error:
                log.warning("could not look for unfinished work, and will try again: %s", error)
            await asyncio.sleep(pause)

    def _note_end(self, name: SessionId, failure: Exception | None) -> None:
        times, _ = self._failed.pop(name, (0, 0.0))
        if failure is None:
            return
        pause = min(LONGEST_PAUSE, 2.0**times)
        log.warning("session %s was not brought to its end, and is tried again in %g s: %s", name.id, pause, failure)
        self._failed[name] = (min(times + 1, 20), time.monotonic() + pause)
