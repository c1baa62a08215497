"""The Web API with the real SDK: what it refuses, with which code, and how often it lets an app call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.records import Channel

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
    scopes = our_app().scopes - {"chat:write", "users:read.email"}
    async with FakeSlack(replace(our_app(), scopes=scopes)) as slack:
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


async def test_one_workspace_does_not_see_another(slack: FakeSlack, client: AsyncWebClient) -> None:
    globex = slack.workspace.directory.add_team("Globex")
    hank = slack.person("hank", team=globex)
    theirs = slack.workspace.directory.add_channel(globex, "lab", members=(hank.id,))
    with pytest.raises(SlackApiError, match="user_not_found"):
        await client.users_info(user=hank.id)
    with pytest.raises(SlackApiError, match="channel_not_found"):
        await client.conversations_info(channel=theirs.id)


async def test_a_revoked_token_is_good_for_nothing(slack: FakeSlack, client: AsyncWebClient) -> None:
    slack.install.revoked = True
    with pytest.raises(SlackApiError, match="token_revoked"):
        await client.auth_test()


async def test_a_response_url_replaces_and_deletes(
    slack: FakeSlack, app: AsyncApp, client: AsyncWebClient, ann: Person, deploys: Channel
) -> None:
    @app.action("approve")
    async def on_click(ack: AsyncAck) -> None:
        await ack()

    button = {"type": "button", "action_id": "approve", "text": {"type": "plain_text", "text": "Approve"}}
    blocks = [{"type": "actions", "elements": [button]}]
    await client.chat_postEphemeral(channel=deploys.id, user=ann.id, text="Sure?", blocks=blocks)
    made = await ann.clicks(await ann.finds("Approve", deploys), "Approve")
    url = str(made.body["response_url"])
    async with aiohttp.ClientSession() as session:

        async def answer(body: Arguments) -> tuple[int, str]:
            async with session.post(url, json=body) as got:
                return got.status, await got.text()

        assert (await answer({"text": ""}))[0] == 400
        assert await answer({"text": "Thank you", "replace_original": True}) == (200, "ok")
        assert ann.sees(deploys) == "adk-confirm: Thank you"
        assert (await answer({"delete_original": True}))[0] == 200
        assert ann.sees(deploys) == ""
        slack.clock.advance(31 * 60)
        assert "expired_url" in (await answer({"text": "late"}))[1]


async def test_only_an_app_token_opens_a_socket(slack: FakeSlack) -> None:
    client = AsyncWebClient(base_url=slack.url)
    for token, code in (("xapp-wrong", "invalid_auth"), (slack.bot_token, "not_allowed_token_type")):
        with pytest.raises(SlackApiError, match=code):
            await client.apps_connections_open(app_token=token)


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


async def test_one_post_a_second_in_a_channel(
    slack: FakeSlack, client: AsyncWebClient, deploys: Channel, ann: Person
) -> None:
    other = slack.channel("other", ann)
    slack.rates.posts = True
    await client.chat_postMessage(channel=deploys.id, text="one")
    await client.chat_postMessage(channel=other.id, text="one")
    with pytest.raises(SlackApiError, match="ratelimited"):
        await client.chat_postMessage(channel=deploys.id, text="two")
    slack.clock.advance(1)
    await client.chat_postMessage(channel=deploys.id, text="two")


async def test_calls_per_minute(slack: FakeSlack, client: AsyncWebClient, deploys: Channel) -> None:
    slack.rates.methods = True
    for _ in range(50):
        await client.conversations_info(channel=deploys.id)
    with pytest.raises(SlackApiError) as refused:
        await client.conversations_info(channel=deploys.id)
    assert int(refused.value.response.headers["Retry-After"]) in range(55, 61)
    await client.usergroups_list()
    slack.clock.advance(60)
    await client.conversations_info(channel=deploys.id)
