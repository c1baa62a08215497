"""A feature that a workspace refuses is not tried for an hour, and is logged once."""

from __future__ import annotations

import logging

import pytest

from bot.operations.check import _refused_feature
from bot.sandbox.workspace.clock import Clock
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.errors import Gone, Later, RefusedBySlack
from bot.slack.outbound.feature_support import INSTEAD, Feature, FeatureSupport
from bot.store.open import open_store
from bot.store.refused_features import REMEMBERED, refused_features
from tests.support.outgoing import AT
from tests.support.secret import SECRET


async def test_a_refusal_lasts_an_hour_and_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    database = await open_store(":memory:", SECRET)
    clock = Clock()
    taken = FeatureSupport(clock.now, database)
    refused = Gone("assistant.threads.setStatus", "channel_type_not_supported")
    for _ in range(2):
        assert taken.accepts(AT, Feature.STATUS, "C1")
        assert await taken.note_refusal(AT, Feature.STATUS, refused, "C1")
        assert not taken.accepts(AT, Feature.STATUS, "C1")
        clock.advance(REMEMBERED + 1)

    warnings = [one for one in caplog.records if one.levelno == logging.WARNING and "refuses" in one.message]
    assert len(warnings) == 1
    (noted,) = await database.read(refused_features)
    assert noted.channel == "C1"
    said = _refused_feature(noted).said
    assert "refused in C1 (channel_type_not_supported)" in said
    assert INSTEAD[Feature.STATUS] in said
    await database.close()


async def test_what_is_refused_in_a_workspace_and_in_a_channel() -> None:
    taken, other = FeatureSupport(lambda: 0.0), Workspace("T0OTHER")
    assert not await taken.note_refusal(AT, Feature.STREAM, Later("chat.startStream", 5.0), "C1")
    assert taken.accepts(AT, Feature.STREAM, "C1")

    assert await taken.note_refusal(AT, Feature.STREAM, Gone("chat.startStream", "channel_not_found"), "C1")
    assert not taken.accepts(AT, Feature.STREAM, "C1")
    assert taken.accepts(AT, Feature.STREAM, "C2")

    assert await taken.note_refusal(AT, Feature.STREAM, RefusedBySlack("chat.startStream", "unknown_method"), "C1")
    assert not taken.accepts(AT, Feature.STREAM, "C2")
    assert taken.accepts(other, Feature.STREAM, "C1")
    assert taken.accepts(AT, Feature.STATUS, "C1")
