"""Clicks come first. What can wait begins after them, but is never blocked for good: see `test_lease_loop.py`."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from slack_bolt.async_app import AsyncAck
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.web.async_client import AsyncWebClient

from adk_confirm.bot.inbound.bolt_app import TimedApp
from adk_confirm.runtime.store.jobs import Precedence
from tests.support.waiting import until


async def test_a_click_comes_first_from_the_door_to_its_answer() -> None:
    """An event does not: nobody awaits its ack."""
    clicks, held_back = Precedence(moment=3600), list[bool]()
    client = AsyncWebClient()
    app = TimedApp(lambda *_: None, clicks, client=client, authorize=anybody, request_verification_enabled=False)

    async def look(ack: AsyncAck) -> None:
        waiting = asyncio.create_task(clicks.wait())
        await asyncio.sleep(0)
        held_back.append(not waiting.done())
        await ack()

    app.action("press")(look)
    app.event("app_mention")(look)
    button = {"type": "button", "action_id": "press"}
    click = {"type": "block_actions", "actions": [button], "user": {"id": "U0BOB"}}
    event = {"type": "event_callback", "event": {"type": "app_mention", "user": "U0BOB"}}
    for body in (click, event):
        request = AsyncBoltRequest(body={**body, "team": {"id": "T0ACME"}}, mode="socket_mode")
        assert (await app.async_dispatch(request)).status == 200
    await until(lambda: len(held_back) == 2)
    assert held_back == [True, False]


async def test_a_click_that_failed_holds_nothing_back() -> None:
    clicks = Precedence(moment=3600)
    with suppress(ConnectionError), clicks.goes_first():
        raise ConnectionError
    async with asyncio.timeout(10):
        await clicks.wait()


async def anybody(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult:
    return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id, bot_token="xoxb-1")
