"""An agent that thinks, replies and fails, as people see it in the thread."""

from __future__ import annotations

import asyncio

import pytest

from adk_confirm.sandbox.people.seen import Seen
from tests.support.office import IN_CI_ON_BOTH, TALKER, Office
from tests.support.talking import FAILURE, Mouth

pytestmark = [pytest.mark.office(target=TALKER), pytest.mark.usefixtures("mouth")]


async def test_a_short_reply_is_posted_whole(at: Office, mouth: Mouth) -> None:
    mouth.say("Hello ", "there.", None)

    said = await at.ann.says("@adk-confirm hello", at.deploys)

    await at.ann.finds("Hello there.", at.deploys, thread=said)
    assert at.slack.calls_of("chat.startStream") == []


@IN_CI_ON_BOTH
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


@IN_CI_ON_BOTH
@pytest.mark.slow
async def test_a_reply_is_read_whole_whatever_slack_says_to_its_stream(at: Office, mouth: Mouth) -> None:
    said = await at.ann.says("@adk-confirm hello", at.deploys)
    await at.slack.until(lambda: at.deploys.sessions.get(said.ts))

    # Put off in the middle of a stream.
    mouth.say("It is ", "**fine** ")
    await grows(at, mouth, "today, ", said)
    put_off = at.slack.faults.limits("chat.appendStream", retry_after=30)
    await mouth.goes_on(at.slack, "still, ", until=lambda: put_off.met)
    mouth.say("and tomorrow.", None)
    await at.sees(said, "and tomorrow.")
    await at.rests()
    (whole,) = [seen for seen in at.ann.messages(at.deploys, thread=said) if "It is" in seen]
    assert whole.message.streaming_since is None
    assert "**fine**" in str(whole.message.blocks)
    await at.later(minutes=1)

    # A long one, with a file for the agent, where a stream expires at Slack's end.
    at.slack.workspace.streams_live = 60.0
    await at.ann.says("@adk-confirm look", at.deploys, thread=said, files={"log.txt": b"boom"})
    numbers = [f"#{number:05}" for number in range(4000)]
    mouth.say("A list: ")
    await grows(at, mouth, "first, ", said)
    at.slack.clock.advance(300)
    mouth.say(" ".join(numbers), None)
    await at.sees(said, numbers[-1])
    await at.rests()
    parts = [seen for seen in at.ann.messages(at.deploys, thread=said) if "#0" in seen]
    assert len(parts) > 1
    assert [word for part in parts for word in part.text.split() if word.startswith("#")] == numbers
    assert [file.data for file in mouth.files] == [b"boom"]
    await at.later(minutes=1)

    # No stream at all: posted whole.
    refused = at.slack.faults.refuses("chat.startStream", "missing_scope", times=None)
    await at.ann.says("@adk-confirm and now?", at.deploys, thread=said)
    mouth.say("Now ", "it ")
    await mouth.goes_on(at.slack, "grows, ", until=lambda: refused.met)
    mouth.say("and ends.", None)
    await at.sees(said, "and ends.")
    assert refused.met == 1
    assert at.ann.sees(at.deploys, thread=said).count("Now it") == 1


async def grows(at: Office, mouth: Mouth, words: str, said: Seen) -> None:
    """The agent goes on until these words are seen."""
    await mouth.goes_on(at.slack, words, until=lambda: words in at.ann.sees(at.deploys, thread=said))
