"""Supervises background tasks: restarts one that ends unexpectedly, and reports it.

A task counts as down from its failure until it has run steadily again. `/readyz` and `/metrics` show that, and the log
has the traceback. Other tasks are not affected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from adk_confirm.bot.telemetry.metrics import Metrics
from adk_confirm.bot.telemetry.readiness import Readiness
from adk_confirm.runtime.errors import reason

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
                if self._stopping.is_set() or _is_cancelled():
                    raise
                self._record_failure("something inside it was cancelled", error)
            finally:
                steady.cancel()
            await self._pause()
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

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._pauses.after(self._failures)):
                await self._stopping.wait()
        except TimeoutError:
            return


def _is_cancelled() -> bool:
    """Whether the task itself was cancelled, and not something that it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
