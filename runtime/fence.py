"""The fence around code of operators and tools: approvers, gates, validators, titles, previews, `verify`, tools.

Whatever such code raises is its own failure: `SystemExit` too, and a `CancelledError` that is not ours. What does not
end in time is left alone, and whoever waited goes on.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from inspect import isawaitable
from typing import TypeVar

from adk_confirm.runtime.errors import Busy, ConfirmError, message_of, was_cancelled

T = TypeVar("T")


class Failed(Exception):
    """Code behind the fence failed. `error` is what it raised."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(message_of(error))
        self.error = error


class NotBegun(Failed):
    """Code behind the fence was not called: it would have begun too late."""


class TooLong(Failed):
    """Code behind the fence did not end in time."""


async def fenced(running: Awaitable[T], seconds: float | None = None) -> T:
    """Awaits foreign code on our own event loop. With a limit it runs in a task of its own, which is left alone if it
    does not end when it is cancelled."""

    async def guarded() -> T:
        try:
            return await running
        except Failed:
            raise
        except BaseException as error:
            if was_cancelled():
                raise asyncio.CancelledError from error
            raise Failed(error) from error

    if seconds is None:
        return await guarded()
    task = asyncio.create_task(guarded())
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    if not task.done():
        raise TooLong(TimeoutError(f"It took longer than {seconds:g} s."))
    if task.cancelled():  # by its own hand
        raise Failed(asyncio.CancelledError())
    return task.result()


async def in_thread(call: Callable[[], T], name: str, *, daemon: bool = False) -> T:
    """Calls a function in a thread of its own. A daemon thread does not keep the process from ending."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(call())
        except (StopIteration, GeneratorExit) as error:  # a future can't carry these: its caller would hang or end
            future.set_exception(RuntimeError(f"the function raised {type(error).__name__}"))
        except BaseException as error:  # noqa: BLE001  (passed on to whoever awaits the future)
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=daemon).start()
    return await asyncio.wrap_future(future)


class Threads:
    """Threads for functions that may hang, async ones included. At most `most` run at once: later callers wait for
    their turn. A function that takes longer than `seconds` is left alone, and counts until it ends: while `most` of
    them hang, no other begins."""

    def __init__(self, name: str, *, most: int, seconds: float, turn: float) -> None:
        self.seconds, self._turn, self._most, self._name = seconds, turn, most, name
        self._free = asyncio.Semaphore(most)
        self._until: dict[object, float] = {}  # by when each that runs should have ended

    async def run(self, call: Callable[[], object], read: Callable[[object], T]) -> T:
        """Runs the function in a thread, and returns what `read` makes of its result: a foreign result is read where
        the function ran. Raises `Failed`, or `Busy` if no turn came within `turn` seconds."""
        try:
            async with asyncio.timeout(self._turn):
                await self._free.acquire()
        except TimeoutError:
            raise Busy("it waits for its turn behind others that take long") from None
        try:
            if sum(until <= time.monotonic() for until in [*self._until.values()]) >= self._most:
                raise Failed(ConfirmError("too many earlier calls of such functions still hang"))
            mark = object()
            self._until[mark] = time.monotonic() + self.seconds

            def begin() -> T:
                try:
                    given = call()
                    return read(asyncio.run(_wait(given)) if isawaitable(given) else given)
                finally:
                    del self._until[mark]

            return await fenced(in_thread(begin, self._name, daemon=True), self.seconds)
        finally:
            self._free.release()


async def _wait(given: Awaitable[T]) -> T:
    return await given
