"""Who waits for which topic in this process. Topics are strings, cheap, and forgotten when nobody waits for them.

A wake-up carries no data: whoever is woken reads the store again. So an extra wake-up costs a read, and a missing one
costs the time until the waiter polls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from hashlib import blake2b
from types import TracebackType
from typing import Self


def topic_key(topic: str) -> str:
    """A short name for a topic, which is sent to other processes instead of long ids."""
    return blake2b(topic.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class Waiter:
    """Is woken by its topics from `with` on, also by what happens between two `wait`s."""

    def __init__(self, hub: Hub, topics: Iterable[str]) -> None:
        self._hub = hub
        self._keys = frozenset(topic_key(topic) for topic in topics)
        self._woken = asyncio.Event()

    def __enter__(self) -> Self:
        self._hub.add(self, self._keys)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hub.forget(self, self._keys)

    def wake(self) -> None:
        self._woken.set()

    async def wait(self, timeout: float | None = None) -> bool:
        """Returns True when woken, at once if it was woken before. Returns False after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._woken.wait()
        except TimeoutError:
            pass  # the answer below says so
        woken = self._woken.is_set()
        self._woken.clear()
        return woken


async def until_stopped(stopping: asyncio.Event, other: Awaitable[object]) -> None:
    """Waits for `other`, but only until `stopping` is set."""
    stopped, waiting = asyncio.ensure_future(stopping.wait()), asyncio.ensure_future(other)
    try:
        await asyncio.wait({stopped, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (stopped, waiting):
            task.cancel()


class Hub:
    """The waiters of one process, by topic. It belongs to one event loop."""

    def __init__(self) -> None:
        self._waiters: dict[str, set[Waiter]] = {}
        self._listeners: list[Callable[[object], None]] = []

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, waiter: Waiter, keys: Iterable[str]) -> None:
        for key in keys:
            self._waiters.setdefault(key, set()).add(waiter)

    def forget(self, waiter: Waiter, keys: Iterable[str]) -> None:
        for key in keys:
            waiters = self._waiters[key]
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[key]

    def wake(self, keys: Iterable[str]) -> None:
        for key in keys:
            for waiter in self._waiters.get(key, ()):
                waiter.wake()

    def listen(self, listener: Callable[[object], None]) -> None:
        self._listeners.append(listener)

    def tell(self, facts: Iterable[object]) -> None:
        """Calls the listeners with what committed transactions of this process reported."""
        for fact in facts:
            for listener in self._listeners:
                listener(fact)

    def wake_all(self) -> None:
        self.wake(tuple(self._waiters))
