"""Socket Mode with Bolt's own handler: envelopes, acks with payloads, refreshes, silence, ten connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.sandbox.people.people import Person
from bot.sandbox.server.server import FakeSlack
from bot.sandbox.workspace.records import Channel

Body = dict[str, Any]


@pytest.fixture
async def connected(slack: FakeSlack) -> AsyncIterator[tuple[AsyncApp, AsyncSocketModeHandler]]:
    bolt = AsyncApp(name="tests", client=AsyncWebClient(slack.bot_token, base_url=slack.url))
    handler = AsyncSocketModeHandler(
        bolt, slack.app_token, web_client=AsyncWebClient(base_url=slack.url), ping_interval=0.05
    )
    await handler.connect_async()  # type: ignore[no-untyped-call]  # Bolt leaves it untyped
    await slack.until(lambda: len(slack.socket.connections) == 1)
    yield bolt, handler
    await handler.close_async()  # type: ignore[no-untyped-call]  # Bolt leaves it untyped


async def test_an_event_on_a_broken_connection_comes_again(
    slack: FakeSlack, connected: tuple[AsyncApp, AsyncSocketModeHandler], ann: Person, deploys: Channel
) -> None:
    app, _ = connected
    heard: list[str] = []

    @app.event("message")
    async def on_message(event: Body) -> None:
        heard.append(event["text"])

    slack.socket.silence()
    [before] = slack.socket.connections
    await ann.says("into the void", deploys)
    await slack.until(lambda: slack.deliveries[0].reason == "connection_failed")
    await slack.until(lambda: [each for each in slack.socket.connections if each is not before])
    slack.clock.advance(61)
    await slack.until(lambda: heard)
    assert heard == ["into the void"]
    assert [made.attempt for made in slack.deliveries][-1] >= 1


async def test_only_an_app_token_opens_a_socket(slack: FakeSlack) -> None:
    client = AsyncWebClient(base_url=slack.url)
    for token, code in (("xapp-wrong", "invalid_auth"), (slack.bot_token, "not_allowed_token_type")):
        with pytest.raises(SlackApiError, match=code):
            await client.apps_connections_open(app_token=token)
