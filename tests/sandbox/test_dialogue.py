"""A real Bolt app and people who write, click and fill in forms."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond, AsyncSay
from slack_sdk.web.async_client import AsyncWebClient

from bot.sandbox.people.people import AskedFirst, Person
from bot.sandbox.people.seen import Seen
from bot.sandbox.people.waiting import WaitedInVain
from bot.sandbox.server.delivery import ACK_WITHIN
from bot.sandbox.server.server import FakeSlack
from bot.sandbox.workspace.records import Channel
from runtime.errors import Forbidden, NotFound

Body = dict[str, Any]  # Bolt hands payloads over as plain dictionaries


def card(*buttons: str, text: str = "Deploy *2.4.1*?") -> list[Body]:
    section = {"type": "section", "block_id": "what", "text": {"type": "mrkdwn", "text": text}}
    elements = [
        {"type": "button", "action_id": each.lower(), "value": "c1/r1", "text": {"type": "plain_text", "text": each}}
        for each in buttons
    ]
    return [section, {"type": "actions", "block_id": "acts", "elements": elements}]


def the_click_says_who_did_what(clicked: list[Body], bob: Person, shown: Seen) -> None:
    [body] = clicked
    assert body["user"] == {"id": bob.id, "username": "bob", "name": "bob", "team_id": bob.user.team_id}
    assert body["container"]["message_ts"] == shown.ts
    assert body["actions"][0]["value"] == "c1/r1"
    assert body["response_url"].startswith("http://127.0.0.1:")


async def test_a_mention_arrives_twice_and_a_click_once(
    slack: FakeSlack, app: AsyncApp, ann: Person, bob: Person, deploys: Channel
) -> None:
    heard: list[str] = []
    clicked: list[Body] = []

    @app.event("app_mention")
    async def on_mention(event: Body, say: AsyncSay) -> None:
        heard.append(event["ts"])
        await say(text="Deploy?", blocks=card("Approve", "Deny"), thread_ts=event["ts"])

    @app.event("message")
    async def on_message(event: Body) -> None:
        if "bot_id" not in event and "subtype" not in event:
            heard.append(event["ts"])

    @app.action("approve")
    async def on_approve(ack: AsyncAck, body: Body, client: AsyncWebClient) -> None:
        clicked.append(body)
        await ack()
        await client.chat_update(channel=body["channel"]["id"], ts=body["message"]["ts"], text="Approved by bob")

    asked = await ann.says("@adk-confirm deploy <checkout> & go", "#deploys")
    shown = await bob.finds("Deploy *2.4.1*?", thread=asked, place=deploys)
    assert shown.buttons == ("Approve", "Deny")
    assert "@adk-confirm deploy <checkout> & go" in bob.sees(deploys)
    made = await bob.clicks(shown, "Approve")
    assert made.acked
    await slack.until(lambda: "Approved by bob" in bob.now(shown))
    assert bob.now(shown).buttons == ()
    await slack.settled()
    assert heard == [asked.ts, asked.ts]
    ids = [made.body["event_id"] for made in slack.deliveries if made.kind == "events_api"]
    assert len(set(ids)) == len(ids)
    the_click_says_who_did_what(clicked, bob, shown)
    with pytest.raises(NotFound):
        await bob.clicks(shown, "Approve")
    late = await bob.clicks(shown, "Approve", stale=True)
    assert late.acked


def field(name: str, element: Body) -> Body:
    label = {"type": "plain_text", "text": name}
    return {"type": "input", "block_id": name.lower(), "label": label, "element": {"action_id": "v", **element}}


EDIT: Body = {
    "type": "modal",
    "callback_id": "edit",
    "title": {"type": "plain_text", "text": "Edit"},
    "submit": {"type": "plain_text", "text": "Save"},
    "blocks": [
        field("Amount", {"type": "number_input", "is_decimal_allowed": False, "max_value": "2000"}),
        field("Reason", {"type": "plain_text_input", "min_length": 3}),
    ],
}


async def test_a_modal_is_filled_in_checked_and_submitted(
    slack: FakeSlack, app: AsyncApp, ann: Person, deploys: Channel
) -> None:
    taken: list[Body] = []

    @app.shortcut("edit_it")
    async def on_shortcut(ack: AsyncAck, body: Body, client: AsyncWebClient) -> None:
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=EDIT)

    @app.view("edit")
    async def on_submit(ack: AsyncAck, body: Body) -> None:
        taken.append(body["view"]["state"]["values"])
        if body["view"]["state"]["values"]["amount"]["v"]["value"] == "13":
            await ack(response_action="errors", errors={"amount": "Not thirteen."})
        else:
            await ack()

    await ann.shortcut("edit_it")
    modal = await ann.gets_modal("Edit")
    assert await modal.submits() is None
    assert modal.errors == dict.fromkeys(("Amount", "Reason"), "Please complete this required field.")
    assert await modal.submits({"Amount": 2500, "Reason": "no"}) is None
    assert modal.errors == {"Amount": "Must be 2000 or less.", "Reason": "Must be at least 3 characters."}
    assert taken == []
    await modal.submits({"Amount": 13, "Reason": "because"})
    assert modal.errors == {"Amount": "Not thirteen."}
    assert modal.is_open()
    await modal.submits({"Amount": 12})
    assert not modal.is_open()
    assert taken[-1]["amount"]["v"] == {"type": "number_input", "value": "12"}


async def test_a_confirm_dialog_comes_before_the_click(
    slack: FakeSlack, app: AsyncApp, client: AsyncWebClient, ann: Person, deploys: Channel
) -> None:
    blocks = card("Approve")
    plain = {name: {"type": "plain_text", "text": name} for name in ("title", "text", "confirm", "deny")}
    blocks[1]["elements"][0]["confirm"] = plain
    await client.chat_postMessage(channel=deploys.id, text="Sure?", blocks=blocks)
    shown = await ann.finds("Deploy", deploys)
    with pytest.raises(AskedFirst, match="title: text"):
        await ann.clicks(shown, "Approve")
    assert [made for made in slack.deliveries if made.what == "block_actions"] == []
    await ann.clicks(shown, "Approve", sure=True)
    assert [made for made in slack.deliveries if made.what == "block_actions"] != []


async def test_an_ephemeral_is_its_readers_alone(
    slack: FakeSlack, client: AsyncWebClient, ann: Person, bob: Person, deploys: Channel
) -> None:
    await client.chat_postEphemeral(channel=deploys.id, user=bob.id, text="Only you, bob", blocks=card("Retry"))
    shown = await bob.finds("Deploy", deploys)
    assert shown.ephemeral
    assert ann.sees(deploys) == ""
    with pytest.raises(Forbidden):
        await ann.clicks(shown, "Retry")


async def test_commands_and_response_urls(slack: FakeSlack, app: AsyncApp, ann: Person, deploys: Channel) -> None:
    @app.command("/approvals")
    async def on_command(ack: AsyncAck, respond: AsyncRespond, body: Body) -> None:
        await ack(f"help for {body['user_name']}: {body['text']}")
        for number in range(5):
            await respond(f"answer {number}")
        late = await respond("one too many")
        assert late.status_code == 404
        assert "used_url" in late.body

    made = await ann.commands("/approvals", "list all", deploys)
    assert made.acked
    assert "help for ann: list all" in ann.sees(deploys)
    assert "answer 4" in ann.sees(deploys)
    assert "too many" not in ann.sees(deploys)
    with pytest.raises(NotFound, match="not a valid command"):
        await ann.commands("/nonsense", "", deploys)


async def test_an_unacknowledged_event_comes_again_and_a_click_does_not(
    slack: FakeSlack, app: AsyncApp, client: AsyncWebClient, ann: Person, deploys: Channel
) -> None:
    asked = 0

    @app.event("app_mention")
    async def on_mention(event: Body) -> None:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise RuntimeError("not yet")

    @app.event("message")
    async def on_message(event: Body) -> None: ...

    @app.action("approve")
    async def on_click() -> None:
        raise RuntimeError("never")

    await ann.says("@adk-confirm hello", deploys)
    await slack.until(lambda: asked == 2)
    slack.clock.advance(61)
    await slack.until(lambda: asked == 3)
    await slack.settled()
    tries = [(made.attempt, made.status) for made in slack.deliveries if made.what == "app_mention"]
    assert tries == [(0, 500), (1, 500), (2, 200)]
    await client.chat_postMessage(channel=deploys.id, text="Sure?", blocks=card("Approve"))
    made = await ann.clicks(await ann.finds("Deploy", deploys), "Approve")
    assert made.status == 500
    await slack.settled()
    assert len([each for each in slack.deliveries if each.what == "block_actions"]) == 1
    assert ann.notices == ["This action could not be completed."]


async def test_three_seconds_are_all_an_app_gets(
    slack: FakeSlack, app: AsyncApp, client: AsyncWebClient, ann: Person, deploys: Channel
) -> None:
    slack.outbox.ack_within = ACK_WITHIN
    entered, gate = asyncio.Event(), asyncio.Event()

    @app.action("approve")
    async def on_click(ack: AsyncAck) -> None:
        entered.set()
        await gate.wait()
        await ack()

    await client.chat_postMessage(channel=deploys.id, text="Sure?", blocks=card("Approve"))
    click = asyncio.create_task(ann.clicks(await ann.finds("Deploy", deploys), "Approve"))
    await entered.wait()
    slack.clock.advance(ACK_WITHIN)
    made = await click
    gate.set()
    assert not made.acked
    assert made.reason == "http_timeout"


async def test_waiting_in_vain_shows_all_screens(slack: FakeSlack, ann: Person, deploys: Channel) -> None:
    await ann.says("is anybody there?", deploys)
    with pytest.raises(WaitedInVain, match="anybody there"):
        await ann.finds("yes", deploys, timeout=0.01)


async def test_the_request_url_is_verified(slack: FakeSlack, app: AsyncApp) -> None:
    assert await slack.verifies_url()
