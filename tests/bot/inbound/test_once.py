"""What arrives twice is done once, and done again if it failed."""

from __future__ import annotations

import asyncio

import pytest

from bot.inbound.once import OnceOnly
from runtime.errors import Busy


class Work:
    """Goes on until it is told to end."""

    def __init__(self) -> None:
        self.begun, self.may_end, self.fails = 0, asyncio.Event(), 0

    async def __call__(self) -> str:
        self.begun += 1
        await self.may_end.wait()
        if self.begun <= self.fails:
            raise Busy("not now")
        return "done"


async def test_of_several_at_once_one_does_it_and_the_others_wait_for_it() -> None:
    once, work = OnceOnly[str](), Work()
    several = [asyncio.create_task(once.do("a", work)) for _ in range(3)]
    other = asyncio.create_task(once.do("b", work))
    await asyncio.wait(several, timeout=0.05)
    assert not any(one.done() for one in several)
    work.may_end.set()
    assert await asyncio.gather(*several, other) == ["done", None, None, "done"]
    assert await once.do("a", work) is None
    assert work.begun == 2


async def test_what_failed_is_done_by_the_next_that_waits() -> None:
    once, work = OnceOnly[str](), Work()
    work.fails = 1
    several = [asyncio.create_task(once.do("a", work)) for _ in range(3)]
    work.may_end.set()
    with pytest.raises(Busy):
        await several[0]
    assert {await several[1], await several[2]} == {"done", None}
    assert work.begun == 2


async def test_who_gives_up_takes_nothing_from_the_others() -> None:
    once, work = OnceOnly[str](), Work()
    first, second, third = (asyncio.create_task(once.do("a", work)) for _ in range(3))
    await asyncio.wait([second], timeout=0.05)
    second.cancel()
    await asyncio.wait([second])
    work.may_end.set()
    assert (await first, await third) == ("done", None)

    work = Work()
    first, second = (asyncio.create_task(once.do("b", work)) for _ in range(2))
    await asyncio.wait([first], timeout=0.05)
    first.cancel()
    work.may_end.set()
    assert await second == "done"


async def test_only_the_last_keys_are_remembered() -> None:
    once, work = OnceOnly[str](most=2), Work()
    work.may_end.set()
    assert [await once.do(key, work) for key in "abcbca"] == ["done", "done", "done", None, None, "done"]
