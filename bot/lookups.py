"""What was asked lately, and one question at a time for each key: a hundred clicks at once ask Slack once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lookups(Generic[K, V]):
    """Answers are good for `seconds` from when the question began (None: for ever); what raises is not kept.

    `good` says which answers are worth keeping at all.
    """

    def __init__(
        self,
        seconds: float | None = None,
        *,
        keep: int = 5000,
        good: Callable[[V], bool] = lambda _: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds, self._keep, self._good, self._clock = seconds, keep, good, clock
        self._known: dict[K, tuple[float, V]] = {}
        self._asking: dict[K, asyncio.Task[V]] = {}

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        known = self._fresh(key)
        if known is not None:
            return known[1]
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._ask(key, ask), name="adk-confirm-lookup")
            task.add_done_callback(_seen)
        return await asyncio.shield(task)  # others wait for it too, whoever gives up

    def peek(self, key: K) -> V | None:
        """What is known without asking."""
        known = self._fresh(key)
        return None if known is None else known[1]

    def forget(self, which: Callable[[K], bool]) -> None:
        """Also what is being asked right now: its answer may be from before."""
        for key in [key for key in (*self._known, *self._asking) if which(key)]:
            self._known.pop(key, None)
            self._asking.pop(key, None)

    def _fresh(self, key: K) -> tuple[float, V] | None:
        known = self._known.get(key)
        if known is None or (self._seconds is not None and self._clock() - known[0] >= self._seconds):
            return None
        return known

    async def _ask(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        began, me = self._clock(), asyncio.current_task()
        try:
            answer = await ask()
            if self._asking.get(key) is me and self._good(answer):
                self._remember(key, began, answer)
            return answer
        finally:
            if self._asking.get(key) is me:
                del self._asking[key]

    def _remember(self, key: K, began: float, answer: V) -> None:
        self._known.pop(key, None)
        self._known[key] = (began, answer)
        while len(self._known) > self._keep:
            del self._known[next(iter(self._known))]


def _seen(task: asyncio.Task[V]) -> None:
    """Everybody who waited may have given up: then its error is nobody's, and no warning is due."""
    if not task.cancelled():
        task.exception()
