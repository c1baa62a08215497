"""The event loop in a thread of its own in which google-adk runs: what still runs there ends with it."""

from __future__ import annotations

import asyncio
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
