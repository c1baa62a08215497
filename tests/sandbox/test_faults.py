"""Faults on demand, as the real SDK sees them."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import AsyncServerErrorRetryHandler
from slack_sdk.http_retry.builtin_interval_calculators import FixedValueRetryIntervalCalculator
from slack_sdk.web.async_client import AsyncWebClient

from bot.sandbox.people.people import Person
from bot.sandbox.server.server import FakeSlack
from bot.sandbox.workspace.records import Channel


async def test_a_rate_limit_says_when_to_come_back(slack: FakeSlack, client: AsyncWebClient) -> None:
    slack.faults.limits("auth.*", retry_after=7)
    with pytest.raises(SlackApiError) as refused:
        await client.auth_test()
    assert refused.value.response.status_code == 429
    assert refused.value.response.headers["Retry-After"] == "7"
    assert refused.value.response["error"] == "ratelimited"
    assert (await client.auth_test())["ok"]


@pytest.mark.parametrize(("acted", "posts"), [(False, 0), (True, 1)])
async def test_a_cut_connection_says_nothing(
    slack: FakeSlack, client: AsyncWebClient, deploys: Channel, ann: Person, acted: bool, posts: int
) -> None:
    slack.faults.cuts("chat.postMessage", acted=acted)
    with pytest.raises(aiohttp.ClientError):
        await client.chat_postMessage(channel=deploys.id, text="deploy?")
    assert len(ann.messages(deploys)) == posts


@pytest.mark.parametrize(("status", "acted", "posts"), [(500, False, 1), (503, False, 1), (500, True, 2)])
async def test_a_server_error_may_come_before_or_after(
    slack: FakeSlack, client: AsyncWebClient, deploys: Channel, ann: Person, status: int, acted: bool, posts: int
) -> None:
    client.retry_handlers.append(AsyncServerErrorRetryHandler(1, FixedValueRetryIntervalCalculator(0)))
    slack.faults.fails("chat.postMessage", status=status, acted=acted)
    await client.chat_postMessage(channel=deploys.id, text="deploy?")
    assert len(ann.messages(deploys)) == posts
    assert [made.status for made in slack.calls] == [status, 200]


async def test_a_call_hangs_until_it_is_released(
    slack: FakeSlack, client: AsyncWebClient, deploys: Channel, ann: Person
) -> None:
    hang = slack.faults.hangs("chat.postMessage")
    post = asyncio.create_task(client.chat_postMessage(channel=deploys.id, text="at last"))
    await hang.reached()
    assert ann.sees(deploys) == ""
    hang.release()
    await post
    assert "at last" in ann.sees(deploys)


async def test_an_answer_that_is_no_json(slack: FakeSlack, client: AsyncWebClient, deploys: Channel) -> None:
    slack.faults.garbles("chat.postMessage")
    with pytest.raises(SlackApiError, match="non-JSON"):
        await client.chat_postMessage(channel=deploys.id, text="x")


async def test_a_code_of_choice_where_it_matters(slack: FakeSlack, client: AsyncWebClient, deploys: Channel) -> None:
    fault = slack.faults.refuses("chat.*", "fatal_error", times=None, where=lambda args: args.get("text") == "second")
    await client.chat_postMessage(channel=deploys.id, text="first")
    for _ in range(2):
        with pytest.raises(SlackApiError, match="fatal_error"):
            await client.chat_postMessage(channel=deploys.id, text="second")
    slack.faults.clear()
    await client.chat_postMessage(channel=deploys.id, text="second")
    assert fault.met == 2


async def test_slow_is_slow(slack: FakeSlack, client: AsyncWebClient) -> None:
    slack.faults.slows("auth.test", 0.05)
    before = asyncio.get_running_loop().time()
    await client.auth_test()
    assert asyncio.get_running_loop().time() - before >= 0.05


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
