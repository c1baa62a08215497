"""A process is frozen with SIGSTOP for longer than its leases and continued: nothing is lost, and nothing is there
twice.

Alone, a process goes on where it stood. With others, what it was at is taken over, and it leaves that alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from adk_confirm.bot.store.audit_log import verify_ledger
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.sandbox.server.server import FakeSlack
from tests.bot.dialogues.test_kills import (
    ANSWER,
    DEAD_LETTERS,
    PAY,
    PAY_AT_LENGTH,
    STORY,
    a_card,
    a_line,
    is_posted_whole_and_once,
    somebody,
    words,
)
from tests.support.office import POLICY, SERVICE_SECRET, Staff
from tests.support.serving import LEASE, Serving, serving

pytestmark = pytest.mark.slow

SOON = """
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL"]
expires_after = "3s"
[audit]
checkpoint_every = "1s"
"""
ORDER = {"order.txt": b"Twenty for Ada."}
TRANSACTIONS = (
    "receive_mention",  # a mention is heard
    "save_drawn",  # a card is drawn
    "cast",
    "count_next",
    "look_in_or_enter",  # the agent has a message
    "write",  # what became of a call is stored
    "open_and_finish",  # a request is opened, or an answer was sent and its last words are said, and the session ends
    "note_and_look",
)
TAKEN_OVER = (
    *("receive_mention", "save_drawn"),
    *("count_next", "look_in_or_enter", "open_and_finish", "note_and_look"),
)
"""Those after which something outside follows, or something that another process would do again."""


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Staff]:
    async with FakeSlack(our_app()) as slack:
        yield Staff.of(slack, tmp_path / "tools.log")


async def test_alone_it_goes_on_where_it_stood(at: Staff, database_url: str, tmp_path: Path) -> None:
    """Frozen again and again, after each of its transactions once."""
    async with serving(at.slack, database_url, tmp_path, POLICY) as bot:
        await bot.starts(",".join(TRANSACTIONS))
        left = set(TRANSACTIONS)
        with somebody(at, "Approve"):
            await at.ann.says(PAY, at.deploys, files=ORDER)
            while left:
                async with asyncio.timeout(60):
                    left.discard(await bot.reached())
                bot.freezes()
                await asyncio.sleep(1.2 * LEASE)  # what is awaited is that time passes for the database
                bot.thaws()
                at.slack.clock.advance(DEAD_LETTERS)
            await is_posted_whole_and_once(at)


async def test_the_agent_hears_that_its_call_was_late_though_the_bot_died_right_then(
    at: Staff, database_url: str, tmp_path: Path
) -> None:
    async with serving(at.slack, database_url, tmp_path, f'{POLICY}start_within = "1s"\n') as bot:
        await bot.starts("count_next,write")
        card = await at.ask('pay {"to": "Ada", "amount": 20}')
        await at.bob.clicks(card, "Approve")
        assert await bot.reached() == "count_next"
        await asyncio.sleep(1.2)  # what is awaited is that the approval's time is over
        bot.thaws()
        assert await bot.reached() == "write", "the call was to begin, and that it is too late is stored"
        await bot.killed()

        await bot.starts()
        await at.sees(card, "Not started in time: Pay", "did not start within 1s")
        assert at.ran() == []


@pytest.mark.parametrize("stored", TAKEN_OVER)
async def test_what_was_taken_over_it_leaves_alone(at: Staff, postgres_url: str, tmp_path: Path, stored: str) -> None:
    async with replicas(at, postgres_url, tmp_path, 3 if stored == "look_in_or_enter" else 2) as (first, *others):
        await first.starts(stored)
        with somebody(at, "Approve"):
            await at.ann.says(PAY, at.deploys, files=ORDER)
            await first.reached()
            await taken_over(at, first, others)


@pytest.mark.parametrize(
    ("method", "what", "acted"),
    [
        ("chat.postMessage", a_card, True),
        ("chat.postMessage", a_line, True),
        ("chat.postMessage", words, True),
        ("chat.update", a_card, True),
        # Slack acts on these once they are let go: an old face lands over a new one, and words are there twice.
        ("chat.update", a_card, False),
        ("chat.postMessage", a_line, False),
        ("chat.postMessage", words, False),
    ],
)
async def test_what_was_sent_as_it_froze_stands_there_once(
    at: Staff, postgres_url: str, tmp_path: Path, method: str, what: Callable[[JsonObject], bool], acted: bool
) -> None:
    async with replicas(at, postgres_url, tmp_path) as (first, *others):
        await first.starts()
        hang = at.slack.faults.hangs(method, acted=acted, where=what)
        with somebody(at, "Approve"):
            await at.ann.says(PAY_AT_LENGTH if what is a_line else PAY, at.deploys)
            await first.until(hang.reached())
            await taken_over(at, first, others)


async def test_a_line_that_waited_for_slack_is_not_told_again(at: Staff, postgres_url: str, tmp_path: Path) -> None:
    async with replicas(at, postgres_url, tmp_path) as (first, *others):
        await first.starts()
        limit = at.slack.faults.limits("chat.postMessage", retry_after=2, where=a_line)
        with somebody(at, "Approve"):
            await at.ann.says(PAY_AT_LENGTH, at.deploys)
            await first.until(limit.reached())
            await taken_over(at, first, others)


@pytest.mark.parametrize(("stored", "nth"), [("keep_time", 1), ("seal_moved", 4)])
async def test_what_was_due_happens_once(at: Staff, postgres_url: str, tmp_path: Path, stored: str, nth: int) -> None:
    """A card expires, or a checkpoint is made. The first checkpoints are made over nothing."""
    async with replicas(at, postgres_url, tmp_path, policies=SOON) as (first, *others):
        await first.starts(stored, nth)
        await at.ann.says(PAY, at.deploys)
        await first.reached()
        first.freezes()
        for other in others:
            await other.joins()
        await at.ann.finds("⌛ @ann, nobody decided in time: ", at.deploys)
        first.thaws()
        await first.stops()
        await at.slack.settled()
        assert at.ann.sees(at.deploys).count("⌛ @ann, nobody decided in time: ") == 1
        assert at.ran() == []
        for other in others:
            await other.stops()
    database = await Database.open(postgres_url, read_only=True)
    try:
        report = await database.read(verify_ledger, Seal(SERVICE_SECRET))
    finally:
        await database.close()
    assert (report.broken, report.loose) == (None, 0)
    assert report.checkpoints > 0


@asynccontextmanager
async def replicas(
    at: Staff, url: str, directory: Path, count: int = 2, policies: str = POLICY
) -> AsyncIterator[list[Serving]]:
    """Some on one database. The first is started by the test; the others stand by."""
    async with AsyncExitStack() as stack:
        opened = [serving(at.slack, url, directory, policies) for _ in range(count)]
        first, *others = [await stack.enter_async_context(one) for one in opened]
        for other in others:
            await other.stands_by()
        yield [first, *others]


async def taken_over(at: Staff, first: Serving, others: list[Serving]) -> None:
    """The first one is frozen; the others carry the work to its end; then it thaws, and changes nothing."""
    first.freezes()
    for other in others:
        await other.joins()
    at.slack.clock.advance(DEAD_LETTERS)
    # A process that froze within a transaction keeps its locks until that is ended, after about six seconds.
    for sentence in (STORY, ANSWER, "Done: Pay"):
        await at.ann.finds(sentence, at.deploys, timeout=60)
    first.thaws()
    at.slack.faults.clear()
    await first.stops()
    await at.slack.until(lambda: all(at.ann.sees(at.deploys).count(line) == 1 for line in (STORY, ANSWER)), timeout=60)
    await is_posted_whole_and_once(at)
