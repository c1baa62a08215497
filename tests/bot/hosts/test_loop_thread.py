"""An event loop in a thread of its own: results and errors come back, and a caller that leaves waits for its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import pytest

from adk_confirm.bot.hosts.adk_in_process import LoopThread


@pytest.fixture
async def apart() -> AsyncIterator[LoopThread]:
    made = LoopThread("apart")
    yield made
    await made.close()


class Steps:
    """What a coroutine got to, in its thread; and a door at which it waits."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.arrived, self.door = threading.Event(), threading.Event()

    async def reached(self) -> None:
        await asyncio.to_thread(self.arrived.wait)

    async def forever(self) -> None:
        try:
            self.arrived.set()
            await asyncio.Event().wait()
        finally:
            self.door.wait()  # it takes its time to end
            self.seen.append("ended")

    async def counting(self) -> AsyncGenerator[int, None]:
        try:
            for number in range(1_000_000):
                yield number
                await asyncio.sleep(0)
        finally:
            self.seen.append("ended")


async def test_it_runs_in_another_thread_always_the_same(apart: LoopThread) -> None:
    async def where() -> str:
        return threading.current_thread().name

    assert [await apart.call(where), await apart.call(where)] == ["apart", "apart"]


async def test_what_is_raised_there_is_raised_here(apart: LoopThread) -> None:
    async def fails() -> None:
        raise ValueError("no glass today")

    async def yields_and_fails() -> AsyncGenerator[int, None]:
        yield 1
        raise ValueError("no glass today")

    with pytest.raises(ValueError, match="no glass"):
        await apart.call(fails)
    numbers = apart.iterate(yields_and_fails)
    assert await anext(numbers) == 1
    with pytest.raises(ValueError, match="no glass"):
        await anext(numbers)


async def test_a_caller_that_is_cancelled_waits_until_it_has_ended_there(apart: LoopThread) -> None:
    steps = Steps()
    calling = asyncio.create_task(apart.call(steps.forever))
    await steps.reached()
    calling.cancel()
    await asyncio.wait({calling}, timeout=0.05)
    assert not calling.done()
    steps.door.set()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert steps.seen == ["ended"]


async def test_a_caller_that_stops_listening_ends_it(apart: LoopThread) -> None:
    steps = Steps()
    async with aclosing(apart.iterate(steps.counting)) as numbers:
        async for number in numbers:
            if number == 3:
                break
    assert steps.seen == ["ended"]


async def test_what_still_runs_ends_with_it() -> None:
    steps, apart = Steps(), LoopThread("apart")
    calling = asyncio.create_task(apart.call(steps.forever))
    await steps.reached()
    steps.door.set()
    await apart.close()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert steps.seen == ["ended"]
    assert "apart" not in [thread.name for thread in threading.enumerate()]
