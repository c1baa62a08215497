"""A reply shows the tool calls that lead to it, as people see it in the thread."""

from __future__ import annotations

import pytest

from bot.sandbox.people.seen import Seen
from tests.support.errands import Errands, call
from tests.support.errands import errands as the_errands
from tests.support.office import Office, Opens

AGENT = "tests.support.errands:agent"
SOCKET = pytest.mark.parametrize("socket", [False, True], ids=["http", "socket mode"])
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


async def test_an_approved_call_is_a_task_of_the_reply_that_follows(open_office: Opens, errands: Errands) -> None:
    async with open_office(target=AGENT, time_moves=False) as at:
        errands.say(DEPLOY)
        card = await at.ask("deploy checkout")
        await at.bob.clicks(card, "Approve")
        seen = await at.ann.finds("[in_progress] Deploy checkout 2.4.1", at.deploys)
        errands.end("deploy checkout 2.4.1", {"error": "no such version"})
        errands.say("That ", "did ", "not work.")
        done = await at.ann.finds("That did not work.", at.deploys)
        await at.rests()
        assert done.ts == seen.ts
        assert "[error] Deploy checkout 2.4.1\nno such version\nCard" in at.ann.now(done)
        assert at.ann.now(done).fallback.startswith("That did not work.")
