"""The Web API with the real SDK: its answers, and the codes of its refusals."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
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


async def test_who_am_i(slack: FakeSlack, client: AsyncWebClient) -> None:
    answer = await client.auth_test()
    assert answer["team_id"] == slack.team.id
    assert answer["user_id"] == slack.install.bot_user_id
    assert "chat:write" in answer.headers["x-oauth-scopes"]


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


@pytest.mark.parametrize("how", ["form", "json", "query", "multipart"])
async def test_arguments_come_in_every_spelling(slack: FakeSlack, deploys: Channel, ann: Person, how: str) -> None:
    blocks = [{"type": "section", "text": {"type": "plain_text", "text": "Deploy?"}}]
    fields = {"channel": deploys.id, "text": "Deploy?", "blocks": json.dumps(blocks)}
    multipart = aiohttp.FormData(fields, default_to_multipart=True)
    body: dict[str, Arguments] = {
        "form": {"data": fields},
        "json": {"json": {**fields, "blocks": blocks}},
        "query": {"params": fields},
        "multipart": {"data": multipart},
    }
    headers = {"Authorization": f"Bearer {slack.bot_token}"}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{slack.url}chat.postMessage", headers=headers, **body[how]) as answer:
            assert (await answer.json())["ok"] is True
        async with session.post(f"{slack.url}auth.test", data={"token": slack.bot_token}) as answer:
            assert (await answer.json())["ok"] is True
        async with session.post(f"{slack.url}chat.postMessage", headers=headers, data=b"{") as answer:
            assert (await answer.json())["error"] == "invalid_post_type"
    assert ann.sees(deploys) == "adk-confirm: Deploy?"


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


async def test_a_post_is_cut_and_an_update_refused(client: AsyncWebClient, deploys: Channel) -> None:
    posted = await client.chat_postMessage(channel=deploys.id, text="x" * 40_100)
    assert len(posted["message"]["text"]) == 40_000
    change = {"channel": deploys.id, "ts": posted["ts"], "text": "x" * 4_001}
    assert await refusal(client, "chat.update", **change) == "msg_too_long"


async def test_an_update_with_text_alone_removes_the_blocks(client: AsyncWebClient, deploys: Channel) -> None:
    metadata = {"event_type": "confirmation", "event_payload": {"id": "c1"}}
    posted = await client.chat_postMessage(
        channel=deploys.id, text="Deploy?", blocks=[{"type": "divider"}], metadata=metadata
    )
    assert posted["message"]["metadata"] == metadata
    where = {"channel": deploys.id, "ts": posted["ts"]}
    kept = await client.chat_update(**where, text="Deploy!", blocks=[{"type": "divider"}])
    assert len(kept["message"]["blocks"]) == 1
    gone = await client.chat_update(**where, text="Deployed")
    assert "blocks" not in gone["message"]
    assert gone["message"]["metadata"] == metadata
    assert await refusal(client, "chat.update", **where, text="") == "no_text"


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


async def test_a_thread_is_read_back_with_its_metadata(client: AsyncWebClient, deploys: Channel, ann: Person) -> None:
    asked = await ann.says("deploy", deploys)
    where: Arguments = {"channel": deploys.id, "ts": asked.ts}
    metadata = {"event_type": "confirmation", "event_payload": {"id": "c1"}}
    card = await client.chat_postMessage(channel=deploys.id, thread_ts=asked.ts, text="card", metadata=metadata)
    await ann.says("hm", thread=asked)
    bare = await client.conversations_replies(**where)
    assert [each["text"] for each in bare["messages"]] == ["deploy", "card", "hm"]
    assert bare["messages"][0]["reply_count"] == 2
    assert "metadata" not in bare["messages"][1]
    full = await client.conversations_replies(**where, include_all_metadata=True, oldest=card["ts"], inclusive=True)
    assert [each.get("metadata") for each in full["messages"]] == [None, metadata, None]
    first = await client.conversations_replies(**where, limit=2)
    assert first["has_more"] is True
    rest = await client.conversations_replies(**where, limit=2, cursor=first["response_metadata"]["next_cursor"])
    assert [each["text"] for each in rest["messages"]] == ["hm"]
    top = await client.conversations_history(channel=deploys.id)
    assert [each["text"] for each in top["messages"]] == ["deploy"]
    assert await refusal(client, "conversations.replies", channel=deploys.id, ts="1.000001") == "thread_not_found"
    link = await client.chat_getPermalink(channel=deploys.id, message_ts=card["ts"])
    assert link["permalink"].endswith(f"?thread_ts={asked.ts}&cid={deploys.id}")
    reply = {"channel": deploys.id, "thread_ts": card["ts"], "text": "x"}
    assert await refusal(client, "chat.postMessage", **reply) == "cannot_reply_to_message"


async def test_a_deleted_message_is_gone(client: AsyncWebClient, deploys: Channel, ann: Person) -> None:
    posted = await client.chat_postMessage(channel=deploys.id, text="stray")
    await client.chat_delete(channel=deploys.id, ts=posted["ts"])
    assert ann.sees(deploys) == ""


async def test_who_people_are(slack: FakeSlack, client: AsyncWebClient, ann: Person) -> None:
    guest = slack.person("gus", is_restricted=True, tz="America/New_York")
    profile = (await client.users_info(user=guest.id))["user"]
    assert profile["is_restricted"] is True
    assert profile["tz_offset"] in (-18_000, -14_400)
    found = await client.users_lookupByEmail(email="Ann@example.com")
    assert found["user"]["id"] == ann.id
    assert await refusal(client, "users.info", user="U404") == "user_not_found"
    assert await refusal(client, "users.lookupByEmail", email="x@example.com") == "users_not_found"
    slack.workspace.directory.change_user(ann.id, deleted=True)
    assert (await client.users_info(user=ann.id))["user"]["deleted"] is True
    assert await refusal(client, "users.lookupByEmail", email="ann@example.com") == "users_not_found"
    everyone = [user["id"] async for page in await client.users_list(limit=1) for user in page["members"]]
    assert {ann.id, guest.id, slack.install.bot_user_id} <= set(everyone)


async def test_who_is_on_call(slack: FakeSlack, client: AsyncWebClient, ann: Person, bob: Person) -> None:
    group = slack.group("oncall", ann, id="S0ONCALL")
    assert (await client.usergroups_users_list(usergroup=group))["users"] == [ann.id]
    slack.group("oncall", bob, id="S0ONCALL")
    assert (await client.usergroups_users_list(usergroup=group))["users"] == [bob.id]
    assert [each["handle"] for each in (await client.usergroups_list())["usergroups"]] == ["oncall"]
    slack.group("oncall", bob, id="S0ONCALL", disabled=True)
    assert await refusal(client, "usergroups.users.list", usergroup=group) == "no_such_subteam"
    assert await refusal(client, "usergroups.users.list", usergroup="S404") == "no_such_subteam"


async def test_conversations(
    slack: FakeSlack, client: AsyncWebClient, ann: Person, bob: Person, deploys: Channel
) -> None:
    slack.channel("hidden", ann, with_app=False, private=True)
    described = (await client.conversations_info(channel=deploys.id))["channel"]
    assert (described["name"], described["is_member"], described["is_ext_shared"]) == ("deploys", True, False)
    members = (await client.conversations_members(channel=deploys.id))["members"]
    assert set(members) == {ann.id, bob.id, slack.install.bot_user_id}
    seen = await client.conversations_list(types="public_channel,private_channel")
    assert [each["name"] for each in seen["channels"]] == ["deploys"]
    direct = await client.conversations_open(users=ann.id)
    again = await client.conversations_open(users=ann.id)
    assert direct["channel"]["id"] == again["channel"]["id"]
    assert await refusal(client, "conversations.info", channel=direct["channel"]["id"]) == "missing_scope"
    assert await refusal(client, "conversations.open", users=f"{ann.id},{bob.id}") == "missing_scope"
    slack.workspace.directory.change_user(bob.id, deleted=True)
    assert await refusal(client, "conversations.open", users=bob.id) == "user_disabled"


async def test_every_call_is_on_record(slack: FakeSlack, client: AsyncWebClient, deploys: Channel) -> None:
    await client.chat_postMessage(channel=deploys.id, text="one")
    await refusal(client, "chat.update", channel=deploys.id, ts="1.1", text="x")
    post, update = slack.calls
    assert (post.method, post.args["text"], post.status, post.acted) == ("chat.postMessage", "one", 200, True)
    assert (update.error, update.acted) == ("message_not_found", False)
