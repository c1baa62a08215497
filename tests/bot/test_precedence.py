"""Clicks first: what can wait begins after them, but is never kept from beginning for good."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from bot.precedence import MANY, Precedence


async def begun(precedence: Precedence) -> asyncio.Task[None]:
    """Something that can wait, as far as it gets while nothing else happens."""
    work = asyncio.create_task(precedence.stand_back())
    for _ in range(5):
        await asyncio.sleep(0)
    return work


async def test_what_can_wait_begins_when_the_last_click_is_through() -> None:
    precedence = Precedence(moment=60)
    with precedence.given():
        with precedence.given():
            work = await begun(precedence)
        assert not work.done()
    await asyncio.wait_for(work, 10)
    assert (await begun(precedence)).done(), "with nobody clicking, nothing is held up"


async def test_it_begins_in_the_end_however_many_click() -> None:
    precedence = Precedence(moment=0.01)
    with precedence.given():
        await asyncio.wait_for(precedence.stand_back(), 10)


async def test_a_click_that_failed_is_through_too() -> None:
    precedence = Precedence(moment=60)
    try:
        with precedence.given():
            raise ConnectionError
    except ConnectionError:
        pass
    assert (await begun(precedence)).done()


def test_many_are_told_from_a_few() -> None:
    precedence, told = Precedence(), list[bool]()
    with ExitStack() as clicks:
        for _ in range(MANY):
            told.append(precedence.many)
            clicks.enter_context(precedence.given())
        told.append(precedence.many)
    told.append(precedence.many)
    assert told == [*[False] * MANY, True, False]
