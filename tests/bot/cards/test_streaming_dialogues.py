"""An agent that thinks, replies and fails, as people see it in the thread."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.office import Office, office
from tests.support.talking import FAILURE, Mouth
from tests.support.talking import mouth as the_mouth

TALKER = "tests.support.talking:agent"


@pytest.fixture
async def at(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    async with office(database_url, tmp_path / "tools.log", monkeypatch, target=TALKER, time_moves=True) as opened:
        yield opened


@pytest.fixture(autouse=True)
def mouth() -> Mouth:
    return the_mouth.begins_anew()


async def streamed(at: Office, mouth: Mouth) -> str:
    """Somebody's words, and a reply that is seen while it comes; the thread."""
    said = await at.ann.says("@adk-confirm hello", at.deploys)
    mouth.say("It is ", "**fine** ")
    await grows(at, mouth, "today, ", said.thread)
    return said.thread


async def grows(at: Office, mouth: Mouth, words: str, thread: str) -> None:
    """The agent goes on until these words are seen."""
    await mouth.goes_on(at.slack, words, until=lambda: words in at.ann.sees(at.deploys, thread=thread))


async def test_a_reply_is_streamed_and_posted_once(at: Office, mouth: Mouth) -> None:
    thread = await streamed(at, mouth)
    await grows(at, mouth, "tomorrow, ", thread)
    assert at.slack.calls_of("chat.appendStream")
    mouth.say("<!chan", "nel> ", "too.", None)

    await at.ann.finds("too.", at.deploys, thread=thread)
    replies = [seen for seen in at.ann.messages(at.deploys, thread=thread) if "It is" in seen]
    assert len(replies) == 1
    assert replies[0].message.streaming_since is None
    assert "<!channel>" not in str(replies[0].message.blocks)
    start = at.slack.calls_of("chat.startStream")[0]
    assert start.args["recipient_user_id"] == at.ann.id


async def test_a_short_reply_is_posted_whole(at: Office, mouth: Mouth) -> None:
    mouth.say("Hello ", "there.", None)

    said = await at.ann.says("@adk-confirm hello", at.deploys)

    await at.ann.finds("Hello there.", at.deploys, thread=said)
    assert at.slack.calls_of("chat.startStream") == []


async def test_what_an_agent_could_not_answer_is_tried_again_once(at: Office, mouth: Mouth) -> None:
    mouth.say(FAILURE)
    said = await at.ann.says("@adk-confirm hello", at.deploys)
    failed = await at.ann.finds("could not answer", at.deploys, thread=said)
    assert failed.buttons == ("Try again",)

    await at.bob.clicks(failed, "Try again")
    await at.bob.gets_modal("Somebody else wrote this message")
    mouth.say("Now it works.", None)
    first = await at.ann.clicks(failed, "Try again", stale=True)
    await at.slack.repeats(first)
    await at.ann.clicks(failed, "Try again", stale=True)

    await at.ann.finds("Now it works.", at.deploys, thread=said)
    await at.slack.until(lambda: at.ann.now(failed).buttons == () or None)
    assert mouth.heard == ["hello", "hello"]
