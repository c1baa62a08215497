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


async def test_a_revoked_token_is_good_for_nothing(slack: FakeSlack, client: AsyncWebClient) -> None:
    slack.install.revoked = True
    assert await refusal(client, "auth.test") == "token_revoked"


async def test_only_an_app_token_opens_a_socket(slack: FakeSlack) -> None:
    for token, code in (("xapp-wrong", "invalid_auth"), (slack.bot_token, "not_allowed_token_type")):
        assert await refusal(AsyncWebClient(token, base_url=slack.url), "apps.connections.open") == code


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


@pytest.fixture
async def world(slack: FakeSlack, client: AsyncWebClient, ann: Person, deploys: Channel) -> dict[str, str]:
    """Name in the table below → its id."""
    globex = slack.workspace.directory.add_team("Globex")
    hank = slack.person("hank", team=globex)
    closed = slack.channel("closed", ann)
    closed.is_archived = True
    beside = await client.chat_postEphemeral(channel=deploys.id, user=ann.id, text="psst")
    return {
        "<team>": slack.team.id,
        "<ann>": ann.id,
        "<zoe, who is not there>": slack.person("zoe").id,
        "<hank of Globex>": hank.id,
        "<deploys>": deploys.id,
        "<outside>": slack.channel("outside", ann, with_app=False).id,
        "<hidden>": slack.channel("hidden", ann, with_app=False, private=True).id,
        "<closed>": closed.id,
        "<lab of Globex>": slack.workspace.directory.add_channel(globex, "lab", members=(hank.id,)).id,
        "<hers>": (await ann.says("mine", deploys)).ts,
        "<beside>": beside["message_ts"],
    }


NOWHERE = "1.000001"
WORDS: Arguments = {"type": "markdown_text", "text": "So"}
USUAL: dict[str, Arguments] = {
    "chat.postMessage": {"channel": "<deploys>"},
    "chat.update": {"channel": "<deploys>", "ts": "<hers>", "text": "x"},
    "chat.delete": {"channel": "<deploys>", "ts": "<hers>"},
    "chat.postEphemeral": {"channel": "<deploys>", "text": "psst"},
    "chat.startStream": {
        "channel": "<deploys>", "thread_ts": "<hers>", "recipient_team_id": "<team>", "recipient_user_id": "<ann>",
    },
}  # fmt: skip
REFUSED: list[tuple[str, Arguments, str]] = [
    ("chat.shout", {}, "unknown_method"),
    ("chat.postMessage", {"text": ""}, "no_text"),
    ("chat.postMessage", {"text": "  "}, "no_text"),
    ("chat.postMessage", {"text": "x", "blocks": [{"type": "header"}]}, "invalid_blocks"),
    ("chat.postMessage", {"text": "x", "blocks": "[{"}, "invalid_blocks_format"),
    ("chat.postMessage", {"text": "x", "channel": ""}, "invalid_arguments"),
    ("chat.postMessage", {"text": "x", "channel": "C404"}, "channel_not_found"),
    ("chat.postMessage", {"text": "x", "channel": "#deploys"}, "channel_not_found"),
    ("chat.postMessage", {"text": "x", "channel": "<outside>"}, "not_in_channel"),
    ("chat.postMessage", {"text": "x", "channel": "<hidden>"}, "channel_not_found"),
    ("chat.postMessage", {"text": "x", "channel": "<closed>"}, "is_archived"),
    ("chat.postMessage", {"text": "x", "thread_ts": NOWHERE}, "thread_not_found"),
    ("chat.postMessage", {"text": "x", "markdown_text": "x"}, "markdown_text_conflict"),
    ("chat.postMessage", {"markdown_text": "x" * 12_001}, "msg_too_long"),
    ("chat.postMessage", {"text": "x", "metadata": {"event_payload": {}}}, "invalid_metadata_format"),
    ("conversations.history", {"channel": "<outside>"}, "not_in_channel"),
    ("conversations.replies", {"channel": "<outside>", "ts": "1.1"}, "not_in_channel"),
    ("chat.update", {}, "cant_update_message"),
    ("chat.update", {"ts": NOWHERE}, "message_not_found"),
    ("chat.update", {"ts": "<beside>"}, "message_not_found"),
    ("chat.delete", {}, "cant_delete_message"),
    ("chat.postEphemeral", {"user": "<zoe, who is not there>"}, "user_not_in_channel"),
    ("chat.postEphemeral", {"user": "U404"}, "user_not_found"),
    ("users.info", {"user": "<hank of Globex>"}, "user_not_found"),
    ("conversations.info", {"channel": "<lab of Globex>"}, "channel_not_found"),
    ("chat.startStream", {"recipient_team_id": None}, "missing_recipient_team_id"),
    ("chat.startStream", {"recipient_user_id": None}, "missing_recipient_user_id"),
    ("chat.startStream", {"recipient_user_id": "U404"}, "user_not_found"),
    ("chat.startStream", {"thread_ts": NOWHERE}, "thread_not_found"),
    ("chat.startStream", {"thread_ts": ""}, "invalid_arguments"),
    ("chat.startStream", {"markdown_text": "x" * 12_001}, "msg_too_long"),
    ("chat.startStream", {"chunks": [{"type": "song"}]}, "invalid_chunks"),
    ("chat.startStream", {"chunks": [WORDS], "markdown_text": "So"}, "cannot_provide_both_markdown_text_and_chunks"),
]


async def test_what_is_refused_and_changes_nothing(
    client: AsyncWebClient, world: dict[str, str], ann: Person, deploys: Channel
) -> None:
    before = ann.sees(deploys)
    found: list[tuple[str, Arguments, str]] = []
    for method, arguments, _ in REFUSED:
        named = {**USUAL.get(method, {}), **arguments}
        asked = {name: world.get(value, value) if isinstance(value, str) else value for name, value in named.items()}
        found.append((method, arguments, await refusal(client, method, **asked)))
    assert found == REFUSED
    assert ann.sees(deploys) == before


async def test_a_bot_writes_to_somebody_by_their_id(client: AsyncWebClient, ann: Person) -> None:
    await client.chat_postMessage(channel=ann.id, text="Between us")
    assert "Between us" in ann.sees()


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


async def test_one_post_a_second_in_a_channel(
    slack: FakeSlack, client: AsyncWebClient, deploys: Channel, ann: Person
) -> None:
    other = slack.channel("other", ann)
    slack.rates.posts = True
    await client.chat_postMessage(channel=deploys.id, text="one")
    await client.chat_postMessage(channel=other.id, text="one")
    assert await refusal(client, "chat.postMessage", channel=deploys.id, text="two") == "ratelimited"
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
