"""Socket Mode with Bolt's own handler: envelopes, acks with payloads, refreshes, silence, ten connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncSay
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


async def test_a_conversation_over_a_socket(
    slack: FakeSlack, connected: tuple[AsyncApp, AsyncSocketModeHandler], ann: Person, deploys: Channel
) -> None:
    app, _ = connected

    @app.event("app_mention")
    async def on_mention(event: Body, say: AsyncSay) -> None:
        await say(text=f"Hello <@{event['user']}>", thread_ts=event["ts"])

    @app.event("message")
    async def on_message(event: Body) -> None: ...

    @app.command("/approvals")
    async def on_command(ack: AsyncAck) -> None:
        await ack(text="None waits.")

    asked = await ann.says("@adk-confirm hi", deploys)
    assert await ann.finds("Hello @ann", thread=asked, place=deploys)
    made = await ann.commands("/approvals", "", deploys)
    assert made.json == {"text": "None waits."}
    assert "None waits." in ann.sees(deploys)


async def test_an_app_that_is_asked_to_refresh_comes_back(
    slack: FakeSlack, connected: tuple[AsyncApp, AsyncSocketModeHandler], ann: Person, deploys: Channel
) -> None:
    app, _ = connected

    @app.event("message")
    async def on_message(event: Body, say: AsyncSay) -> None:
        if "bot_id" not in event:
            await say(text="still here")

    [before] = slack.socket.connections
    await slack.socket.warn()
    await slack.socket.refresh()
    await slack.until(lambda: [each for each in slack.socket.connections if each is not before])
    await ann.says("hello?", deploys)
    assert await ann.finds("still here", deploys)


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


async def test_ten_connections_share_the_envelopes(slack: FakeSlack, ann: Person, deploys: Channel) -> None:
    client = AsyncWebClient(base_url=slack.url)
    async with aiohttp.ClientSession() as session:
        sockets = []
        for _ in range(10):
            url = (await client.apps_connections_open(app_token=slack.app_token))["url"]
            sockets.append(await session.ws_connect(url))
        hello = await sockets[-1].receive_json()
        assert (hello["type"], hello["num_connections"]) == ("hello", 10)
        extra = (await client.apps_connections_open(app_token=slack.app_token))["url"]
        for url in (extra, extra):
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await session.ws_connect(url)
        for number in range(2):
            await ann.says(f"message {number}", deploys)
        first, second = await sockets[0].receive_json(), await sockets[1].receive_json()
        assert first["type"] == "hello"
        envelopes = [
            await sockets[0].receive_json(),
            second if second["type"] != "hello" else await sockets[1].receive_json(),
        ]
        for socket, envelope in zip(sockets, envelopes, strict=False):
            assert envelope["type"] == "events_api"
            assert envelope["accepts_response_payload"] is False
            await socket.send_json({"envelope_id": envelope["envelope_id"]})
        await slack.settled()
        assert all(made.acked for made in slack.deliveries)
        for socket in sockets:
            await socket.close()
