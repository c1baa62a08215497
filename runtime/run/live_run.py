"""A run that is under way, for callers that want to listen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from adk_confirm.runtime.wire import Event


class Run:
    """Iterate over it for its events. The run goes on, and is stored, even if nobody listens."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self.ended = False
        self.failure: Exception | None = None

    def emit(self, event: Event) -> None:
        self._queue.put_nowait(event)

    def end(self, failure: Exception | None = None) -> None:
        self.ended, self.failure = True, failure
        self._queue.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (event := await self._queue.get()) is not None:
            yield event
        self._queue.put_nowait(None)  # for callers that ask again
        if self.failure is not None:
            raise self.failure
