"""An agent that thinks, replies and fails, as people see it in the thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from bot.sandbox.server.server import FakeSlack
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


async def test_where_slack_streams_nothing_the_reply_is_posted_whole(at: Office, mouth: Mouth) -> None:
    refused = at.slack.faults.refuses("chat.startStream", "missing_scope", times=None)
    said = await at.ann.says("@adk-confirm hello", at.deploys)
    mouth.say("It is ", "**fine** ")
    await mouth.goes_on(at.slack, "today, ", until=lambda: refused.met or None)
    mouth.say("too.", None)

    await at.ann.finds("too.", at.deploys, thread=said)
    assert at.ann.sees(at.deploys, thread=said).count("It is") == 1


async def test_a_stream_that_expired_is_the_reply_all_the_same(at: Office, mouth: Mouth) -> None:
    at.slack.workspace.streams_live = 60.0
    thread = await streamed(at, mouth)
    at.slack.clock.advance(300)

    mouth.say("later. ", "Done.", None)

    await at.ann.finds("Done.", at.deploys, thread=thread)
    assert at.ann.sees(at.deploys, thread=thread).count("It is") == 1


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


async def test_a_reply_that_broke_off_is_posted_whole_and_nothing_else_of_it_stays(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mouth: Mouth
) -> None:
    async with FakeSlack() as slack:
        opened = partial(office, database_url, tmp_path / "log", monkeypatch, target=TALKER, slack=slack)
        async with opened(time_moves=True) as at:
            thread, ann, deploys = await streamed(at, mouth), at.ann, at.deploys
        mouth.words = asyncio.Queue()
        mouth.say("Whole again.", None)
        async with opened(time_moves=True) as at:
            await ann.finds("Whole again.", deploys, thread=thread)
            await slack.until(lambda: "It is" not in ann.sees(deploys, thread=thread) or None)
            assert ann.sees(deploys, thread=thread).count("Whole again.") == 1
