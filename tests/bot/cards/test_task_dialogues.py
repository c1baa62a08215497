"""A reply shows the tool calls that lead to it, as people see it in the thread."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from bot.cards.live import RUNS_FOR
from bot.sandbox.people.seen import Seen
from bot.sandbox.server.server import FakeSlack
from bot.store.refused_features import refused_features
from tests.support.errands import Errands, call
from tests.support.errands import errands as the_errands
from tests.support.office import POLICY, Office, Opens, office

AGENT = "tests.support.errands:agent"
SOCKET = pytest.mark.parametrize("socket", [False, True], ids=["http", "socket mode"])
HIDES = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL"]\nredact = ["token"]\n'
HEALTH, DEPLOY = call("check_health", service="checkout"), call("deploy", service="checkout", version="2.4.1")


@pytest.fixture
def database_url(sqlite_stocked: str) -> str:
    """What is shown here does not differ by the database."""
    return sqlite_stocked


@pytest.fixture(autouse=True)
def errands() -> Errands:
    return the_errands.begin_anew()


def replies(at: Office, thread: Seen | str) -> list[Seen]:
    """The messages that show tool calls, or have shown them."""
    return [one for one in at.ann.messages(at.deploys, thread=thread) if one.message.streamed is not None]


@SOCKET
async def test_tool_calls_are_seen_while_they_run_wait_and_end(
    open_office: Opens, errands: Errands, socket: bool
) -> None:
    async with open_office(target=AGENT, socket=socket, time_moves=False) as at:
        errands.say(HEALTH)
        said = await at.ann.says("@adk-confirm deploy checkout", at.deploys)
        seen = await at.ann.finds("[in_progress] Check health", at.deploys, thread=said)
        assert "1 tool call\n" in seen.text
        errands.say(DEPLOY)
        errands.end("check_health checkout", {"status": "well <!channel> `x` *y*", "load": 0.3})

        card = await at.ann.finds("Deploy checkout 2.4.1?", at.deploys, thread=said)
        waits = await at.ann.finds("[pending] Deploy checkout 2.4.1", at.deploys, thread=said)
        assert waits.ts == seen.ts
        assert waits.message.streaming_since is None
        assert "[complete] Check health\nwell ‹!channel› ˋxˋ ∗y∗" in waits
        assert f"Waits for approval\nCard ({at.slack.workspace.permalink(card.message)})" in waits
        assert "2 tool calls, 1 waiting" in waits
        assert "⏳ Deploy checkout 2.4.1: Waits for approval" in waits.fallback

        await at.bob.clicks(card, "Approve")
        running = await at.ann.finds("[in_progress] Deploy checkout 2.4.1\nApproved, running", at.deploys, thread=said)
        assert running.ts == seen.ts
        errands.end("deploy checkout 2.4.1", {"status": "deployed"})
        errands.say("Checkout 2.4.1 is out.")
        await at.ann.finds("Checkout 2.4.1 is out.", at.deploys, thread=said)
        await at.rests()

        (reply,) = replies(at, said)
        assert "[complete] Deploy checkout 2.4.1\ndeployed\nCard" in reply
        assert at.ann.sees(at.deploys, thread=said).count("Checkout 2.4.1 is out.") == 1
        assert len(at.slack.calls_of("chat.startStream")) == 1


async def test_the_reply_follows_the_line_of_the_decision_however_long_the_call_takes(
    open_office: Opens, errands: Errands
) -> None:
    async with open_office(target=AGENT, time_moves=False) as at:
        errands.say(DEPLOY)
        card = await at.ask("deploy checkout")
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("Running: Deploy checkout", at.deploys)
        await asyncio.sleep(1.5 * RUNS_FOR)  # what is awaited is that a reply would begin
        assert "[in_progress]" not in at.ann.sees(at.deploys)  # its card says that it runs
        errands.end("deploy checkout 2.4.1", {"error": "no such version"})
        errands.say("That ", "did ", "not work.")
        done = await at.ann.finds("That did not work.", at.deploys)
        await at.rests()
        thread = at.ann.sees(at.deploys)
        assert thread.index("❌ Approved by bob · failed after") < thread.index("That did not work.")
        assert not at.ann.now(done).message.streamed
        assert "no such version" in at.ann.now(card)


async def test_a_file_that_redacts_shows_no_calls_and_neither_does_one_that_turns_them_off(
    open_office: Opens, errands: Errands
) -> None:
    for file in (HIDES, f'tasks = "off"\n{POLICY}'):
        async with open_office(file, target=AGENT, time_moves=False) as at:
            errands.begin_anew().say(HEALTH)
            said = await at.ann.says("@adk-confirm how is checkout?", at.deploys)
            await at.slack.until(partial(at.deploys.sessions.get, said.ts), what="the agent at work")
            errands.end("check_health checkout", {"status": "well"})
            errands.say("It ", "is ", "well.")
            await at.ann.finds("It is well.", at.deploys, thread=said)
            await at.rests()
            assert "Check health" not in str([made.args for made in at.slack.calls])


async def test_where_slack_refuses_the_plan_the_words_stand_alone(open_office: Opens, errands: Errands) -> None:
    async with open_office(target=AGENT, time_moves=False) as at:
        at.slack.faults.refuses(
            "chat.update", "invalid_blocks", where=lambda args: '"plan"' in str(args).replace("'", '"')
        )
        errands.say(HEALTH)
        said = await at.ann.says("@adk-confirm deploy checkout", at.deploys)
        seen = await at.ann.finds("[in_progress] Check health", at.deploys, thread=said)
        errands.say(DEPLOY)
        errands.end("check_health checkout", "well")
        plan = await at.ann.finds("⏳ Deploy checkout 2.4.1: Waits for approval", at.deploys, thread=said)
        assert plan.ts == seen.ts
        assert "✅ Check health: well" in plan
        assert plan.message.streaming_since is None
        (noted,) = await at.bot.database.read(refused_features)
        assert noted.feature == "tool calls in replies"


async def test_a_reply_that_broke_off_over_a_tool_leaves_no_call_running(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errands: Errands
) -> None:
    async with FakeSlack() as slack:
        opened = partial(office, database_url, tmp_path / "log", monkeypatch, target=AGENT, slack=slack)
        errands.say(HEALTH)
        async with opened(time_moves=False) as at:
            ann, deploys = at.ann, at.deploys
            said = await ann.says("@adk-confirm how is checkout?", deploys)
            seen = await ann.finds("[in_progress] Check health", deploys, thread=said)
        errands.begin_anew().say("I could not find out.")
        async with opened(time_moves=False) as at:
            await ann.finds("(interrupted)", deploys, thread=said)
            await ann.finds("I could not find out.", deploys, thread=said)
            await at.rests()
            assert "[in_progress]" not in ann.sees(deploys, thread=said)
            assert ann.now(seen).message.streaming_since is None
            assert ann.sees(deploys, thread=said).count("I could not find out.") == 1


@pytest.mark.parametrize("fault", ["fails", "cuts", "limits"])
async def test_a_reply_is_posted_once_whichever_call_to_slack_fails(
    open_office: Opens, errands: Errands, fault: str
) -> None:
    async with open_office(target=AGENT, time_moves=False) as at:
        errands.say(HEALTH)
        said = await at.ann.says("@adk-confirm how is checkout?", at.deploys)
        break_ = getattr(at.slack.faults, fault)
        for method in ("chat.startStream", "chat.appendStream", "chat.stopStream", "chat.update"):
            break_(method)
        await errands.begins("check_health checkout")
        await at.slack.until(lambda: at.slack.calls_of("chat.startStream") or None, what="a stream")
        errands.say("It is well.")
        errands.end("check_health checkout", "well")
        await at.ann.finds("It is well.", at.deploys, thread=said)
        await at.rests()
        shown = at.ann.sees(at.deploys, thread=said)
        assert shown.count("It is well.") == 1
        assert "[in_progress]" not in shown
