"""The Web API with the real SDK: its answers, and the codes of its refusals."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.sandbox.people.people import Person
from bot.sandbox.server.server import FakeSlack
from bot.sandbox.workspace.records import Channel
from bot.sandbox.workspace.registration import App

Arguments = dict[str, Any]


async def refusal(client: AsyncWebClient, method: str, **arguments: Any) -> str:
    with pytest.raises(SlackApiError) as refused:
        await client.api_call(method, json=arguments)
    return str(refused.value.response["error"])


@pytest.mark.parametrize(
    ("token", "code"), [("", "not_authed"), ("xoxb-wrong", "invalid_auth"), ("app", "not_allowed_token_type")]
)
async def test_a_token_is_needed(slack: FakeSlack, token: str, code: str) -> None:
    client = AsyncWebClient(slack.app_token if token == "app" else token, base_url=slack.url)
    assert await refusal(client, "auth.test") == code


async def test_a_method_that_there_is_not(client: AsyncWebClient) -> None:
    assert await refusal(client, "chat.shout") == "unknown_method"


async def test_a_scope_is_needed() -> None:
    scopes = App().scopes - {"chat:write", "users:read.email"}
    async with FakeSlack(App(scopes=scopes)) as slack:
        client = AsyncWebClient(slack.bot_token, base_url=slack.url)
        with pytest.raises(SlackApiError) as refused:
            await client.chat_postMessage(channel="C1", text="x")
        assert refused.value.response["error"] == "missing_scope"
        assert refused.value.response["needed"] == "chat:write"
        assert "users:read" in refused.value.response["provided"]
        ann = slack.person("ann", email="ann@example.com")
        assert "email" not in (await client.users_info(user=ann.id))["user"]["profile"]
        assert await refusal(client, "users.lookupByEmail", email="ann@example.com") == "missing_scope"


POSTS: list[tuple[str, Arguments, str]] = [
    ("nothing said", {"text": ""}, "no_text"),
    ("only spaces", {"text": "  "}, "no_text"),
    ("bad blocks", {"text": "x", "blocks": [{"type": "header"}]}, "invalid_blocks"),
    ("blocks that are no JSON", {"text": "x", "blocks": "[{"}, "invalid_blocks_format"),
    ("no channel", {"text": "x", "channel": ""}, "invalid_arguments"),
    ("no such channel", {"text": "x", "channel": "C404"}, "channel_not_found"),
    ("a channel's name", {"text": "x", "channel": "#deploys"}, "channel_not_found"),
    ("no such thread", {"text": "x", "thread_ts": "1.000001"}, "thread_not_found"),
    ("both spellings", {"text": "x", "markdown_text": "x"}, "markdown_text_conflict"),
    ("too much markdown", {"text": None, "markdown_text": "x" * 12_001}, "msg_too_long"),
    ("metadata without a type", {"text": "x", "metadata": {"event_payload": {}}}, "invalid_metadata_format"),
]


@pytest.mark.parametrize(("change", "code"), [case[1:] for case in POSTS], ids=[case[0] for case in POSTS])
async def test_a_post_that_is_refused(
    client: AsyncWebClient, deploys: Channel, ann: Person, change: Arguments, code: str
) -> None:
    assert await refusal(client, "chat.postMessage", **{"channel": deploys.id, **change}) == code
    assert ann.sees(deploys) == ""


async def test_where_a_bot_may_post(slack: FakeSlack, client: AsyncWebClient, ann: Person) -> None:
    outside = slack.channel("outside", ann, with_app=False)
    hidden = slack.channel("hidden", ann, with_app=False, private=True)
    closed = slack.channel("closed", ann)
    closed.is_archived = True
    for channel, code in ((outside, "not_in_channel"), (hidden, "channel_not_found"), (closed, "is_archived")):
        assert await refusal(client, "chat.postMessage", channel=channel.id, text="x") == code
    for method in ("conversations.history", "conversations.replies"):
        assert await refusal(client, method, channel=outside.id, ts="1.1") == "not_in_channel"
    await client.chat_postMessage(channel=ann.id, text="Between us")
    assert "Between us" in ann.sees()


async def test_only_ones_own_messages_change(client: AsyncWebClient, deploys: Channel, ann: Person) -> None:
    hers = await ann.says("mine", deploys)
    where = {"channel": deploys.id, "ts": hers.ts}
    assert await refusal(client, "chat.update", **where, text="yours") == "cant_update_message"
    assert await refusal(client, "chat.delete", **where) == "cant_delete_message"
    nowhere = {"channel": deploys.id, "ts": "1.000001"}
    assert await refusal(client, "chat.update", **nowhere, text="x") == "message_not_found"
    ephemeral = await client.chat_postEphemeral(channel=deploys.id, user=ann.id, text="psst")
    where = {"channel": deploys.id, "ts": ephemeral["message_ts"]}
    assert await refusal(client, "chat.update", **where, text="x") == "message_not_found"


async def test_an_ephemeral_needs_its_reader_there(slack: FakeSlack, client: AsyncWebClient, deploys: Channel) -> None:
    zoe = slack.person("zoe")
    psst = {"channel": deploys.id, "text": "psst"}
    assert await refusal(client, "chat.postEphemeral", **psst, user=zoe.id) == "user_not_in_channel"
    assert await refusal(client, "chat.postEphemeral", **psst, user="U404") == "user_not_found"
