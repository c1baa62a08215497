"""A local Slack with three people in it, the real SDK's client, and a small real Bolt app."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.records import Channel


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack(our_app()) as running:
        yield running


@pytest.fixture
def ann(slack: FakeSlack) -> Person:
    return slack.person("ann", email="ann@example.com")


@pytest.fixture
def bob(slack: FakeSlack) -> Person:
    return slack.person("bob")


@pytest.fixture
def deploys(slack: FakeSlack, ann: Person, bob: Person) -> Channel:
    return slack.channel("deploys", ann, bob)


@pytest.fixture
def client(slack: FakeSlack) -> AsyncWebClient:
    return AsyncWebClient(slack.bot_token, base_url=slack.url, retry_handlers=[])


@pytest.fixture
async def app(slack: FakeSlack) -> AsyncIterator[AsyncApp]:
    """Bolt as an app would run it, reachable at the request URL; each test adds its own listeners."""
    client = AsyncWebClient(slack.bot_token, base_url=slack.url, retry_handlers=[])
    bolt = AsyncApp(name="tests", signing_secret=slack.signing_secret, client=client, process_before_response=True)
    runner = web.AppRunner(bolt.web_app(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    slack.sends_to(f"http://{host}:{port}/slack/events")
    yield bolt
    await runner.cleanup()
