"""Supervises background tasks: restarts one that ends unexpectedly, reports it, and stops them all in order.

A task counts as down from its failure until it has run steadily again. `/readyz` and `/metrics` show that, and the log
has the traceback. Other tasks are not affected.
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
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from adk_confirm.bot.telemetry.metrics import Metrics
from adk_confirm.bot.telemetry.readiness import Readiness
from adk_confirm.runtime.errors import reason, was_cancelled
from adk_confirm.runtime.store.wakeups import until_stopped

log = logging.getLogger(__name__)

TaskFunction = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class RestartPauses:
    """Seconds until a task that failed is started again. Each pause is twice as long as the one before.

    A task that has run for `steady` seconds counts as working again. Its next failure is a first one."""

    first: float = 1.0
    longest: float = 60.0
    steady: float = 10.0

    def after(self, failures: int) -> float:
        return min(self.first * 2.0 ** min(failures - 1, 10), self.longest)


class Supervisor:
    """Starts and restarts tasks. After `stop` it restarts nothing. The owner of a task must also make it end."""

    def __init__(self, readiness: Readiness, metrics: Metrics, pauses: RestartPauses) -> None:
        self._readiness, self._metrics, self._pauses = readiness, metrics, pauses
        self._stopping = asyncio.Event()
        self._names: set[str] = set()

    def begin(self, name: str, run: TaskFunction) -> asyncio.Task[None]:
        """Starts a task. `run` must go on until it is stopped, and must allow another call after a failure."""
        if name in self._names:
            raise ValueError(f"there are two background tasks called {name}")
        self._names.add(name)
        self._metrics.task_is_down(name, False)
        supervised = _Supervised(name, run, self._metrics, self._pauses, self._stopping)
        self._readiness.watch(name, supervised.probe)
        return asyncio.create_task(supervised.keep_running(), name=f"adk-confirm-{name}")

    def stop(self) -> None:
        """Stops restarting. A task that waits to be restarted runs once more, so that it can clean up."""
        self._stopping.set()


class _Supervised:
    def __init__(
        self, name: str, run: TaskFunction, metrics: Metrics, pauses: RestartPauses, stopping: asyncio.Event
    ) -> None:
        self._name, self._run, self._metrics, self._pauses, self._stopping = name, run, metrics, pauses, stopping
        self._failures = 0
        self._trouble: str | None = None

    async def probe(self) -> str | None:
        return self._trouble

    async def keep_running(self) -> None:
        while True:
            steady = asyncio.get_running_loop().call_later(self._pauses.steady, self._is_steady)
            try:
                await self._run()
                if self._stopping.is_set():
                    return
                self._record_failure("it ended unexpectedly", None)
            except Exception as error:
                if self._stopping.is_set():
                    raise
                self._record_failure(reason(error), error)
            except asyncio.CancelledError as error:
                if self._stopping.is_set() or was_cancelled():
                    raise
                self._record_failure("something inside it was cancelled", error)
            finally:
                steady.cancel()
            await until_stopped(self._stopping, asyncio.sleep(self._pauses.after(self._failures)))
            self._metrics.task_was_restarted(self._name)

    def _record_failure(self, why: str, error: BaseException | None) -> None:
        self._failures += 1
        self._trouble = f"it failed and is started again: {why}. See the log."
        self._metrics.task_is_down(self._name, True)
        said = "the background task %s failed (%s) and is started again in %g s"
        log.error(said, self._name, why, self._pauses.after(self._failures), exc_info=error)

    def _is_steady(self) -> None:
        if self._trouble is not None:
            log.info("the background task %s works again", self._name)
        self._failures, self._trouble = 0, None
        self._metrics.task_is_down(self._name, False)


class StopDeadline(float, Enum):
    """Until when each part has to have stopped, in seconds from the beginning of the stop."""

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


def exit_by(seconds: float, code: int) -> None:
    """Ends the process by that time, whatever it is doing. Called from a signal handler. The store survives this."""

    def end() -> None:
        log.warning("not everything ended in time: the process ends here, and what is left goes on at the next start")
        end_now(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def end_now(code: int) -> None:
    """Ends the process without waiting for threads: a tool or a disk may block one for any time."""
    for write in (logging.shutdown, sys.stdout.flush):
        with suppress(OSError, ValueError, RuntimeError):  # the signal may have come while something was written there
            write()
    os._exit(code)
