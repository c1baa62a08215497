"""Serves until SIGTERM or SIGINT, for `adk-confirm serve` and `api`. A supervisor kills a process after ten seconds, or
after as much more as its settings give to what runs."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from typing import TypeVar

from adk_confirm.bot.policy.durations import spell_duration
from adk_confirm.bot.worker.supervision import StopDeadline, end_now, exit_by
from adk_confirm.runtime.tool import end_threads

STOPPED = 0
_LAST_TOOLS = 0.2
_GARBAGE = (20_000, 50, 20)
"""With Python's own thresholds, a busy process looks for garbage all the time and finds little: most objects are freed
by their reference counts."""

S = TypeVar("S")


def run_until_stopped(
    serving: AbstractAsyncContextManager[S],
    said: Callable[[S], str],
    tell: Callable[[str], object] | None = None,
    drain: timedelta = timedelta(),
) -> int:
    """Serves until this process is told to stop. `said` makes the sentence that it serves, and `tell` prints it.
    `drain`: the seconds that runs get to end, before everything else has a few."""
    asyncio.run(_until_stopped(serving, said, tell or partial(print, flush=True), drain))
    others = (one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread())
    if not end_threads(patience=_LAST_TOOLS) or any(others):
        end_now(STOPPED)  # a tool still runs, or a thread that would not let us end; its call is stored as running
    return STOPPED


async def _until_stopped(
    serving: AbstractAsyncContextManager[S],
    said: Callable[[S], str],
    tell: Callable[[str], object],
    drain: timedelta,
) -> None:
    stopping, task, serves = _stop_future(drain.total_seconds()), asyncio.current_task(), False

    def give_up(_: object) -> None:
        """Ends a start that is not over: it may wait for others, such as for Slack."""
        if task is not None and not serves:
            task.cancel()

    stopping.add_done_callback(give_up)
    try:
        async with serving as found:
            serves = True
            gc.collect()
            gc.freeze()  # what is loaded stays, so no collection has to look at it
            gc.set_threshold(*_GARBAGE)
            tell(said(found))
            await stopping
            time = spell_duration(drain) if drain else "a few seconds"
            tell(f"Stopping: what runs has {time} to end. What is left continues at the next start.")
    except asyncio.CancelledError:
        if serves:
            raise
        tell("Stopped before it was ready.")


def _stop_future(drain: float) -> asyncio.Future[None]:
    """A future that is done at SIGTERM or SIGINT. From then on the process has `drain` seconds and a few more to end; a
    second signal ends it at once.

    The signal handler is Python's own, not the event loop's, so that it is called even while a tool blocks the loop.
    """
    loop = asyncio.get_running_loop()
    stopping: asyncio.Future[None] = loop.create_future()
    signals = 0

    def stop(number: int, frame: object) -> None:  # noqa: ARG001  (what a handler is called with)
        nonlocal signals
        signals += 1
        if signals > 1:
            end_now(128 + number)
        exit_by(drain + StopDeadline.PROCESS, STOPPED)
        loop.call_soon_threadsafe(stopping.set_result, None)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return stopping
