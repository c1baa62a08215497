"""What one approval costs the store, from the mention until all is quiet: claims and put-offs are counted, too.

The numbers in `tests/counts.json` only fall.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from statistics import median

import pytest

from adk_confirm.bot.slack.calls import CallLimits
from adk_confirm.runtime.store.database import Database
from adk_confirm.sandbox.people.seen import Seen
from tests.support.counting import at_most, counted_sql
from tests.support.office import LAB, ONE, Office, office

THINKS = 1.5
"""Seconds that a person looks at the card before they press a button."""

CYCLES, EARLIER = 3, 47
"""How many cycles are counted, and how many calls a long thread has by then, the last after the restart."""


class Cycles:
    """In each, somebody asks, somebody else looks at the card and approves, the call runs, and the agent replies."""

    def __init__(self, at: Office, reading: Database) -> None:
        self._at, self._reading, self._amounts = at, reading, count(101)
        self.counted = Counter[str]()

    async def run(self, thread: Seen | None = None, *, thinks: float = THINKS) -> Seen:
        at, amount = self._at, next(self._amounts)
        words = f"@adk-confirm pay {json.dumps({'to': 'Ada', 'amount': amount})}"
        said = await at.ann.says(words, at.deploys, thread=thread)
        card = await at.ann.finds(f"amount {amount}", at.deploys, thread=said)
        await asyncio.sleep(thinks)
        await at.bob.clicks(card, "Approve")
        await at.rests(reading=self._reading)
        assert at.ann.messages(at.deploys, thread=said)[-1].text == 'pay: {"did":"pay"}'
        return said

    async def count(self, scenario: str, thread: Seen | None = None) -> None:
        each: list[Counter[str]] = []
        for _ in range(CYCLES):
            before = self.counted.copy()
            await self.run(thread)
            each.append(self.counted - before)
        for what in ("writes", "reads", "statements"):
            at_most(f"{what} of {scenario}", median(one[what] for one in each))


@pytest.fixture
async def reading(sqlite_url: str) -> AsyncIterator[Database]:
    database = await Database.open(sqlite_url, read_only=True)
    yield database
    await database.close()


@pytest.mark.slow
async def test_what_an_approval_asks_of_the_store(
    sqlite_url: str, reading: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(sqlite_url, tmp_path / "log", monkeypatch, ONE, target=LAB) as at:
        cycles = Cycles(at, reading)
        thread = await cycles.run(thinks=0.0)
        for _ in range(EARLIER - 1):
            await cycles.run(thread, thinks=0.0)
        await at.stops()
        at.limits = CallLimits()
        at.slack.rates.methods = at.slack.rates.posts = True
        with counted_sql() as cycles.counted:
            await at.starts(ONE)
            for known in (None, thread):  # who people are is known from here on, and what was said in the thread
                await cycles.run(known, thinks=0.0)
            await cycles.count("a cycle")
            await cycles.count("the 50th cycle of a thread", thread)


@pytest.mark.slow
async def test_what_a_click_of_ten_asks_of_the_store(
    sqlite_url: str, reading: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten calls of one turn wait. Each click is counted until all is quiet: vote, call, card and line."""
    async with office(sqlite_url, tmp_path / "log", monkeypatch, ONE, target=LAB) as at:
        await at.stops()
        with counted_sql() as counted:
            await at.starts(ONE)
            amounts = range(101, 111)
            calls = [f"pay {json.dumps({'to': 'Ada', 'amount': amount})}" for amount in amounts]
            said = await at.ann.says("\n".join(["@adk-confirm", *calls]), at.deploys)
            cards = [await at.ann.finds(f"amount {amount}", at.deploys, thread=said) for amount in amounts]
            each: list[Counter[str]] = []
            await at.rests(reading=reading)
            for card in cards:
                counted.clear()
                await at.bob.clicks(card, "Approve")
                await at.rests(reading=reading)
                each.append(counted.copy())
            for what in ("writes", "statements"):
                at_most(f"{what} of a click of ten", median(one[what] for one in each))
    assert len(at.ran()) == len(cards)
