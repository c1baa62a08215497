"""An agent that thinks, replies and fails, as people see it in the thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adk_confirm.sandbox.people.seen import Seen
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


async def test_nothing_stays_of_replies_that_are_stopped_soon_after_each_other(at: Office, mouth: Mouth) -> None:
    said = await at.ann.says("@adk-confirm hello", at.deploys)
    await is_stopped(at, mouth, said, 1)
    await at.later(seconds=13)  # what is left of the first is looked for once more
    await at.ann.says("@adk-confirm hello", at.deploys, thread=said)
    await is_stopped(at, mouth, said, 2)
    await at.later(seconds=31)
    await at.slack.until(lambda: "It is" not in at.ann.sees(at.deploys, thread=said))


async def is_stopped(at: Office, mouth: Mouth, said: Seen, times: int) -> None:
    """While it replies, and part of that is seen."""
    mouth.words = asyncio.Queue()
    await mouth.goes_on(at.slack, "It is ", until=lambda: "It is" in at.ann.sees(at.deploys, thread=said))
    await at.slack.until(lambda: at.deploys.sessions[said.thread].status == "processing")
    at.ann.stops(at.deploys, said)
    await at.slack.until(lambda: at.ann.sees(at.deploys, thread=said).count("stopped the agent") == times)
