"""The cache of Slack's answers: one question for all who wait for its answer, as long as somebody waits."""

from __future__ import annotations

import asyncio

import pytest

from bot.slack.cache import LookupCache


class Asked:
    """A question that is answered when a test says so."""

    def __init__(self) -> None:
        self.times, self.given_up = 0, 0
        self.begun, self.answered = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> int:
        self.times += 1
        self.begun.set()
        try:
            await self.answered.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return self.times


async def test_whoever_still_waits_gets_the_answer_when_others_gave_up() -> None:
    lookups, asked = LookupCache[str, int](), Asked()
    first, second = (asyncio.create_task(lookups.get("key", asked)) for _ in range(2))
    await asked.begun.wait()
    first.cancel()
    await asyncio.wait({first})
    asked.answered.set()
    assert await second == 1
    assert lookups.peek("key") == 1
    assert asked.given_up == 0


async def test_what_nobody_waits_for_is_not_asked_any_more_and_can_be_asked_anew() -> None:
    lookups, asked = LookupCache[str, int](), Asked()
    only = asyncio.create_task(lookups.get("key", asked))
    await asked.begun.wait()
    only.cancel()
    again = asyncio.create_task(lookups.get("key", asked))  # begun before the first question has ended
    with pytest.raises(asyncio.CancelledError):
        await only
    asked.answered.set()
    assert await again == 2
    assert asked.given_up == 1
