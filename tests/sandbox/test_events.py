"""Which events an app gets, and what they contain."""

from __future__ import annotations

from typing import Any

import pytest
from slack_bolt.async_app import AsyncApp
from slack_bolt.response import BoltResponse

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


async def test_where_an_app_hears_nothing(slack: FakeSlack, ann: Person, bob: Person) -> None:
    outside = slack.channel("outside", ann, with_app=False)
    await ann.says("@adk-confirm can you hear me?", outside)
    ann_and_bob = slack.workspace.directory.direct(slack.team.id, ann.id, bob.id)
    await ann.says("just us", ann_and_bob)
    await slack.settled()
    assert sent(slack) == []


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


async def test_an_app_may_ask_not_to_be_told_again(
    slack: FakeSlack, app: AsyncApp, ann: Person, deploys: Channel
) -> None:
    @app.middleware
    async def refuse() -> BoltResponse:
        return BoltResponse(status=500, headers={"x-slack-no-retry": "1"})

    await ann.says("hello", deploys)
    await slack.settled()
    assert [made.status for made in slack.deliveries] == [500]
