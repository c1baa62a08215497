"""An event loop in virtual time. Several processes live on it, and a seed chooses which of them goes on.

A callback belongs to the process in whose context it was made. Within a process callbacks run in their order, as on any
loop; which process is next is left to the seed. When nobody has anything to do, the clock jumps to the next timer. A
process may be frozen between any two callbacks, or die: then the rest of its callbacks never run.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from itertools import count
from random import Random
from typing import Any

START = 1_790_000_000.0
"""When each storm begins."""
MOST_STEPS = 400_000
TICK = 1e-6
"""What a callback takes, in seconds."""


class Process:
    """One replica, or the world around them. `ahead`: so many seconds its wall clock is before the true time. `stood`:
    so many its steady clock stood still while it was frozen."""

    def __init__(self, name: str, index: int = 0) -> None:
        self.name, self.index = name, index
        self.ready: deque[asyncio.Handle] = deque()
        self.dead = self.frozen = False
        self.rows: dict[str, Any] = {}  # what it keeps of rows that it has read
        self.ahead = self.stood = 0.0
        self.ends_in: int | None = None  # after how many callbacks something happens to it
        self.then: Callable[[], None] | None = None
        self.context: Context = copy_context()
        self.context.run(_PROCESS.set, self)


_PROCESS: ContextVar[Process] = ContextVar("process")


class StormTask(asyncio.Task[Any]):
    """A task whose place in a set does not depend on where it is in memory."""

    _numbers = count()

    def __init__(self, coro: Coroutine[Any, Any, Any], *, loop: StormLoop, context: Context | None = None) -> None:
        self._number = next(StormTask._numbers)
        self.process: Process = (context or copy_context()).get(_PROCESS, loop.world)
        super().__init__(coro, loop=loop, context=context)

    def __hash__(self) -> int:
        return self._number


class StormFuture(asyncio.Future[Any]):
    _numbers = count()

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = next(StormFuture._numbers)
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class StormLoop(asyncio.BaseEventLoop):
    """Its processes, `current` among them, are on it. `now` is the true time."""

    def __init__(self, dice: Random) -> None:
        super().__init__()
        self._dice = dice
        self.world = Process("world")
        self.current = self.world
        self.processes = [self.world]
        self.now = START
        self.steps = 0
        self.trace = 0
        """A digest of who ran when: two runs with the same seed have the same."""
        self._due: list[tuple[float, int, asyncio.TimerHandle, Process]] = []
        self._order, self._spawned = count(), count(1)
        self._graves: list[object] = []
        StormTask._numbers, StormFuture._numbers = count(), count()
        self.set_task_factory(_task)
        self.wrong: BaseException | None = None
        self.set_exception_handler(self._went_wrong)

    # Processes

    def spawn(self, name: str) -> Process:
        made = Process(name, next(self._spawned))
        self.processes.append(made)
        return made

    def kill(self, process: Process) -> None:
        """Its callbacks never run. What they hold is kept until the storm is over, so that nothing of it is cleaned up
        by Python either."""
        process.dead = True
        self._graves += [task for task in asyncio.all_tasks(self) if _process_of(task) is process]
        self._graves += process.ready
        process.ready.clear()
        self.processes.remove(process)

    def after_steps(self, process: Process, steps: int, then: Callable[[], None]) -> None:
        """Something happens to a process after so many of its callbacks."""
        process.ends_in, process.then = steps, then

    # What asyncio asks of a loop

    def time(self) -> float:
        return self.now - self.current.stood

    def wall(self) -> float:
        return self.now + self.current.ahead

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        handle = asyncio.Handle(callback, args, self, context)
        process = self._process_of(handle)
        if process.dead:
            self._graves.append(handle)
        else:
            process.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        process = self._process_of(handle)
        at = when + self.current.stood
        heapq.heappush(self._due, (at, next(self._order), handle, process))
        return handle

    def shift_timers(self, process: Process, seconds: float) -> None:
        """Its steady clock stood still: what it waits for comes later."""
        process.stood += seconds
        self._due = [
            (at + seconds, number, handle, owner) if owner is process else (at, number, handle, owner)
            for at, number, handle, owner in self._due
        ]
        heapq.heapify(self._due)

    def create_future(self) -> StormFuture:
        return StormFuture(loop=self)

    def run_in_executor(self, _: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """There are no threads: the function runs a moment later, at once and whole."""
        future = self.create_future()

        def run() -> None:
            try:
                result = func(*args)
            except BaseException as error:  # noqa: BLE001  (passed on)
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        self.call_later(self._dice.uniform(0, 0.002), run)
        return future

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is skipped when its time comes."""

    def _process_events(self, event_list: Any) -> None: ...

    def _write_to_self(self) -> None: ...

    def _process_of(self, handle: asyncio.Handle) -> Process:
        context: Context = handle._context  # type: ignore[attr-defined]
        return context.get(_PROCESS, self.world)

    def _run_once(self) -> None:
        due, dice = self._due, self._dice
        while not self._stopping:  # type: ignore[attr-defined]
            now = self.now
            due = self._due
            while due and due[0][0] <= now:
                _, _, timer, owner = heapq.heappop(due)
                if not timer._cancelled and not owner.dead:
                    owner.ready.append(timer)
            able = [one for one in self.processes if one.ready and not one.frozen]
            if not able:
                if not due:
                    raise RuntimeError("nothing will ever happen again")
                self.now = due[0][0]
                continue
            process = able[0] if len(able) == 1 else able[int(dice.random() * len(able))]
            handle = process.ready.popleft()
            if handle._cancelled:
                continue
            self.current = process
            handle._run()
            self.current = self.world
            self.now += TICK
            self.steps += 1
            if self.wrong is not None:
                raise self.wrong
            if self.steps > MOST_STEPS:
                raise RuntimeError(f"no end after {MOST_STEPS} steps, and {self.now - START:.0f} s")
            self.trace = (self.trace * 1_000_003 + process.index + int(self.now * 1e6)) & 0xFFFFFFFFFFFF
            if process.ends_in is not None:
                self._count_down(process)

    def _count_down(self, process: Process) -> None:
        assert process.ends_in is not None
        process.ends_in -= 1
        if process.ends_in <= 0 and process.then is not None:
            then, process.ends_in, process.then = process.then, None, None
            then()

    def _went_wrong(self, _: object, about: dict[str, Any]) -> None:
        """What goes wrong in the world itself ends the storm: it is a mistake of this simulator."""
        if self.current is self.world and isinstance(error := about.get("exception"), Exception) and "handle" in about:
            self.wrong = error

    def end(self) -> None:
        """Forgets whatever was left."""
        for each in (*asyncio.all_tasks(self), *self._graves):
            if isinstance(each, StormTask):
                each._log_destroy_pending = False  # type: ignore[attr-defined]
        self._due.clear()
        self.processes.clear()
        self._graves.clear()
        self._closed = True


def _task(loop: Any, coro: Any, context: Context | None = None) -> Any:
    return StormTask(coro, loop=loop, context=context)


def _process_of(task: asyncio.Task[Any]) -> Process | None:
    return task.process if isinstance(task, StormTask) else None
