"""Clicks come first. Work that can wait begins after them, but is never blocked for good."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress

from slack_bolt.async_app import AsyncAck
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.web.async_client import AsyncWebClient

from bot.inbound.bolt_app import TimedApp
from bot.leasing.backpressure import LULL, MANY, MOMENT, Backpressure, Pace
from tests.support.skipping import Skipping, in_skipping_time
from tests.support.waiting import until

HOUR = 3600.0


def begins(precedence: Backpressure) -> asyncio.Task[Pace]:
    """Work that can wait."""
    return asyncio.create_task(precedence.wait_for_urgent_work())


def test_what_can_wait_begins_when_the_last_click_is_through() -> None:
    async def test(loop: Skipping) -> None:
        precedence = Backpressure()
        with precedence.handling_click():
            with precedence.handling_click():
                work = begins(precedence)
                await loop.skip(LULL)
            await loop.skip(LULL)
            assert not work.done()
        await work
        await loop.skip(LULL)
        again = begins(precedence)
        await loop.skip(0)
        assert again.done(), "with nobody clicking, nothing is held up"

    in_skipping_time(test)


def test_between_two_clicks_that_follow_each_other_nothing_begins() -> None:
    async def test(loop: Skipping) -> None:
        precedence = Backpressure(moment=HOUR, lull=HOUR)
        with precedence.handling_click():
            pass
        work = begins(precedence)
        await loop.skip(HOUR / 2)
        assert not work.done()
        await loop.skip(HOUR)
        assert work.done()

    in_skipping_time(test)


def test_only_when_nobody_has_clicked_for_a_moment_much_is_begun_at_once() -> None:
    async def test(loop: Skipping) -> None:
        precedence = Backpressure(moment=HOUR)
        assert await precedence.wait_for_urgent_work() is Pace.FREE
        with precedence.handling_click():
            pass
        await loop.skip(HOUR / 2)
        assert await precedence.wait_for_urgent_work() is Pace.PAUSE
        await loop.skip(HOUR)
        assert await precedence.wait_for_urgent_work() is Pace.FREE

    in_skipping_time(test)


def test_it_begins_in_the_end_however_many_click() -> None:
    async def test(loop: Skipping) -> None:
        precedence = Backpressure(moment=HOUR)
        with precedence.handling_click():
            work = begins(precedence)
            await loop.skip(HOUR / 2)
            assert not work.done()
            await loop.skip(HOUR)
            assert await work is Pace.BUSY

    in_skipping_time(test)


def test_an_approved_call_on_its_way_goes_first_and_is_no_click() -> None:
    async def test(loop: Skipping) -> None:
        precedence = Backpressure(moment=HOUR)
        with precedence.urgent_work():
            work = begins(precedence)
            await loop.skip(HOUR / 2)
            assert not work.done()
            assert precedence.nobody_clicks, "what hurries does not stand back for itself"
        await loop.skip(LULL)
        assert await work is Pace.PAUSE, "only a little is begun at once"

    in_skipping_time(test)


def test_a_call_goes_first_until_it_has_started_and_for_a_moment_at_most() -> None:
    async def test(loop: Skipping) -> None:
        precedence = Backpressure()
        with precedence.starting_call() as started:
            work = begins(precedence)
            await loop.skip(MOMENT / 2)
            assert not work.done()
            started()
            await loop.skip(LULL)
            assert await work is Pace.PAUSE
        with precedence.starting_call():
            await loop.skip(MOMENT)
            await loop.skip(LULL)
            assert await precedence.wait_for_urgent_work() is not Pace.BUSY, "its tool may run for hours"

    in_skipping_time(test)


def test_a_click_that_failed_is_through_too() -> None:
    async def test(loop: Skipping) -> None:
        precedence = Backpressure(moment=HOUR)
        with suppress(ConnectionError), precedence.handling_click():
            raise ConnectionError
        work = begins(precedence)
        await loop.skip(LULL)
        await work

    in_skipping_time(test)


async def test_a_click_has_precedence_from_the_door_to_its_answer() -> None:
    """An event has none: nobody awaits its ack."""
    precedence, under_way = Backpressure(moment=HOUR), list[bool]()
    client = AsyncWebClient()
    app = TimedApp(
        NoAcks(),
        precedence,
        client=client,
        authorize=anybody,
        request_verification_enabled=False,
    )

    async def look(ack: AsyncAck) -> None:
        under_way.append(precedence.under_way)
        await ack()

    app.action("press")(look)
    app.event("app_mention")(look)
    button = {"type": "button", "action_id": "press"}
    click = {"type": "block_actions", "actions": [button], "user": {"id": "U0BOB"}}
    event = {"type": "event_callback", "event": {"type": "app_mention", "user": "U0BOB"}}
    for body in (click, event):
        request = AsyncBoltRequest(body={**body, "team": {"id": "T0ACME"}}, mode="socket_mode")
        assert (await app.async_dispatch(request)).status == 200
    await until(lambda: len(under_way) == 2)
    assert under_way == [True, False]


class NoAcks:
    def acked(self, way: str, seconds: float, *, stored: bool) -> None:
        """Nobody counts."""


async def anybody(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult:
    return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id, bot_token="xoxb-1")


async def test_many_are_told_from_a_few() -> None:
    precedence, answers = Backpressure(), list[bool]()
    with ExitStack() as clicks:
        for _ in range(MANY):
            answers.append(precedence.many)
            clicks.enter_context(precedence.handling_click())
        answers.append(precedence.many)
    answers.append(precedence.many)
    assert answers == [*[False] * MANY, True, False]
