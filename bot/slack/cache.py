"""A cache of Slack's answers with one question at a time for each key: a hundred clicks at once ask Slack once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from bot.slack.outbound.errors import Later

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass
class _Question(Generic[V]):
    task: asyncio.Task[V]
    waiting: int = 0


class LookupCache(Generic[K, V]):
    """Answers are kept for `seconds` from when the question began (None: for ever). Errors are not kept, but a question
    that Slack put off is not asked again too early.

    `good` says which answers are worth keeping.
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
        self._later: dict[K, tuple[float, Later]] = {}
        self._asking: dict[K, _Question[V]] = {}

    async def get(self, key: K, ask: Callable[[], Awaitable[V]], *, anew: bool = False) -> V:
        """The answer. The question goes on as long as anybody waits, so callers should limit their wait. With `anew`
        the question is always asked again."""
        known = None if anew else self._fresh_entry(key)
        if known is not None:
            return known[1]
        question = self._asking.get(key)
        if question is None:
            self._raise_if_too_early(key)
            question = self._asking[key] = _Question(
                asyncio.create_task(self._ask(key, ask), name="adk-confirm-lookup")
            )
            question.task.add_done_callback(_read_error)
        question.waiting += 1
        try:
            return await asyncio.shield(question.task)
        finally:
            question.waiting -= 1
            if not question.waiting:
                self._drop(key, question)

    def peek(self, key: K) -> V | None:
        """What is known without asking."""
        known = self._fresh_entry(key)
        return None if known is None else known[1]

    def put_off(self, key: K) -> bool:
        """Whether Slack could not be asked when the answer was last needed."""
        return key in self._later

    def forget(self, which: Callable[[K], bool]) -> None:
        """Forgets an answer, and one that is being fetched now, since it may be outdated."""
        for key in [key for key in (*self._known, *self._asking) if which(key)]:
            self._known.pop(key, None)
            self._asking.pop(key, None)

    def _fresh_entry(self, key: K) -> tuple[float, V] | None:
        known = self._known.get(key)
        if known is None or (self._seconds is not None and self._clock() - known[0] >= self._seconds):
            return None
        return known

    def _raise_if_too_early(self, key: K) -> None:
        """Raises if it is too early to ask again: that would only delay the answer for everybody."""
        later = self._later.pop(key, None)
        if later is not None and (left := later[0] - self._clock()) > 0:
            self._later[key] = later
            raise Later(later[1].method, left, later[1].code)

    def _drop(self, key: K, question: _Question[V]) -> None:
        """Cancels a question for which nobody waits any more. The next caller starts again."""
        question.task.cancel()
        if self._asking.get(key) is question:
            del self._asking[key]

    async def _ask(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        began, me = self._clock(), asyncio.current_task()
        try:
            answer = await ask()
            if self._current(key, me) and self._good(answer):
                _put(self._known, key, (began, answer), self._keep)
            return answer
        except Later as later:
            if self._current(key, me) and later.limited:
                _put(self._later, key, (self._clock() + later.after, later), self._keep)
            raise
        finally:
            if self._current(key, me):
                del self._asking[key]

    def _current(self, key: K, task: asyncio.Task[object] | None) -> bool:
        question = self._asking.get(key)
        return question is not None and question.task is task


T = TypeVar("T")


def _put(known: dict[K, T], key: K, value: T, keep: int) -> None:
    known.pop(key, None)
    known[key] = value
    while len(known) > keep:
        del known[next(iter(known))]


def _read_error(task: asyncio.Task[V]) -> None:
    """Reads the error, so that asyncio does not warn about it if everybody who waited has given up."""
    if not task.cancelled():
        task.exception()
