"""Stops the process in time. Each part has a deadline, counted from the beginning of the stop, so that delays don't add
up.

A part that misses its deadline is abandoned, and the log says so. The next start finishes its work. `exit_by` ends the
process even if a tool blocks the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Protocol

log = logging.getLogger(__name__)


class StopDeadline(float, Enum):
    """The deadline of each part, in seconds from the beginning of the stop."""

    WORK = 4.0
    CANCELLED = 4.75
    CHECKPOINT = 5.25
    SOCKET = 5.5
    REQUESTS = 5.75
    AGENT = 6.25
    STORE = 6.75
    PROCESS = 7.5  # a supervisor kills the process after ten seconds, and on a busy machine all of this takes longer


MOST_NAMED = 20

LAST_REQUESTS = 0.25
"""Seconds that an HTTP request may still take after the server closes."""


class TracksWork(Protocol):
    """Something that knows which rows it works on."""

    @property
    def at_work(self) -> list[str]: ...


class Shutdown:
    def __init__(self) -> None:
        self._began: float | None = None

    @property
    def begun(self) -> bool:
        return self._began is not None

    def begin(self) -> None:
        if self._began is None:
            self._began = time.monotonic()

    def _seconds_until(self, mark: StopDeadline) -> float:
        self.begin()
        assert self._began is not None
        return max(0.0, self._began + mark - time.monotonic())

    async def wait_for_tasks(
        self, *tasks: asyncio.Task[None], by: StopDeadline, cancelled_by: StopDeadline, left: TracksWork | None = None
    ) -> None:
        """Waits for tasks to end until `by`, then cancels them and lets them clean up until `cancelled_by`."""
        await asyncio.wait(tasks, timeout=self._seconds_until(by))
        late = [task for task in tasks if not task.done()]
        if left is not None:
            _say(left.at_work)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=self._seconds_until(cancelled_by))
        for task in tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                log.error("%s had failed", task.get_name(), exc_info=error)

    async def close_part(self, what: str, close: Callable[[], Awaitable[object]], by: StopDeadline) -> None:
        """Closes a part, or abandons it at its deadline."""
        closing = asyncio.ensure_future(close())
        await asyncio.wait({closing}, timeout=self._seconds_until(by))
        if not closing.done():
            closing.cancel()
            log.warning("%s did not close in time and is left as it is: nothing that was stored is lost", what)
            return
        with suppress(asyncio.CancelledError):
            closing.result()


def _say(left: Sequence[str]) -> None:
    if not left:
        log.info("nothing that runs was left behind")
        return
    named = ", ".join(left[:MOST_NAMED]) + (f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else "")
    log.warning("left unfinished, and continued at the next start: %s", named)


def exit_by(mark: StopDeadline, code: int) -> None:
    """Ends the process by the deadline, whatever it is doing. Called from a signal handler. The store survives this."""

    def end() -> None:
        log.warning("not everything ended in time: the process ends here, and what is left goes on at the next start")
        end_now(code)

    timer = threading.Timer(mark, end)
    timer.daemon = True
    timer.start()


def end_now(code: int) -> None:
    """Ends the process without waiting for threads: a tool or a disk may block one for any time."""
    logging.shutdown()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(code)
