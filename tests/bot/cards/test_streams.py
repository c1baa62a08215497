"""A streamed reply with tool calls, where Slack accepts all of it, and where it refuses a part."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from blocks.tasks import TaskView, chunk
from bot.cards.live import LiveReply
from bot.cards.streams import Streams
from bot.slack.outbound.feature_support import INSTEAD, Feature
from bot.store.refused_features import REMEMBERED
from runtime.jsontypes import JsonObject
from tests.support.outgoing import AT, Outgoing, outgoing

RUNS = chunk(TaskView("c1", "Check health", "in_progress"))
ENDED = chunk(TaskView("c1", "Check health", "complete", "well"))


@pytest.fixture
async def out() -> AsyncIterator[Outgoing]:
    async with outgoing() as opened:
        yield opened


def shows_tasks(args: JsonObject) -> bool:
    return "task_update" in str(args)


def thread(out: Outgoing) -> str:
    return out.asker.sees(out.deploys, thread=out.thread)


async def started(out: Outgoing, words: str = "So far ") -> tuple[Streams, LiveReply]:
    streams, live = Streams(out.sender, tasks=True), LiveReply("i1")
    await streams.start(out.lease, out.session, live, [RUNS], words)
    return streams, live


async def test_calls_and_words_are_one_message(out: Outgoing) -> None:
    streams, live = await started(out)
    assert live.ts is not None
    await streams.append(out.lease, out.session, live, [ENDED], "good.")
    assert "[complete] Check health\nwell\nSo far good." in thread(out)
    await streams.stop(out.lease, out.session, live.ts)
    assert out.slack.calls_of("chat.startStream")[0].args["task_display_mode"] == "plan"


@pytest.mark.parametrize(
    "code", ["invalid_blocks", "invalid_chunks", "invalid_arguments", "unknown_method", "missing_scope", "not_allowed"]
)
async def test_what_a_workspace_refuses_is_left_out_for_an_hour(
    out: Outgoing, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    refused = out.slack.faults.refuses("chat.startStream", code, times=None, where=shows_tasks)
    for _ in range(2):
        streams, live = await started(out)
        assert live.ts is not None
        assert thread(out).endswith("So far ")
        assert not streams.show_tasks(out.session)
        out.slack.clock.advance(REMEMBERED + 1)
        assert streams.show_tasks(out.session)
    assert refused.met == 2
    said = [one for one in caplog.records if one.levelno == logging.WARNING and INSTEAD[Feature.TASKS] in one.message]
    assert len(said) == 1


async def test_calls_alone_begin_no_stream_where_slack_refuses_them(out: Outgoing) -> None:
    out.slack.faults.refuses("chat.startStream", "invalid_chunks", where=shows_tasks)
    _, live = await started(out, "")
    assert live.ts is None
    assert len(out.slack.calls_of("chat.startStream")) == 1


async def test_a_stream_that_began_goes_on_and_ends_without_its_calls(out: Outgoing) -> None:
    streams, live = await started(out)
    assert live.ts is not None
    out.slack.faults.refuses("chat.*Stream", "invalid_chunks", times=None, where=shows_tasks)
    await streams.append(out.lease, out.session, live, [ENDED], "good.")
    assert "So far good." in thread(out)
    assert not streams.show_tasks(out.session)
    await streams.stop(out.lease, out.session, live.ts, [ENDED])
    (message,) = [one for one in out.asker.messages(out.deploys, thread=out.thread) if one.ts == live.ts]
    assert message.message.streaming_since is None
    assert "[error] Check health" in message  # as Slack shows a call that was open: the whole reply takes its place


async def test_where_slack_takes_no_stream_at_all_both_are_remembered(out: Outgoing) -> None:
    out.slack.faults.refuses("chat.startStream", "unknown_method", times=None)
    _, live = await started(out)
    assert live.ts is None
    features = out.sender.features
    assert not any(features.accepts(AT, feature) for feature in (Feature.TASKS, Feature.STREAM))
