"""Asks Slack what a decision waits for: who somebody is, who is in a group, what a channel is.

A caller waits at most for `patience`. While Slack fails, the question is repeated at growing intervals, by one caller
at a time for each method, because failed questions count towards Slack's limit too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from bot.policy.approvers import Unresolved
from bot.slack.cache import LookupCache
from bot.slack.outbound.calls import Call
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import Later
from bot.slack.outbound.methods import Method
from runtime.errors import ConfirmError
from runtime.jsontypes import JsonObject

PATIENCE = 30.0
AGAIN = (1.0, 2.0, 4.0, 8.0)
"""The pauses before a failed question is asked again. The last one repeats."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

Sleep = Callable[[float], Awaitable[None]]


class Questions:
    def __init__(
        self,
        sender: Sender,
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
        pause: Sleep = asyncio.sleep,
    ) -> None:
        self._sender, self._patience, self._clock, self._pause = sender, patience, clock, pause
        self._outages: dict[str, _Outage] = {}

    async def ask(self, method: Method, call: Call) -> JsonObject:
        """Asks until Slack answers. `answer` cancels this when nobody waits any more."""
        outage = self._outages.setdefault(method.name, _Outage(self._clock, self._pause))
        return await outage.ask(lambda: self._sender.ask(method, call))

    async def answer(
        self, what: str, lookups: LookupCache[K, T], key: K, ask: Callable[[], Awaitable[T]], *, anew: bool = False
    ) -> T | Unresolved:
        """The known answer for `key`, or a new one; with `anew` always a new one. Waits for a turn only if that leaves
        Slack as much time again to answer. Otherwise the result says when the turn comes."""
        until = self._clock() + self._patience
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    try:
                        return await lookups.get(key, ask, anew=anew)
                    except Later as later:
                        if later.after >= (until - self._clock()) / 2:
                            why = f"Slack answers no more questions for {later.after:.0f} s"
                            return Unresolved(what, why, later.after)
                        await self._pause(later.after)
        except TimeoutError:
            return Unresolved(what, f"Slack did not answer within {self._patience:g} s")
        except ConfirmError as error:
            return Unresolved(what, str(error).removesuffix("."))


class _Outage:
    """A time in which Slack fails for one method. One caller at a time retries, and the others wait
    for the result."""

    def __init__(self, clock: Callable[[], float], pause: Sleep) -> None:
        self._clock, self._pause = clock, pause
        self._failures, self._failed_at = 0, 0.0
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                if not self._failures:
                    return await self._ask_noting_failure(ask)
                async with self._one_at_a_time:
                    if self._failures:
                        await self._wait_for_next()
                        return await self._ask_noting_failure(ask)
            except Later as later:
                if later.limited:
                    raise

    async def _wait_for_next(self) -> None:
        pause = AGAIN[min(self._failures, len(AGAIN)) - 1]
        left = self._failed_at + pause - self._clock()
        if left > 0:
            await self._pause(left)

    async def _ask_noting_failure(self, ask: Callable[[], Awaitable[T]]) -> T:
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
