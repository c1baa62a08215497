"""Decisions and runs do not wait for posts to Slack. Cards and lines follow later."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from adk_confirm import Answer, Runner
from adk_confirm.bot.agents import session_worker
from adk_confirm.bot.confirmation.confirmation import Confirmation
from adk_confirm.bot.confirmation.stored_json import from_json
from adk_confirm.bot.hosts.embedded import EmbeddedHost
from adk_confirm.bot.policy.approvers import OPERATOR
from adk_confirm.bot.store.pause import pause_runs, resume_runs
from adk_confirm.bot.store.repository import JOBS
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.lease import topic_of
from adk_confirm.runtime.wire import SessionId
from adk_confirm.sandbox.people.seen import Seen
from tests.support.office import AT_ONCE, IN_CI_ON_BOTH, LAB, Office, Opens
from tests.support.waiting import until

pytestmark = pytest.mark.office(target=LAB)

THINK_FOR_ONE = 32
PATIENCE = 60.0
"""What is awaited here would not come at all without the mend, or only after the trouble is over."""


async def three_cards(at: Office) -> list[Seen]:
    calls = "\n".join(f'pay {{"to": "Ada", "amount": {amount}}}' for amount in (1, 2, 3))
    said = await at.ann.says(f"@adk-confirm {calls}", at.deploys)
    await at.slack.until(lambda: len(cards(at, said)) == 3)
    await at.rests()
    return cards(at, said)


def cards(at: Office, thread: Seen) -> list[Seen]:
    return [one for one in at.bob.messages(at.deploys, thread=thread.thread or thread.ts) if "Approve" in one.buttons]


async def have_run(at: Office, count: int) -> None:
    """In the tools' log, whatever Slack shows."""
    async with asyncio.timeout(PATIENCE):
        with at.bot.database.waiter(*map(topic_of, ("thread", "session", "confirmation"))) as waiter:
            while len(at.ran()) < count:
                await waiter.wait(0.2)


@pytest.mark.parametrize("wrong", ["fails", "is limited", "is archived"])
async def test_approved_calls_run_while_nothing_can_be_posted(at: Office, wrong: str) -> None:
    asked = await three_cards(at)
    if wrong == "fails":
        at.slack.faults.fails("chat.*", times=None)
    elif wrong == "is limited":
        at.slack.faults.limits("chat.*", retry_after=3600, times=None)
    else:
        at.deploys.is_archived = True

    for card in asked:
        assert (await at.bob.clicks(card, "Approve")).acked

    await have_run(at, 3)
    assert {line["amount"] for line in at.ran()} == {1, 2, 3}


async def test_a_run_has_no_lease_beside_the_sessions_own(at: Office) -> None:
    card = await at.ask('pay {"to": "Ada", "amount": 20}')
    await at.bob.clicks(card, "Approve")
    await have_run(at, 1)
    await at.rests()
    kinds = await at.bot.database.read(lambda tx: {*tx.column("SELECT kind FROM jobs")})
    assert kinds <= {*JOBS}


@pytest.mark.parametrize("people", ["ann", "ann and cyd"])
async def test_an_approved_call_does_not_wait_for_other_threads_whose_agent_thinks(
    open_office: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, people: str
) -> None:
    """As many as may think at once: for the person who asked for the call, or for all people together."""
    gate = tmp_path / "gate"
    monkeypatch.setenv("LAB_GATE", str(gate))
    async with open_office(target=LAB, time_moves=False) as at:
        card = await at.ask('pay {"to": "Ada", "amount": 20}')
        await at.rests()
        askers = [at.ann, at.cyd] if people == "ann and cyd" else [at.ann]
        for number in range(THINK_FOR_ONE * len(askers)):
            await askers[number % len(askers)].says("@adk-confirm think about it", at.deploys)
        await until(lambda: at.bot.database.read(as_many_at_work, THINK_FOR_ONE * len(askers)))

        await at.bob.clicks(card, "Approve")

        await have_run(at, 1)
        gate.touch()


