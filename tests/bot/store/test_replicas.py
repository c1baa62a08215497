"""Replicas share Slack's limits: each knows how many there are, and uses only its part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from blocks.kit import Message
from bot.app import running_bot
from bot.sandbox.server.server import FakeSlack
from bot.slack.outbound.calls import Calls
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import Later
from bot.slack.outbound.methods import UPDATE
from bot.slack.outbound.rates import share
from bot.store.replicas import REPLICAS, TERM, Replicas
from bot.store.tables import replicas
from runtime.store.database import Database, Tx
from tests.support.office import AT_ONCE, configured
from tests.support.outgoing import AT, Outgoing, outgoing

THREE = 3


@dataclass
class Clock:
    at: float = 1_000_000.0

    def now(self) -> float:
        return self.at


@pytest.fixture
async def opened(postgres_stocked: str) -> AsyncIterator[tuple[list[Replicas], Clock]]:
    clock = Clock()
    async with AsyncExitStack() as stack:
        databases = [await Database.open(postgres_stocked, clock=clock.now) for _ in range(THREE)]
        for database in databases:
            stack.push_async_callback(database.close)
        yield [Replicas(database) for database in databases], clock


async def test_each_knows_how_many_there_are_and_a_dead_one_is_forgotten(
    opened: tuple[list[Replicas], Clock],
) -> None:
    (first, second, third), clock = opened
    assert first.alive() == 1
    for each in (first, second, third, first, second):
        await each.beat()
    assert [each.alive() for each in (first, second, third)] == [3, 3, 3]

    clock.at += TERM - 1
    await first.beat()
    await second.beat()
    assert first.alive() == 3
    clock.at += 2
    await first.beat()
    assert first.alive() == 2  # the third one was not heard of for longer than its term
    await third.beat()
    assert third.alive() == 3


async def alive(database: Database, number: int) -> None:
    with database.waiter(REPLICAS) as waiter:
        while await database.read(rows) != number:
            await waiter.wait(1.0)


def rows(tx: Tx) -> int:
    return len(tx.execute(replicas.select()).all())


async def test_a_bot_counts_from_its_start_to_its_stop(postgres_stocked: str) -> None:
    async with FakeSlack() as slack, AsyncExitStack() as others:
        settings = configured(slack, postgres_stocked)
        async with running_bot(settings, limits=AT_ONCE) as bot:
            await alive(bot.database, 1)
            for _ in range(THREE - 1):
                await others.enter_async_context(running_bot(settings, limits=AT_ONCE))
            await alive(bot.database, THREE)
            await others.aclose()
            await alive(bot.database, 1)


async def test_one_on_sqlite_is_alone(sqlite_stocked: str) -> None:
    database = await Database.open(sqlite_stocked)
    try:
        only = Replicas(database)
        task = asyncio.create_task(only.run())
        assert only.alive() == 1
        only.stop()
        await task
        assert await database.read(rows) == 0
    finally:
        await database.close()


# What each may do


@pytest.fixture
async def out() -> AsyncIterator[Outgoing]:
    async with outgoing() as ready:
        yield ready


def another(out: Outgoing, count: Callable[[], int]) -> Sender:
    async def pause(seconds: float) -> None:
        out.slack.clock.advance(seconds)

    client = AsyncWebClient(out.slack.bot_token, base_url=out.slack.url)
    return Sender(Calls(client, replicas=count, clock=out.slack.clock.now, pause=pause))


async def updates(out: Outgoing, sender: Sender, most: int = 60) -> int:
    """How many a replica makes before it is sent away."""
    ts = await out.sender.post(AT, out.deploys.id, Message("hello", ()))
    for made in range(most):
        try:
            await sender.ask(AT, UPDATE, lambda client: client.chat_update(channel=out.deploys.id, ts=ts, text="x"))
        except Later:
            return made
    return most


async def test_three_together_keep_to_slacks_limit_and_never_hear_of_it(out: Outgoing) -> None:
    out.slack.rates.methods = True
    made = [await updates(out, another(out, lambda: THREE)) for _ in range(THREE)]
    assert made == [16, 16, 16]
    assert {one.status for one in out.slack.calls_of("chat.update")} == {200}


async def test_a_share_grows_and_shrinks_as_others_come_and_go(out: Outgoing) -> None:
    out.slack.rates.methods = True
    there = 2
    one = another(out, lambda: there)
    assert await updates(out, one) == 25
    there = 1
    assert await updates(out, one) == 25
    there = 2
    out.slack.clock.advance(61)
    assert await updates(out, one) == 25
    assert {each.status for each in out.slack.calls_of("chat.update")} == {200}


@pytest.mark.parametrize(("replicas", "expected"), [(1, (20, 60.0)), (3, (6, 60.0)), (20, (1, 60.0)), (40, (1, 120.0))])
def test_each_has_a_slot_at_least(replicas: int, expected: tuple[int, float]) -> None:
    assert share(20, 60.0, replicas) == expected
