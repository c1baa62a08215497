"""An event loop whose clock can be put forward, so that timers of ten minutes are due at once.

Everything that sleeps or times out in it uses that clock, including sockets and HTTP clients.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any


class Skipping(asyncio.SelectorEventLoop):
    _skipped = 0.0

    def time(self) -> float:
        return super().time() + self._skipped

    def wall(self) -> float:
        """The time of day by the same clock."""
        return time.time() + self._skipped

    async def skip(self, seconds: float) -> None:
        """Puts the clock forward. Returns after everything that was due by then has run."""
        self._skipped += seconds
        await asyncio.sleep(0.001)  # no shorter: what is due runs before later requests


def in_skipping_time(test: Callable[[Skipping], Coroutine[Any, Any, None]]) -> None:
    loop = Skipping()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(test(loop))
