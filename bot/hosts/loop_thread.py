"""Runs an event loop in a thread of its own, so that agent code that blocks does not block the bot."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class LoopThread:
    def __init__(self, name: str) -> None:
        self._begun = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run_until_enough()), name=name, daemon=True)
        self._thread.start()
        self._begun.wait()

    async def call(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Awaits a coroutine in the thread and returns its result, or raises its error. If the caller is cancelled, so
        is the coroutine, and the caller waits until it has ended."""
        errand = _Errand(self._loop, function)
        result = asyncio.wrap_future(errand.result)
        try:
            return await asyncio.shield(result)
        finally:
            await errand.stop()

    async def iterate(
        self, function: Callable[[], AsyncGenerator[T, None]], stopping: Callable[[], None] | None = None
    ) -> AsyncGenerator[T, None]:
        """Yields what an iterator in the thread yields. If the caller stops early, the iterator is cancelled, and the
        caller waits until it has ended. `stopping` is called in the thread just before."""
        here, heard = asyncio.get_running_loop(), asyncio.Queue[_Heard[T] | None]()

        async def listened() -> None:
            async with aclosing(function()) as made:
                async for one in made:
                    here.call_soon_threadsafe(heard.put_nowait, _Heard(one))

        errand = _Errand(self._loop, listened, stopping)
        errand.result.add_done_callback(lambda _: here.call_soon_threadsafe(heard.put_nowait, None))
        try:
            while (one := await heard.get()) is not None:
                yield one.value
            errand.result.result()
        finally:
            await errand.stop()

    async def close(self) -> None:
        """Cancels what still runs in the thread. Returns when the thread has ended."""
        self._loop.call_soon_threadsafe(self._enough.set)
        await asyncio.to_thread(self._thread.join)

    async def _run_until_enough(self) -> None:
        self._loop, self._enough = asyncio.get_running_loop(), asyncio.Event()
        self._begun.set()
        await self._enough.wait()


@dataclass(frozen=True)
class _Heard(Generic[T]):
    value: T


class _Errand(Generic[T]):
    """One coroutine that runs in the thread."""

    def __init__(
        self,
        there: asyncio.AbstractEventLoop,
        function: Callable[[], Coroutine[Any, Any, T]],
        stopping: Callable[[], None] | None = None,
    ) -> None:
        self.result: Future[T] = Future()
        self._there, self._function, self._stopping = there, function, stopping
        there.call_soon_threadsafe(self._begin)

    async def stop(self) -> None:
        """Cancels the coroutine if it still runs, and returns when it has ended."""
        if not self.result.done():
            self._there.call_soon_threadsafe(self._cancel)
            await asyncio.wait({asyncio.wrap_future(self.result)})

    def _begin(self) -> None:
        self._task = self._there.create_task(self._function())
        self._task.add_done_callback(self._end)

    def _cancel(self) -> None:
        if self._stopping is not None:
            self._stopping()
        self._task.cancel()

    def _end(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.result.cancel()
        elif (error := task.exception()) is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(task.result())
