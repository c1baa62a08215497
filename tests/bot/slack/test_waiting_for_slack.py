"""Slack limits its questions and sometimes fails for a while: decisions wait, and none is refused."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from adk_confirm.bot.slack.calls import CallLimits
from adk_confirm.bot.slack.own_identity import identify, slack_client
from adk_confirm.bot.worker.worker import HELD_FOR
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.jobs import LONGEST_LAG
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.records import Channel
from tests.bot.dialogues.test_faults import time_passing
from tests.support.office import AT_ONCE, Office, Opens, configured

ONE_GROUP = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL"]\n'
NOT_COUNTED = "whether you may decide"
OUTAGE = 10.0


async def test_a_start_while_slack_is_away_says_when_it_asks_again(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeSlack(our_app()) as slack:
        slack.faults.fails("auth.test", status=503)
        slack.faults.garbles("auth.test", "text/plain")
        settings = configured(slack, "sqlite://")
        assert (await identify(slack_client(settings))).team == "T0ACME"
    assert [record.message.partition(". ")[2] for record in caplog.records] == [
        "Trying again in 1 s.",
        "Trying again in 2 s.",
    ]


@pytest.mark.parametrize("method", ["users.info", "usergroups.users.list"])
@pytest.mark.office(ONE_GROUP)
async def test_a_vote_waits_for_its_turn_to_be_asked_about(at: Office, method: str) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    asked_before = len(at.slack.calls_of(method))  # what the person who asked is called
    limited = at.slack.faults.limits(method, retry_after=60)

    assert (await at.bob.clicks(card, "Approve")).acked

    await limited.reached()
    async with time_passing(at):
        await at.ann.finds("I reimbursed 1500", at.deploys, thread=card)
    assert NOT_COUNTED not in at.bob.sees(at.deploys)
    assert len(at.slack.calls_of(method)) - asked_before == 2


@pytest.mark.parametrize("method", ["users.info", "usergroups.users.list"])
@pytest.mark.office(ONE_GROUP)
async def test_a_vote_does_not_wait_for_ever_and_whoever_cast_it_hears_why(at: Office, method: str) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    at.slack.faults.limits(method, retry_after=60, times=None)
    clicked = at.slack.clock.now()
    await at.bob.clicks(card, "Approve")
    async with time_passing(at):
        await at.bob.finds(NOT_COUNTED, at.deploys, thread=card)
    assert at.slack.clock.now() - clicked > HELD_FOR
    assert "Needs 1 approval" in at.ann.now(card)
    assert at.ran() == []


TWO = f"{ONE_GROUP}quorum = 2\n"


@pytest.mark.office(TWO, limits=CallLimits(time_limit=1, posts=AT_ONCE.posts, lookups=1))
async def test_while_slack_says_nothing_of_who_voted_before_whoever_votes_now_hears_why(at: Office) -> None:
    """Each time what Slack had said of the others was too old by then, and all was asked anew, again and again."""
    at.slack.group("oncall", at.bob, at.cyd, id="S0ONCALL")
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.cyd.clicks(card, "Approve")
    await at.sees(card, "Needs 1 more")
    at.slack.clock.advance(31)

    def is_about_cyd(asked: Mapping[str, object]) -> bool:
        if asked.get("user") == at.cyd.id:
            at.slack.clock.advance(31)  # so long it takes
        return asked.get("user") == at.cyd.id

    at.slack.faults.hangs("users.info", times=None, where=is_about_cyd)
    await at.bob.clicks(card, "Approve")
    await at.bob.finds(NOT_COUNTED, at.deploys, thread=card)
    assert "Needs 1 more" in at.ann.now(card)
    assert at.ran() == []


@pytest.mark.office('[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL", "user:U0LEAD"]\n')
async def test_who_is_named_waits_for_no_group_that_can_not_be_asked_about_yet(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    at.slack.faults.limits("usergroups.users.list", retry_after=60, times=None)
    await at.lead.clicks(card, "Approve")
    await at.sees(card, "I reimbursed 1500")


@pytest.mark.office(ONE_GROUP)
async def test_a_home_is_looked_at_again_when_its_lookups_had_to_wait(at: Office) -> None:
    await at.ask("reimburse 1500 for the team dinner")
    await at.later(minutes=1)  # what is drawn from here on is newer than anything that happened
    at.slack.faults.limits("usergroups.users.list", retry_after=60)
    await at.bob.opens_home("call that waits for you may be missing here")
    await at.later(seconds=61)
    await at.bob.sees_home("Reimburse")


WHEN = """
[[policy]]
tools = ["reimburse"]
when = "args.amount > 100"
approvers = ["group:S0ONCALL"]
quorum = 2
"""


@pytest.mark.office(WHEN)
async def test_no_condition_is_evaluated_while_an_edit_is_counted(at: Office) -> None:
    """It may take a tenth of a second, and more while the process that evaluates it does not get to run."""
    card = await at.ask("reimburse 1500 for the team dinner")
    hang = at.slack.faults.hangs("users.info", times=None)
    await at.bob.clicks(card, "Edit")
    await (await at.bob.gets_modal("Edit")).submits({"amount": "1200"})
    await hang.reached()
    evaluates = [process for process in children() if b"cel_expression" in process[1]]
    assert evaluates
    for pid, _ in evaluates:
        os.kill(pid, signal.SIGSTOP)
    try:
        at.slack.faults.clear()
        await at.ann.finds("Changed by bob", at.deploys, thread=card, timeout=15)
    finally:
        for pid, _ in evaluates:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def children() -> list[tuple[int, bytes]]:
    """Our processes, each with its command line."""
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [(int(pid), Path(f"/proc/{pid}/cmdline").read_bytes()) for pid in pids]


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.office(ONE_GROUP, limits=AT_ONCE)
async def test_ten_seconds_of_errors_keep_nobody_in_a_group_from_approving(at: Office) -> None:
    """Each click used to ask anew until our own limit was used up, and then nobody could approve for a minute."""
    at.slack.rates.methods = True
    cards = [await at.ask(f"reimburse {amount} for the team dinner") for amount in (1500, 1600, 1700)]
    until = time.monotonic() + OUTAGE
    broken = at.slack.faults.fails("usergroups.users.list", times=None, where=lambda _: time.monotonic() < until)

    for card in cards:
        for person in (at.bob, at.cyd):
            assert (await person.clicks(card, "Approve")).acked

    for amount, card in zip((1500, 1600, 1700), cards, strict=True):
        await at.ann.finds(f"I reimbursed {amount}", at.deploys, thread=card, timeout=2 * OUTAGE)
    assert 4 <= broken.met <= 5
    assert NOT_COUNTED not in at.bob.sees(at.deploys) + at.cyd.sees(at.deploys)


@pytest.mark.office(ONE_GROUP)
async def test_what_could_not_be_posted_comes_soon_after_an_outage(at: Office) -> None:
    """Slack posts nothing for a while, but can be asked. That is no failure of a row, which would wait for minutes in
    the end, and be parked."""
    away = at.slack.faults.fails("chat.postMessage", times=None)
    await at.ann.says("@adk-confirm reimburse 1500 for the team dinner", at.deploys)
    async with time_passing(at):
        await at.slack.until(lambda: away.met > 8, what="Slack to be tried")
    rows = await at.bot.database.read(waiting_rows)
    assert rows
    assert [(failures, ahead <= LONGEST_LAG) for failures, ahead in rows] == [(0, True)] * len(rows)
    at.slack.faults.clear()
    async with time_passing(at):
        await decides(at, at.deploys)


def waiting_rows(tx: Tx) -> list[tuple[int, float]]:
    """The failures of each card and thread that is due, and in how many seconds it is."""
    found = tx.all("SELECT failures, due_at FROM jobs WHERE kind IN ('card', 'thread') AND due_at > 0")
    return [(row.failures, row.due_at - tx.now()) for row in found]


@pytest.mark.office(ONE_GROUP)
async def test_a_request_waits_for_its_turn_to_be_asked_about(at: Office) -> None:
    limited = at.slack.faults.limits("conversations.info", retry_after=60)
    await at.ann.says("@adk-confirm reimburse 1500 for the team dinner", at.deploys)
    await limited.reached()
    async with time_passing(at):
        await decides(at, at.deploys)
    assert "did not say whether" not in at.ann.sees(at.deploys)


async def decides(at: Office, channel: Channel) -> None:
    """The agent was asked once, however long it took until somebody could be."""
    await at.bob.clicks(await at.bob.finds("Approve", channel), "Approve")
    await at.ann.finds("I reimbursed 1500", channel)
    assert len(at.ran()) == 1


@pytest.mark.office(ONE_GROUP, limits=CallLimits(posts=AT_ONCE.posts, lookups=0.5))
async def test_a_channel_that_slack_says_nothing_of_is_still_refused(at: Office) -> None:
    at.slack.faults.fails("conversations.info", times=None)
    said = await at.ann.says("@adk-confirm reimburse 1500 for the team dinner", at.deploys)
    await at.ann.finds("Slack did not say whether this channel is shared", at.deploys, thread=said)


@pytest.mark.slow
async def test_more_channels_at_once_than_slack_can_be_asked_about_in_a_minute(open_office: Opens) -> None:
    policies = f"{ONE_GROUP}[limits]\nwaiting_per_person = 100\n"
    async with open_office(policies, limits=CallLimits(time_limit=30)) as at:
        at.slack.rates.methods = True
        channels = [at.slack.channel(f"team-{n}", at.ann, at.bob) for n in range(56)]
        for channel in channels:
            await at.ann.says("@adk-confirm reimburse 1500 for the team dinner", channel)
        await at.slack.until(lambda: len(shown(at, channels)) == 50, timeout=80, what="50 of 56 cards")
        async with time_passing(at):
            await at.slack.until(lambda: len(shown(at, channels)) == 56, timeout=80, what="all of them")
        assert not [channel.name for channel in channels if "did not say whether" in at.ann.sees(channel)]
        assert {*shown(at, channels)} == {channel.id for channel in channels}
        assert {made.status for made in at.slack.calls_of("conversations.info")} == {200}
        await decides(at, channels[-1])


def shown(at: Office, channels: list[Channel]) -> list[str]:
    """Where the cards are, one for each of them."""
    return [one.channel for channel in channels for one in at.bob.messages(channel) if is_card(one)]


def is_card(seen: Seen) -> bool:
    return (seen.message.metadata or {}).get("event_type") == "adk_confirmation_card"
