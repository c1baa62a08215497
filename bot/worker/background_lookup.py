"""Asks Slack about voters in the background, so that other rows are not held up while Slack is slow."""

from __future__ import annotations

import asyncio
from typing import Protocol

from adk_confirm.bot.confirmation.authorise import Facts
from adk_confirm.bot.confirmation.model import Confirmation, Vote
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.policy.model import Policies
from adk_confirm.runtime.store.jobs import NotNow

AT_ONCE, LATER = 2.0, 1.0
"""A row waits this many seconds for Slack. Then others get their turn, and it looks for the answer at intervals of the
second number."""

KNOWN_FOR = 30.0
"""Seconds after which an answer is forgotten that no row asked for again, since rights may change."""


class PeopleLookup(Protocol):
    """Looks up what must be known before a vote is counted."""

    async def facts(
        self, row: Confirmation, vote: Vote, policies: Policies, speakers: frozenset[Person] = ...
    ) -> Facts: ...


class BackgroundLookup:
    """Asks about a voter in a task that goes on after the row was put off. The row finds the answer when it is tried
    again."""

    def __init__(self, people: PeopleLookup) -> None:
        self._people = people
        self._asked: dict[tuple[str, int, str], asyncio.Task[Facts]] = {}

    async def facts(
        self, row: Confirmation, vote: Vote, policies: Policies, speakers: frozenset[Person] = frozenset()
    ) -> Facts:
        """Raises `NotNow` if Slack has not answered soon."""
        key = row.id, row.version, vote.id
        known = self._asked.get(key)
        asked = known or asyncio.ensure_future(self._people.facts(row, vote, policies, speakers))
        if known is None:
            self._keep(key, asked)
        await asyncio.wait({asked}, timeout=AT_ONCE if known is None else 0)
        if not asked.done() or asked.cancelled():
            raise NotNow(LATER, "Slack has not answered yet who may decide.")
        self._asked.pop(key, None)
        return asked.result()

    def stop(self) -> None:
        """Cancels the open questions."""
        for asked in self._asked.values():
            asked.cancel()

    def _keep(self, key: tuple[str, int, str], asked: asyncio.Task[Facts]) -> None:
        self._asked[key] = asked
        loop = asyncio.get_running_loop()
        asked.add_done_callback(lambda _: loop.call_later(KNOWN_FOR, self._forget, key, asked))

    def _forget(self, key: tuple[str, int, str], asked: asyncio.Task[Facts]) -> None:
        if self._asked.get(key) is asked:
            del self._asked[key]
