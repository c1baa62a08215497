"""Which events an app gets, and what they contain."""

from __future__ import annotations

from typing import Any

import pytest
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from bot.sandbox.people.people import Person
from bot.sandbox.server.server import FakeSlack
from bot.sandbox.workspace.records import Channel
from bot.sandbox.workspace.registration import App
from runtime.jsontypes import as_object

Body = dict[str, Any]


@pytest.fixture(autouse=True)
def listening(app: AsyncApp) -> None:
    @app.event("message")
    async def on_message(event: Body) -> None: ...

    @app.event("app_mention")
    async def on_mention(event: Body) -> None: ...


def sent(slack: FakeSlack) -> list[Body]:
    return [as_object(made.body["event"]) for made in slack.deliveries if made.kind == "events_api"]


async def test_a_reply_an_edit_and_a_deletion(slack: FakeSlack, ann: Person, bob: Person, deploys: Channel) -> None:
    asked = await ann.says("deploy?", deploys)
    reply = await bob.says("wait", thread=asked)
    await bob.edits(reply, "go on")
    await bob.deletes(reply)
    await slack.settled()
    first, answer, changed, deleted = sent(slack)
    assert (first["type"], first["channel_type"], first["text"]) == ("message", "channel", "deploy?")
    assert "subtype" not in first
    assert "thread_ts" not in first
    assert (answer["thread_ts"], answer["parent_user_id"]) == (asked.ts, ann.id)
    assert changed["subtype"] == "message_changed"
    assert (changed["previous_message"]["text"], changed["message"]["text"]) == ("wait", "go on")
    assert changed["message"]["edited"]["user"] == bob.id
    assert (deleted["subtype"], deleted["deleted_ts"]) == ("message_deleted", reply.ts)


async def test_an_app_hears_itself_and_other_bots(
    slack: FakeSlack, client: AsyncWebClient, ann: Person, deploys: Channel
) -> None:
    robot = slack.person("robot", is_bot=True)
    slack.workspace.directory.set_members(deploys.id, add=(robot.id,))
    await robot.says("@adk-confirm beep", deploys)
    posted = await client.chat_postMessage(channel=deploys.id, text="hello")
    await client.chat_update(channel=deploys.id, ts=posted["ts"], text="hello again")
    await slack.settled()
    beep, hello, again = sent(slack)
    assert beep["type"] == "message"
    assert beep["bot_id"] != slack.install.bot_id
    assert (hello["bot_id"], hello["app_id"]) == (slack.install.bot_id, slack.workspace.app.id)
    assert again["subtype"] == "message_changed"


async def test_broadcasts_and_files_have_subtypes(slack: FakeSlack, ann: Person, deploys: Channel) -> None:
    asked = await ann.says("deploy?", deploys)
    await ann.says("everyone: look", thread=asked, also_to_channel=True)
    await ann.says("see the log", deploys, files={"log.txt": b"boom"})
    await slack.settled()
    assert [event.get("subtype") for event in sent(slack)] == [None, "thread_broadcast", "file_share"]
    assert sent(slack)[-1]["files"][0]["name"] == "log.txt"
    assert "[file: log.txt]" in ann.sees(deploys)


async def test_where_an_app_hears_nothing(slack: FakeSlack, ann: Person, bob: Person) -> None:
    outside = slack.channel("outside", ann, with_app=False)
    await ann.says("@adk-confirm can you hear me?", outside)
    ann_and_bob = slack.workspace.directory.direct(slack.team.id, ann.id, bob.id)
    await ann.says("just us", ann_and_bob)
    await slack.settled()
    assert sent(slack) == []


async def test_a_direct_message_is_no_mention(slack: FakeSlack, ann: Person) -> None:
    await ann.says("@adk-confirm hello")
    await slack.settled()
    [event] = sent(slack)
    assert (event["type"], event["channel_type"]) == ("message", "im")


async def test_only_subscribed_events_are_sent() -> None:
    async with FakeSlack(App(events=frozenset({"app_mention"}))) as slack:
        person = slack.person("ann")
        channel = slack.channel("deploys", person)
        await person.says("hello", channel)
        await person.says("@adk-confirm hello", channel)
        await person.says("hello")
        slack.outbox.retries_after = ()
        await slack.settled()
        assert [event["type"] for event in sent(slack)] == ["app_mention"]


async def test_a_shortcut_on_a_message(slack: FakeSlack, app: AsyncApp, ann: Person, deploys: Channel) -> None:
    bodies: list[Body] = []

    @app.shortcut("ask")
    async def on_shortcut(ack: AsyncAck, body: Body) -> None:
        bodies.append(body)
        await ack()

    await ann.shortcut("ask", await ann.says("please", deploys))
    assert (bodies[0]["type"], bodies[0]["message"]["text"]) == ("message_action", "please")


async def test_an_app_may_ask_not_to_be_told_again(
    slack: FakeSlack, app: AsyncApp, ann: Person, deploys: Channel
) -> None:
    @app.middleware
    async def refuse() -> BoltResponse:
        return BoltResponse(status=500, headers={"x-slack-no-retry": "1"})

    await ann.says("hello", deploys)
    await slack.settled()
    assert [made.status for made in slack.deliveries] == [500]


async def test_unread_marks(slack: FakeSlack, ann: Person, bob: Person, deploys: Channel) -> None:
    await ann.says("one", deploys)
    await ann.says("two", deploys)
    assert slack.workspace.unread(bob.id, deploys) == 2
    assert slack.workspace.unread(ann.id, deploys) == 0
    slack.workspace.mark_read(bob.id, deploys)
    assert slack.workspace.unread(bob.id, deploys) == 0
