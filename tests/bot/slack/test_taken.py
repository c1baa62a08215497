"""A feature that a workspace refuses is left alone for an hour, and said once."""

from __future__ import annotations

import logging

import pytest

from bot.cards.streaming import Voice
from bot.operations.check import _refused
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.errors import Gone, Later, RefusedBySlack
from bot.slack.outbound.taken import INSTEAD, Feature, Taken
from bot.store.refused_features import refused_features
from tests.support.outgoing import AT, outgoing

HOUR = 3600.0


async def test_a_refused_status_is_tried_again_after_an_hour_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async with outgoing() as out:
        out.sender.taken = Taken(out.slack.clock.now, out.database)
        refused = out.slack.faults.refuses("assistant.threads.setStatus", "channel_type_not_supported", times=None)
        voice = Voice(out.sender)

        assert not await voice.thinking(out.lease, out.session)
        assert not await voice.thinking(out.lease, out.session)
        assert refused.met == 1
        out.slack.clock.advance(HOUR + 1)
        assert not await voice.thinking(out.lease, out.session)
        assert refused.met == 2
        out.slack.faults.clear()
        out.slack.clock.advance(HOUR + 1)
        assert await voice.thinking(out.lease, out.session)

        told = [one for one in caplog.records if one.levelno == logging.WARNING and "refuses" in one.message]
        assert len(told) == 1
        (noted,) = await out.database.read(refused_features)
        assert noted.channel == out.session.channel
        said = _refused(noted).said
        assert "(channel_type_not_supported)" in said
        assert INSTEAD[Feature.STATUS] in said


async def test_what_is_refused_in_a_workspace_and_in_a_channel() -> None:
    taken, other = Taken(lambda: 0.0), Workspace("T0OTHER")
    assert not await taken.failed(AT, Feature.STREAM, Later("chat.startStream", 5.0), "C1")
    assert taken.takes(AT, Feature.STREAM, "C1")

    assert await taken.failed(AT, Feature.STREAM, Gone("chat.startStream", "channel_not_found"), "C1")
    assert not taken.takes(AT, Feature.STREAM, "C1")
    assert taken.takes(AT, Feature.STREAM, "C2")

    assert await taken.failed(AT, Feature.STREAM, RefusedBySlack("chat.startStream", "unknown_method"), "C1")
    assert not taken.takes(AT, Feature.STREAM, "C2")
    assert taken.takes(other, Feature.STREAM, "C1")
    assert taken.takes(AT, Feature.STATUS, "C1")
