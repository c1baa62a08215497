"""Facts from Slack that decisions wait for: who somebody is, who is in a group, what a channel is.

A cache with one question at a time for each key: a hundred clicks at once ask Slack once. Whoever asks waits at most
for `patience`. While Slack fails, a question is repeated at growing intervals, by one caller at a time for each method,
because failed questions count towards Slack's limit too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from adk_confirm.bot.policy.approvers import Unresolved
from adk_confirm.bot.slack.troubles import Later
from adk_confirm.runtime.errors import ConfirmError, read_error
from adk_confirm.runtime.recent_dict import RecentDict
from adk_confirm.runtime.store.database import Clocks

PATIENCE = 20.0
"""Seconds, fewer than an answer counts for: when one question is given up, answers to others still count."""
AGAIN = (1.0, 2.0, 4.0, 8.0)
"""The pauses before a failed question is asked again. The last one repeats."""

_MOST = 5000
"""Answers that are kept."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Sleep = Callable[[float], Awaitable[None]]


@dataclass
class _Question(Generic[V]):
    task: asyncio.Task[V]
    waiting: int = 0


class LookupCache(Generic[K, V]):
    """Keeps answers for `seconds` from when the question began (None: for ever), by either clock: only the wall clock
    says that the machine was paused. It keeps no errors, but a question that Slack put off is not asked again too
    early.

    `good` says which answers are worth keeping.
    """

    def __init__(
        self,
        seconds: float | None = None,
        *,
        good: Callable[[V], bool] = lambda _: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds, self._good, self._clock = seconds, good, clock
        self._known: RecentDict[K, tuple[Clocks, V]] = RecentDict(_MOST)
        self._later: RecentDict[K, tuple[float, Later]] = RecentDict(_MOST)
        self._asking: dict[K, _Question[V]] = {}

    async def get(self, key: K, ask: Callable[[], Awaitable[V]], *, anew: bool = False) -> V:
        """The answer. The question goes on as long as anybody waits, so callers should limit their wait. With `anew`
        the question is always asked again, and what was known is forgotten."""
        if anew:
            self._known.pop(key, None)
        if (known := self.peek(key)) is not None:
            return known
        question = self._asking.get(key)
        if question is None:
            later = self._later.pop(key, None)
            if later is not None and (left := later[0] - self._clock()) > 0:
                self._later[key] = later
                raise Later(later[1].method, left, later[1].code)  # to ask now would delay the answer for everybody
            task = asyncio.create_task(self._ask(key, ask), name="adk-confirm-lookup")
            question = self._asking[key] = _Question(task)
            task.add_done_callback(read_error)
        question.waiting += 1
        try:
            return await asyncio.shield(question.task)
        finally:
            question.waiting -= 1
            if not question.waiting:  # nobody waits any more: the next caller starts again
                question.task.cancel()
                if self._asking.get(key) is question:
                    del self._asking[key]

    def peek(self, key: K) -> V | None:
        """What is known without asking."""
        known = self._known.get(key)
        if known is None or (self._seconds is not None and not known[0].are_within(self._seconds, self._clocks())):
            return None
        return known[1]

    def _clocks(self) -> Clocks:
        return Clocks(self._clock(), time.time())

    def put(self, key: K, answer: V) -> None:
        """Keeps what somebody learned without asking for it."""
        self._known[key] = self._clocks(), answer

    def put_off(self, key: K) -> bool:
        """Whether Slack could not be asked when the answer was last needed."""
        return key in self._later

    def forget(self, which: Callable[[K], bool]) -> None:
        """Forgets an answer, and one that is being fetched now, since it may be outdated."""
        for key in [key for key in (*self._known, *self._asking) if which(key)]:
            self._known.pop(key, None)
            self._asking.pop(key, None)

    async def _ask(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        began, me = self._clocks(), asyncio.current_task()
        try:
            answer = await ask()
            if self._current(key, me) and self._good(answer):
                self._known[key] = began, answer
            return answer
        except Later as later:
            if self._current(key, me) and later.limited:
                self._later[key] = self._clock() + later.after, later
            raise
        finally:
            if self._current(key, me):
                del self._asking[key]

    def _current(self, key: K, task: asyncio.Task[object] | None) -> bool:
        question = self._asking.get(key)
        return question is not None and question.task is task


class Lookups:
    """Answers of Slack that count for `seconds`, and the questions for those that are not known yet."""

    def __init__(self, seconds: float, patience: float, clock: Callable[[], float], pause: Sleep) -> None:
        self.known: LookupCache[Any, Any] = LookupCache(
            seconds, good=lambda found: not isinstance(found, Unresolved), clock=clock
        )
        self._patience, self._clock, self._pause = patience, clock, pause
        self._outages: dict[str, _Outage] = {}
        self._given_up: RecentDict[Hashable, float] = RecentDict(_MOST)  # when somebody last waited in vain

    async def ask(self, method: str, ask: Callable[[], Awaitable[V]]) -> V:
        """Asks until Slack answers. `look_up` cancels this when nobody waits any more."""
        return await self._outages.setdefault(method, _Outage(self._clock, self._pause)).ask(ask)

    async def look_up(
        self, what: str, key: Hashable, ask: Callable[[], Awaitable[V]], *, anew: bool = False
    ) -> V | Unresolved:
        """The known answer for `key`, or a new one; with `anew` always a new one. It waits for a turn at the rate
        limit only if that takes less than half of the patience that is left: the rest is for Slack's answer. Otherwise
        the result says when the turn comes. Who asks soon after somebody else waited in vain waits a quarter as long,
        or the last of ten voters would wait ten times as long as the first."""
        began, patience = self._clock(), self._patience
        if began - self._given_up.get(key, -patience) < patience:
            patience /= 4
        until = began + patience
        try:
            async with asyncio.timeout(patience):
                while True:
                    try:
                        return cast("V", await self.known.get(key, ask, anew=anew))
                    except Later as later:
                        if later.after >= (until - self._clock()) / 2:
                            why = f"Slack answers no more questions for {later.after:.0f} s"
                            return Unresolved(what, why, later.after)
                        await self._pause(later.after)
        except TimeoutError:
            self._given_up[key] = self._clock()
            return Unresolved(what, f"Slack did not answer within {patience:g} s")
        except ConfirmError as error:
            return Unresolved(what, str(error).removesuffix("."))


class _Outage:
    """A time in which Slack fails for one method. One caller at a time retries, and the others wait
    for the result."""

    def __init__(self, clock: Callable[[], float], pause: Sleep) -> None:
        self._clock, self._pause = clock, pause
        self._failures, self._failed_at = 0, 0.0
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, ask: Callable[[], Awaitable[V]]) -> V:
        while True:
            try:
                if not self._failures:
                    return await self._ask_noting_failure(ask)
                async with self._one_at_a_time:
                    if self._failures:
                        pause = AGAIN[min(self._failures, len(AGAIN)) - 1]
                        if (left := self._failed_at + pause - self._clock()) > 0:
                            await self._pause(left)
                        return await self._ask_noting_failure(ask)
            except Later as later:
                if later.limited:
                    raise

    async def _ask_noting_failure(self, ask: Callable[[], Awaitable[V]]) -> V:
        before = self._failures
        try:
            answer = await ask()
        except Later as later:
            if not later.limited:
                self._failures = max(self._failures, before + 1)  # calls that fail together count as one failure
                self._failed_at = self._clock()
            raise
        except ConfirmError:
            self._failures = 0  # Slack did answer
            raise
        self._failures = 0
        return answer
