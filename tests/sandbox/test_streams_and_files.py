"""Streamed replies, with the SDK's own helpers, and files."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.sandbox.people.people import Person
from bot.sandbox.server.server import FakeSlack
from bot.sandbox.workspace.records import AgentSession, Channel
from bot.sandbox.workspace.registration import App

WORDS: dict[str, Any] = {"type": "markdown_text", "text": "So"}


async def test_a_reply_is_streamed_into_a_thread(
    slack: FakeSlack, client: AsyncWebClient, ann: Person, deploys: Channel
) -> None:
    asked = await ann.says("how are things?", deploys)
    stream = await client.chat_stream(
        channel=deploys.id, thread_ts=asked.ts, recipient_team_id=slack.team.id, recipient_user_id=ann.id, buffer_size=1
    )
    await stream.append(markdown_text="All ")
    await stream.append(markdown_text="is **well**")
    assert "All is **well**" in ann.sees(thread=asked, place=deploys)
    metadata = {"event_type": "reply", "event_payload": {"n": 1}}
    await stream.stop(markdown_text=".", metadata=metadata)
    assert "All is **well**." in ann.sees(thread=asked, place=deploys)
    replies = await client.conversations_replies(channel=deploys.id, ts=asked.ts)
    assert "edited" not in replies["messages"][-1]  # a stream that ended is whole, not changed
    with pytest.raises(SlackApiError, match="message_not_in_streaming_state"):
        await client.chat_appendStream(channel=deploys.id, ts=stream.ts or "", markdown_text="more")


async def test_a_stream_changes_the_status_of_its_session(
    slack: FakeSlack, client: AsyncWebClient, ann: Person, deploys: Channel
) -> None:
    asked = await ann.says("how are things?", deploys)
    people: dict[str, Any] = {"recipient_team_id": slack.team.id, "recipient_user_id": ann.id}
    session = deploys.sessions[asked.ts] = AgentSession("suspended")
    for given, then in (({"session_status": "processing"}, "processing"), ({}, "active")):
        started = await client.chat_startStream(channel=deploys.id, thread_ts=asked.ts, markdown_text="All ", **people)
        assert session.status == "processing"
        arguments = {"channel": deploys.id, "ts": started["ts"], **given}
        await client.api_call("chat.stopStream", json=arguments)
        assert session.status == then


async def test_a_stream_expires(slack: FakeSlack, client: AsyncWebClient, ann: Person, deploys: Channel) -> None:
    slack.workspace.streams_live = 120
    asked = await ann.says("how are things?", deploys)
    people: dict[str, Any] = {"recipient_team_id": slack.team.id, "recipient_user_id": ann.id}
    started = await client.chat_startStream(channel=deploys.id, thread_ts=asked.ts, markdown_text="All ", **people)
    with pytest.raises(SlackApiError, match="streaming_state_conflict"):
        await client.chat_update(channel=deploys.id, ts=started["ts"], text="All is well")
    slack.clock.advance(121)
    with pytest.raises(SlackApiError, match="message_not_in_streaming_state"):
        await client.chat_stopStream(channel=deploys.id, ts=started["ts"])
    await client.chat_update(channel=deploys.id, ts=started["ts"], text="All (interrupted)")
    assert "(interrupted)" in ann.sees(deploys)


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


async def test_a_stream_into_a_direct_conversation_needs_no_recipient(client: AsyncWebClient, ann: Person) -> None:
    asked = await ann.says("how are things?")
    stream = await client.chat_stream(channel=asked.channel, thread_ts=asked.ts)
    await stream.append(markdown_text="Fine.")
    await stream.stop()
    assert "Fine." in ann.sees()


async def test_a_file_that_a_person_shares_is_read_with_the_right_scope_only() -> None:
    async with FakeSlack(App(scopes=App().scopes - {"files:read"})) as slack:
        ann = slack.person("ann")
        said = await ann.says("what is in it?", slack.channel("deploys", ann), files={"call.json": b'{"amount": 1500}'})
        address = str(said.message.files[0]["url_private"])
        assert "Sign in" in await read(slack, address)
        slack.install.scopes |= {"files:read"}
        assert await read(slack, address) == '{"amount": 1500}'


async def read(slack: FakeSlack, address: str) -> str:
    headers = {"Authorization": f"Bearer {slack.bot_token}"}
    async with aiohttp.ClientSession() as session, session.get(address, headers=headers) as answer:
        return await answer.text()
