"""Clicks first: what can wait begins after them, but is never kept from beginning for good."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress

from slack_bolt.async_app import AsyncAck
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.web.async_client import AsyncWebClient

from bot.inbound.dispatch import TimedApp
from bot.leasing.backpressure import MANY, Precedence

LULL = 0.001


async def begun(precedence: Precedence) -> asyncio.Task[bool]:
    """Something that can wait, as far as it gets while nothing else happens."""
    work = asyncio.create_task(precedence.stand_back())
    for _ in range(5):
        await asyncio.sleep(0)
    return work


async def test_what_can_wait_begins_when_the_last_click_is_through() -> None:
    precedence = Precedence(moment=60, lull=LULL)
    with precedence.given():
        with precedence.given():
            work = await begun(precedence)
        assert not work.done()
    await asyncio.wait_for(work, 10)
    await asyncio.sleep(LULL)
    assert (await begun(precedence)).done(), "with nobody clicking, nothing is held up"


async def test_between_two_clicks_that_follow_each_other_nothing_begins() -> None:
    precedence = Precedence(moment=60, lull=60)
    with precedence.given():
        pass
    work = await begun(precedence)
    assert not work.done()
    work.cancel()


async def test_only_when_nobody_has_clicked_for_a_moment_much_is_begun_at_once() -> None:
    long, short = Precedence(moment=60, lull=LULL), Precedence(moment=0.01, lull=LULL)
    assert await long.stand_back()
    for precedence in (long, short):
        with precedence.given():
            pass
    assert not await long.stand_back()
    await asyncio.sleep(0.02)
    assert await short.stand_back()


async def test_it_begins_in_the_end_however_many_click() -> None:
    precedence = Precedence(moment=0.01)
    with precedence.given():
        assert not await asyncio.wait_for(precedence.stand_back(), 10)


async def test_a_click_that_failed_is_through_too() -> None:
    precedence = Precedence(moment=60, lull=LULL)
    with suppress(ConnectionError), precedence.given():
        raise ConnectionError
    await asyncio.wait_for(precedence.stand_back(), 10)


async def test_a_click_has_precedence_from_the_door_to_its_answer() -> None:
    """An event has none: nobody awaits its ack."""
    precedence, under_way = Precedence(moment=60, lull=LULL), list[bool]()
    app = TimedApp(NoAcks(), precedence, client=AsyncWebClient(), authorize=anybody, request_verification_enabled=False)

    async def look(ack: AsyncAck) -> None:
        under_way.append(not (await begun(precedence)).done())
        await ack()

    app.action("press")(look)
    app.event("app_mention")(look)
    click = {"type": "block_actions", "actions": [{"type": "button", "action_id": "press"}], "user": {"id": "U0BOB"}}
    event = {"type": "event_callback", "event": {"type": "app_mention", "user": "U0BOB"}}
    for body in (click, event):
        answer = await app.async_dispatch(AsyncBoltRequest(body={**body, "team": {"id": "T0ACME"}}, mode="socket_mode"))
        assert answer.status == 200
        await asyncio.wait_for(precedence.stand_back(), 10)
        await asyncio.sleep(2 * LULL)
    assert under_way == [True, False]


class NoAcks:
    def acked(self, way: str, seconds: float, *, stored: bool) -> None:
        """Nobody counts."""


async def anybody(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult:
    return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id, bot_token="xoxb-1")


def test_many_are_told_from_a_few() -> None:
    precedence, told = Precedence(), list[bool]()
    with ExitStack() as clicks:
        for _ in range(MANY):
            told.append(precedence.many)
            clicks.enter_context(precedence.given())
        told.append(precedence.many)
    told.append(precedence.many)
    assert told == [*[False] * MANY, True, False]
