"""Faults on demand, as the real SDK sees them."""

from __future__ import annotations

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.sandbox.people.people import Person
from bot.sandbox.server.server import FakeSlack
from bot.sandbox.workspace.records import Channel


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