async def test_who_writes_in_the_threads_of_others_takes_their_own_turns(
    open_office: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bob began them, and still has all of his turns."""
    gate = tmp_path / "gate"
    monkeypatch.setenv("LAB_GATE", str(gate))
    async with open_office(target=LAB, time_moves=False) as at:
        begun = [await at.bob.says("@adk-confirm hello", at.deploys) for _ in range(THINK_FOR_ONE)]
        await at.rests()
        for thread in begun:
            await at.oscar.says("@adk-confirm think about it", at.deploys, thread=thread)
        await until(lambda: at.bot.database.read(as_many_at_work, THINK_FOR_ONE))

        await at.ask('pay {"to": "Ada", "amount": 20}', at.bob)

        assert await at.bot.database.read(words_wait)
        gate.touch()


def as_many_at_work(tx: Tx, many: int) -> bool:
    """Whether so many sessions are being attended to."""
    return len(tx.all("SELECT key FROM jobs WHERE kind = 'session' AND lease_token IS NOT NULL")) >= many


def words_wait(tx: Tx) -> bool:
    """Whether somebody's words are not dealt with yet."""
    return tx.first("SELECT id FROM bot_mail WHERE kind = 'words' AND done_at IS NULL") is not None


DESK = """
[[policy]]
tools = ["breaks"]
approvers = ["user:U0BOB"]
channel = "C0DESK"
[[policy]]
tools = ["*"]
approvers = ["user:U0BOB"]
"""


@pytest.mark.parametrize("what", ["a channel", "our turn", "a file"])
async def test_an_approved_call_does_not_wait_for_what_slack_is_asked_about_others(
    open_office: Opens, what: str
) -> None:
    """In the same session: a card that belongs elsewhere is prepared, or a file is fetched."""
    async with open_office(DESK, target=LAB, time_moves=False) as at:
        at.slack.channel("desk", at.ann, at.bob, id="C0DESK")
        card = await at.ask('pay {"to": "Ada", "amount": 20}')
        await at.rests()
        at.slack.clock.advance(3600)  # what is known of channels is out of date
        if what == "a file":
            fault = at.slack.faults.hangs("download", times=None)
            await at.ann.says("@adk-confirm read this", at.deploys, thread=card, files={"order.txt": b"Twenty."})
        else:
            where = ("conversations.info", lambda args: args.get("channel") == "C0DESK")
            if what == "a channel":
                fault = at.slack.faults.hangs(where[0], times=None, where=where[1])
            else:
                fault = at.slack.faults.limits(where[0], retry_after=3600, times=None, where=where[1])
            await at.ann.says('@adk-confirm breaks {"why": "it is old"}', at.deploys, thread=card)
        await fault.reached()

        await at.bob.clicks(at.bob.now(card), "Approve")
        await have_run(at, 1)
        assert await at.bot.database.read(words_wait)

        if what != "our turn":
            at.slack.faults.clear()
            await at.slack.until(lambda: at.ann.sees(at.deploys, thread=card).count('pay: {"did":"pay"}') == 1)
        assert len(at.ran()) == 1


ON_CALL = """
[limits]
waiting_per_session = 100
waiting_per_person = 100
[[policy]]
tools = ["breaks"]
approvers = ["user:U0BOB"]
expires_after = "10m"
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL"]
"""


@pytest.mark.slow
async def test_a_request_expires_while_slack_says_nothing_about_many_voters(open_office: Opens) -> None:
    """More of them than are counted at once."""
    async with open_office(ON_CALL, target=LAB, limits=replace(AT_ONCE, lookups=3600)) as at:
        calls = "\n".join(f'pay {{"to": "Ada", "amount": {amount}}}' for amount in range(26))
        threads = [await at.ann.says(f"@adk-confirm {calls}", at.deploys) for _ in range(3)]
        due = await at.ann.says('@adk-confirm breaks {"why": "it is old"}', at.deploys)
        await at.slack.until(lambda: all(len(cards(at, thread)) == 26 for thread in threads))
        await at.later(minutes=9)  # what is known of people is out of date
        for method in ("usergroups.users.list", "users.info"):
            at.slack.faults.hangs(method, times=None)
        for card in [one for thread in threads for one in cards(at, thread)]:
            await at.bob.clicks(card, "Approve")

        await at.later(minutes=2, meanwhile=True)

        await at.ann.finds("Expired", at.deploys, thread=due)
        at.slack.faults.clear()
        await have_run(at, 78)


async def test_answers_that_waited_are_given_in_one_message(at: Office) -> None:
    asked = await three_cards(at)
    runner, session = await approved_while_paused(at, asked)

    await at.bot.database.run(resume_runs, OPERATOR, None)
    await at.later(seconds=5)  # until it is looked at again

    await have_run(at, 3)
    record = await runner.get_session(user_id=session.user_id, session_id=session.id)
    assert record is not None
    assert sum(event.author == "user" for event in record.events) == 2  # the mention, and all three answers


async def test_an_answer_that_does_not_fit_keeps_no_other_from_running(at: Office) -> None:
    """Its call was denied meanwhile, by somebody who answered the runtime itself."""
    asked = await three_cards(at)
    runner, session = await approved_while_paused(at, asked)
    calls = await runner.calls(user_id=session.user_id, session_id=session.id)
    assert calls[1].request is not None
    denial = Answer(calls[1].request.request_id, confirmed=False).as_content()
    async for _ in runner.run(user_id=session.user_id, session_id=session.id, message=denial):
        pass

    await at.bot.database.run(resume_runs, OPERATOR, None)
    await at.later(seconds=5)  # until it is looked at again

    await have_run(at, 2)
    await at.rests()
    assert {line["amount"] for line in at.ran()} == {1, 3}


async def test_the_thread_reports_an_outside_answer(at: Office) -> None:
    card = (await three_cards(at))[0]
    runner, session = await runner_of(at)
    calls = await runner.calls(user_id=session.user_id, session_id=session.id)
    assert calls[0].request is not None
    approval = Answer(calls[0].request.request_id, confirmed=True).as_content()
    async for _ in runner.run(user_id=session.user_id, session_id=session.id, message=approval):
        pass

    await at.ann.says("@adk-confirm hello", at.deploys, thread=card)

    await at.ann.finds("was approved outside this app", at.deploys, thread=card)


async def test_what_became_of_a_call_is_stored_with_it(
    at: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looks for it while another call of the session runs."""
    monkeypatch.setattr(session_worker, "LOOK_WHILE_RUNNING", 1000.0)
    monkeypatch.setenv("LAB_GATE", str(tmp_path / "gate"))
    said = await at.ann.says('@adk-confirm pay {"to": "Ada", "amount": 1}\nwork {"on": "it"}', at.deploys)
    await at.slack.until(lambda: len(cards(at, said)) == 2)
    await at.rests()
    await approved_while_paused(at, cards(at, said))

    await at.bot.database.run(resume_runs, OPERATOR, None)
    await at.later(seconds=5, meanwhile=True)  # until it is looked at again

    async with asyncio.timeout(PATIENCE):
        with at.bot.database.waiter(topic_of("thread")) as waiter:
            while await at.bot.database.read(outcomes) != {"pay": "done", "work": "running"}:
                await waiter.wait(0.2)
    assert {line["tool"] for line in at.ran()} == {"begins", "pay"}
    (tmp_path / "gate").touch()
    await have_run(at, 3)


def outcomes(tx: Tx) -> dict[str, str | None]:
    return {row.tool: row.outcome for row in tx.all("SELECT tool, outcome FROM bot_confirmations")}


async def approved_while_paused(at: Office, asked: list[Seen]) -> tuple[Runner, SessionId]:
    """The session's runner and key. Every approval waits in the session's mailbox."""
    await at.bot.database.run(pause_runs, OPERATOR, None)
    for card in asked:
        await at.bob.clicks(card, "Approve")
    await at.rests()
    assert at.ran() == []
    return await runner_of(at)


async def runner_of(at: Office) -> tuple[Runner, SessionId]:
    """The runtime's own, beside the bot."""
    assert isinstance(at.bot.host, EmbeddedHost)
    (session,) = await at.bot.database.read(sessions_of_rows)
    return at.bot.host.runner, session


def sessions_of_rows(tx: Tx) -> set[SessionId]:
    return {from_json(Confirmation, body).asked.session for body in tx.column("SELECT body FROM bot_confirmations")}


@IN_CI_ON_BOTH
async def test_cards_that_hang_keep_no_other_from_being_decided(at: Office) -> None:
    """More of them than are drawn at once."""
    calls = "\n".join(f'pay {{"to": "Ada", "amount": {amount}}}' for amount in range(20))
    said = await at.ann.says(f"@adk-confirm {calls}", at.deploys)
    await at.slack.until(lambda: len(cards(at, said)) == 20)
    await at.rests()
    hang = at.slack.faults.hangs("chat.update", times=None)

    for card in cards(at, said):
        await at.bob.clicks(card, "Approve")

    await hang.reached()
    await have_run(at, 20)
    at.slack.faults.clear()
