"""Which events an app gets, and what becomes of its answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.jsontypes import as_object
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.people.waiting import WaitedInVain
from adk_confirm.sandbox.refusals import NotFound
from adk_confirm.sandbox.server.delivery import ACK_WITHIN
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.records import Channel

Body = dict[str, Any]


@pytest.fixture(autouse=True)
def listening(app: AsyncApp) -> None:
    @app.event("message")
    async def on_message(event: Body) -> None: ...

    @app.event("app_mention")
    async def on_mention(event: Body) -> None: ...


def sent(slack: FakeSlack) -> list[Body]:
    return [as_object(made.body["event"]) for made in slack.deliveries if made.kind == "events_api"]


async def test_where_an_app_hears_nothing(slack: FakeSlack, ann: Person, bob: Person) -> None:
    outside = slack.channel("outside", ann, with_app=False)
    await ann.says("@adk-confirm can you hear me?", outside)
    ann_and_bob = slack.workspace.directory.direct(slack.team.id, ann.id, bob.id)
    await ann.says("just us", ann_and_bob)
    await slack.settled()
    assert sent(slack) == []


async def test_only_subscribed_events_are_sent() -> None:
    async with FakeSlack(replace(our_app(), events=frozenset({"app_mention"}))) as slack:
        person = slack.person("ann")
        channel = slack.channel("deploys", person)
        await person.says("hello", channel)
        await person.says("@adk-confirm hello", channel)
        await person.says("hello")
        slack.outbox.retries_after = ()
        await slack.settled()
        assert [event["type"] for event in sent(slack)] == ["app_mention"]


async def test_an_app_may_ask_not_to_be_told_again(
    slack: FakeSlack, app: AsyncApp, ann: Person, deploys: Channel
) -> None:
    @app.middleware
    async def refuse() -> BoltResponse:
        return BoltResponse(status=500, headers={"x-slack-no-retry": "1"})

    await ann.says("hello", deploys)
    await slack.settled()
    assert [made.status for made in slack.deliveries] == [500]


def card(*buttons: str, text: str = "Deploy *2.4.1*?") -> list[Body]:
    section = {"type": "section", "block_id": "what", "text": {"type": "mrkdwn", "text": text}}
    elements = [
        {"type": "button", "action_id": each.lower(), "value": "c1/r1", "text": {"type": "plain_text", "text": each}}
        for each in buttons
    ]
    return [section, {"type": "actions", "block_id": "acts", "elements": elements}]


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
