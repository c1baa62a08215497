"""Who waits for what, in this process: topics are words, cheap, and forgotten when nobody waits for them.

A wake-up carries nothing: whoever is woken looks at the store again. So a wake-up too many costs a read,
and one too few costs the time until the waiter's own bounded poll.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from hashlib import blake2b
from types import TracebackType
from typing import Self


def topic_key(topic: str) -> str:
    """A topic's short name: what goes over the wire is short and plain, whatever ids a topic is made of."""
    return blake2b(topic.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class Waiter:
    """Hears of its topics from `with` on; what happens between two `wait`s is not lost."""

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
        """True when woken, at once if that was before; False when the time passed first."""
        try:
            async with asyncio.timeout(timeout):
                await self._woken.wait()
        except TimeoutError:
            pass  # the answer below says so
        woken = self._woken.is_set()
        self._woken.clear()
        return woken


async def until_stopped(stopping: asyncio.Event, other: Awaitable[object]) -> None:
    """Waits for `other`, and no longer than until `stopping` is set."""
    stopped, waiting = asyncio.ensure_future(stopping.wait()), asyncio.ensure_future(other)
    await asyncio.wait({stopped, waiting}, return_when=asyncio.FIRST_COMPLETED)
    for task in (stopped, waiting):
        task.cancel()


class Hub:
    """The waiters of one process, by topic. Lives on one event loop."""

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
        """What transactions of this process reported, committed by now."""
        for fact in facts:
            for listener in self._listeners:
                listener(fact)

    def wake_all(self) -> None:
        self.wake(tuple(self._waiters))
