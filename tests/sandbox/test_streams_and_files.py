"""Streamed replies, with the SDK's own helpers, and files."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.sandbox.people.people import Person
from bot.sandbox.server.server import FakeSlack
from bot.sandbox.workspace.records import Channel

WORDS: dict[str, Any] = {"type": "markdown_text", "text": "So"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"recipient_team_id": None}, "missing_recipient_team_id"),
        ({"recipient_user_id": None}, "missing_recipient_user_id"),
        ({"recipient_user_id": "U404"}, "user_not_found"),
        ({"thread_ts": "1.000001"}, "thread_not_found"),
        ({"thread_ts": ""}, "invalid_arguments"),
        ({"markdown_text": "x" * 12_001}, "msg_too_long"),
        ({"chunks": [{"type": "song"}]}, "invalid_chunks"),
        ({"chunks": [WORDS], "markdown_text": "So"}, "cannot_provide_both_markdown_text_and_chunks"),
    ],
)
async def test_a_stream_that_slack_would_not_start(
    slack: FakeSlack, client: AsyncWebClient, ann: Person, deploys: Channel, change: dict[str, Any], code: str
) -> None:
    asked = await ann.says("how are things?", deploys)
    arguments = {
        "channel": deploys.id,
        "thread_ts": asked.ts,
        "recipient_team_id": slack.team.id,
        "recipient_user_id": ann.id,
        **change,
    }
    with pytest.raises(SlackApiError, match=code):
        await client.api_call("chat.startStream", json=arguments)
    assert len(ann.messages(deploys)) == 1
