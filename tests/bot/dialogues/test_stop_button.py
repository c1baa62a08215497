"""Somebody presses Slack's stop button: the run ends, and decisions still count."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.store.agent_status import SUSPENDED_AFTER
from adk_confirm.bot.store.letters import StopPress, stop_run
from adk_confirm.bot.store.open import open_store
from adk_confirm.runtime.store.database import Tx
from adk_confirm.sandbox.people.seen import Seen
from tests.support.foreign.fifos import all_let_go, hold, let_go
from tests.support.foreign.tools import MODEL
from tests.support.office import BOTH_WAYS, LAB, ONE, TALKER, Office, Opens
from tests.support.talking import Mouth
from tests.support.waiting import until

ANN = Person("T0ACME", "U0ANN")
SECRET = "not a secret, but long enough"


async def works(at: Office, said: Seen) -> None:
    """Waits until Slack shows the stop button."""

    def look() -> bool | None:
        session = at.deploys.sessions.get(said.thread)
        return (session is not None and session.status == "processing") or None

    await at.slack.until(look, what="the stop button")


async def is_turned_over(at: Office, said: Seen, status: str) -> None:
    await at.later(seconds=SUSPENDED_AFTER, meanwhile=True)
    await at.slack.until(lambda: at.deploys.sessions[said.thread].status == status or None, what=f"it to be {status}")


@BOTH_WAYS
@pytest.mark.office(target=TALKER)
async def test_a_reply_that_is_stopped_ends_and_the_next_words_are_answered(at: Office, mouth: Mouth) -> None:
    said = await at.ann.says("@adk-confirm hello", at.deploys)
    await works(at, said)
    mouth.say("It is ")
    await mouth.words.join()
    at.ann.stops(at.deploys, said)

    await at.sees(said, "ann stopped the agent.")
    await is_turned_over(at, said, "active")
    mouth.words = asyncio.Queue()
    await at.ann.says("@adk-confirm and now?", at.deploys, thread=said)
    mouth.say("Now it works.", None)
    await at.sees(said, "Now it works.")
    await at.rests()
    assert mouth.heard == ["hello", "and now?"]
    assert "It is" not in at.ann.sees(at.deploys, thread=said)
    pressed = [one for one in at.slack.deliveries if one.what == "agent_session_stopped"]
    while not (await at.slack.repeats(pressed[0])).acked:
        pass  # Slack repeats it until it is acked, which takes longer than 3 s where the disk is busy
    await at.rests()
    assert at.ann.sees(at.deploys, thread=said).count("stopped the agent") == 1


async def test_what_waits_keeps_waiting_and_a_tool_that_runs_is_not_torn(
    open_office: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setenv("LAB_GATE", str(gate))
    async with open_office(ONE, target=LAB, time_moves=True) as at:
        said = await at.ann.says('@adk-confirm work {"on": "x"}\npay {"to": "Ada", "amount": 20}', at.deploys)
        work = await at.sees(said, "Work")
        pay = await at.sees(said, "to Ada")
        await at.bob.clicks(work, "Approve")
        await works(at, said)
        at.ann.stops(at.deploys, said)
        note = await at.sees(said, "ann stopped the agent.")
        assert "work was approved and still runs" in note
        assert "pay still waits for a decision" in note

        gate.touch()
        await at.sees(said, "Done: Work")
        await is_turned_over(at, said, "suspended")
        assert "Approve" in at.bob.now(pay).buttons
        await at.bob.clicks(pay, "Approve")
        await at.sees(said, "Done: Pay")
        assert [one["tool"] for one in at.ran()] == ["begins", "work", "pay"]


@pytest.mark.office(target=TALKER)
async def test_a_stop_that_was_stored_holds_for_whoever_goes_on_with_the_run(
    at: Office, database_url: str, mouth: Mouth
) -> None:
    said = await at.ann.says("@adk-confirm hello", at.deploys)
    await works(at, said)
    await at.stops()
    database = await open_store(database_url, SECRET, at.slack.clock.now)
    app = await database.read(the_app)
    stop = StopPress(app=app, team=at.slack.team.id, channel=said.channel, thread_ts=said.thread, person=ANN, event="1")
    assert await database.run(stop_run, stop)
    assert not await database.run(stop_run, stop)
    await database.close()

    mouth.words = asyncio.Queue()
    at.slack.clock.advance(60)  # the lease of the first process is over
    await at.starts(at.policies)
    await at.sees(said, "ann stopped the agent.")
    await is_turned_over(at, said, "active")
    await at.rests()
    assert mouth.heard == ["hello"]


def the_app(tx: Tx) -> str:
    return str(tx.value("SELECT app FROM bot_sessions"))


@pytest.mark.filterwarnings("ignore")  # google-adk warns about itself
@pytest.mark.parametrize("is_shown", [True, False], ids=["shown at work", "not shown yet"])
async def test_the_run_that_is_under_way_is_stopped_and_not_what_was_held_back(
    open_office: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_shown: bool
) -> None:
    """The answers of one turn were decided meanwhile. They are older than the run, and come after it. A run that has
    just begun is not noted as at work: the stop button is still that of the run before."""
    monkeypatch.setenv("TOOL_LOG", str(log := tmp_path / "their.log"))
    monkeypatch.setenv("TOOL_FIFO", str(tmp_path / "fifo"))
    hold(tmp_path, "short")
    hold(tmp_path, "long")
    async with open_office(ONE, target="tests.support.foreign.in_process:clerk") as at:
        with all_let_go(tmp_path):
            said = await at.ann.says("@adk-confirm please deploy one and deploy two", at.deploys)
            one, two = await at.sees(said, "Deploy one?"), await at.sees(said, "Deploy two?")
            await at.bob.clicks(one, "Approve")
            await at.sees(said, "deploy runs once deploy is decided")
            words = ("long",) if is_shown else ("short", "long")
            for word in words:
                await at.ann.says(f"@adk-confirm please linger {word}", at.deploys, thread=said)
                await at.sees(said, f"Linger {word}?")
            await at.bob.clicks(await at.sees(said, f"Linger {words[0]}?"), "Approve")
            await works(at, said)
            if not is_shown:
                monkeypatch.setattr("adk_confirm.bot.agents.streaming.AT_WORK", 600.0)
                await at.bob.clicks(await at.sees(said, "Linger long?"), "Approve")
                let_go(tmp_path, "short")
                await until(lambda: '"begun": "long"' in log.read_text())
            await at.bob.clicks(two, "Approve")
            at.ann.stops(at.deploys, said)
            await at.sees(said, "ann stopped the agent.")
            hold(tmp_path, MODEL)  # one that replies at once may have done so before the run is ended
            let_go(tmp_path, "long")
            await at.sees(said, "Done: Deploy two")  # in the next run
        await at.sees(said, '["deploy", {"deployed": "one"}]')
        print(at.ann.sees(at.deploys, thread=said))
        assert at.ann.sees(at.deploys, thread=said).count("I got") == len(words)


@pytest.mark.filterwarnings("ignore")  # google-adk warns about itself
async def test_a_stop_is_not_about_a_decision_that_was_sent_while_a_file_was_fetched(
    open_office: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run was shown, and is over. The decision stays in the mailbox until its turn."""
    monkeypatch.setenv("TOOL_LOG", str(log := tmp_path / "their.log"))
    monkeypatch.setenv("TOOL_FIFO", str(tmp_path / "fifo"))
    hold(tmp_path, "short")
    async with open_office(ONE, target="tests.support.foreign.in_process:clerk") as at:
        with all_let_go(tmp_path):
            card = await at.ask("please linger short")
            await at.rests()
            fault = at.slack.faults.hangs("download", times=None)
            await at.ann.says("@adk-confirm read this", at.deploys, thread=card, files={"order.txt": b"Twenty."})
            await fault.reached()
            await at.bob.clicks(at.bob.now(card), "Approve")
            await works(at, card)
            monkeypatch.setattr("adk_confirm.bot.agents.streaming.AT_WORK", 600.0)
            let_go(tmp_path, "short")
            await at.sees(card, "I got")
            hold(tmp_path, MODEL)
            at.slack.faults.clear()
            await until(lambda: MODEL in log.read_text())
            at.ann.stops(at.deploys, card)
            await at.sees(card, "ann stopped the agent.")
        await is_turned_over(at, card, "active")
        await at.rests()
        assert "I see" not in at.ann.sees(at.deploys, thread=card)
