"""Frozen with SIGSTOP for longer than its leases, and thawed: nothing is lost, and nothing is there twice.

Alone, a process goes on where it stood. With others, what it was at is taken over, and it leaves that alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from bot.sandbox.server.faults import Fault
from bot.sandbox.server.server import FakeSlack
from runtime.jsontypes import JsonObject
from tests.bot.dialogues.test_kills import (
    ANSWER,
    DEAD_LETTERS,
    PAY,
    STORY,
    a_card,
    a_line,
    is_told_whole_and_once,
    somebody,
    words,
)
from tests.support.office import POLICY, Staff
from tests.support.serving import Serving, serving

pytestmark = pytest.mark.slow

LEASE = 1.0
SHORT = f'{POLICY}\n[store]\nlease = "1s"\n'
TRANSACTIONS = (
    "hear",  # a mention is heard
    "open_request",
    "placed",  # a card is drawn
    "cast",
    "count_next",
    "hand_over",  # an answer is about to be sent
    "see",
    "say_later",
    "letters_done",  # an answer was sent
    "begin",  # a post is about to be sent
    "told_up_to",
    "spoke",
    "rest",
)


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Staff]:
    async with FakeSlack() as slack:
        yield Staff.of(slack, tmp_path / "tools.log")


async def frozen_alone(at: Staff, bot: Serving, reached: Callable[[], object]) -> None:
    """From the mention to the end of the story, with a freeze where the bot stands."""
    with somebody(at, "Approve"):
        await at.ann.says(PAY, at.deploys)
        await reached()  # type: ignore[misc]  # it is awaited, whatever it returns
        bot.freezes()
        await asyncio.sleep(1.5 * LEASE)  # what is awaited is that time passes for the database
        bot.thaws()
        at.slack.faults.clear()
        at.slack.clock.advance(DEAD_LETTERS)
        await is_told_whole_and_once(at)


@pytest.mark.parametrize("stored", TRANSACTIONS)
async def test_alone_it_goes_on_where_it_stood(at: Staff, database_url: str, tmp_path: Path, stored: str) -> None:
    async with serving(at.slack, database_url, tmp_path, SHORT) as bot:
        await bot.starts(stored)
        await frozen_alone(at, bot, bot.reached)


@pytest.mark.parametrize("stored", TRANSACTIONS)
async def test_what_was_taken_over_it_leaves_alone(at: Staff, postgres_url: str, tmp_path: Path, stored: str) -> None:
    async with replicas(at, postgres_url, tmp_path) as (first, *others):
        await first.starts(stored)
        with somebody(at, "Approve"):
            await at.ann.says(PAY, at.deploys)
            await first.reached()
            await taken_over(at, first, others)


@pytest.mark.parametrize(
    ("method", "what", "acted"),
    [
        ("chat.postMessage", a_card, True),
        ("chat.postMessage", a_line, True),
        ("chat.postMessage", words, True),
        ("chat.update", a_card, True),
        ("chat.update", a_card, False),  # Slack acts on it once it is let go: an old face lands over a new one
    ],
)
async def test_what_was_sent_as_it_froze_stands_there_once(
    at: Staff, postgres_url: str, tmp_path: Path, method: str, what: Callable[[JsonObject], bool], acted: bool
) -> None:
    async with replicas(at, postgres_url, tmp_path) as (first, *others):
        await first.starts()
        hang: Fault = at.slack.faults.hangs(method, acted=acted, where=what)
        with somebody(at, "Approve"):
            await at.ann.says(PAY, at.deploys)
            await hang.reached()
            await taken_over(at, first, others)


async def test_a_line_that_waited_for_slack_is_not_told_again(at: Staff, postgres_url: str, tmp_path: Path) -> None:
    async with replicas(at, postgres_url, tmp_path) as (first, *others):
        await first.starts()
        limit = at.slack.faults.limits("chat.postMessage", retry_after=2, where=a_line)
        with somebody(at, "Approve"):
            await at.ann.says(PAY, at.deploys)
            await limit.reached()
            await taken_over(at, first, others)


class replicas:
    """Three on one database; none is started yet."""

    def __init__(self, at: Staff, url: str, directory: Path) -> None:
        self._at, self._url, self._directory = at, url, directory
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> list[Serving]:
        opened = [serving(self._at.slack, self._url, self._directory, SHORT) for _ in range(3)]
        return [await self._stack.enter_async_context(one) for one in opened]

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()


async def taken_over(at: Staff, first: Serving, others: list[Serving]) -> None:
    """The first one is frozen; the others tell the story to its end; then it thaws, and changes nothing."""
    first.freezes()
    for other in others:
        await other.starts()
    at.slack.clock.advance(DEAD_LETTERS)
    # A process that froze within a transaction holds its rows until PostgreSQL ends it, after five seconds.
    for told in (STORY[-1], ANSWER, "pay is done"):
        await at.ann.finds(told, at.deploys, timeout=60)
    first.thaws()
    at.slack.faults.clear()
    await first.stops()
    await is_told_whole_and_once(at)
