"""The event loop in a thread of its own in which google-adk runs: what still runs there ends with it."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from adk_confirm.bot.hosts.adk_in_process import LoopThread


async def test_what_still_runs_ends_with_it() -> None:
    apart, begun, ended = LoopThread("apart"), threading.Event(), threading.Event()
    closing = threading.Event()

    async def forever() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(closing.wait)
            ended.set()

    calling = asyncio.create_task(apart.call(forever))
    await asyncio.to_thread(begun.wait)
    closes = asyncio.create_task(apart.close())
    await asyncio.sleep(0)
    closing.set()
    await closes
    assert ended.is_set()
    assert "apart" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_an_error_after_the_caller_is_gone_is_not_reported_as_forgotten() -> None:
    apart, begun = LoopThread("apart"), threading.Event()
    forgotten: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: forgotten.append(context))

    async def fails_at_the_end() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            raise ValueError("it could not be closed")

    calling = asyncio.create_task(apart.call(fails_at_the_end))
    await asyncio.to_thread(begun.wait)
    calling.cancel()
    await asyncio.wait({calling})
    await apart.close()
    del calling
    gc.collect()
    assert forgotten == []
