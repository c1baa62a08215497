"""Replaces the clocks, the dice and the threads of this Python. Import nothing of the product before `install`."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from random import Random
from typing import Any

DICE = Random(0)
"""What ids and tokens are made of. Each storm seeds it anew."""


class _Thread:
    """Calls its function on the loop, a moment after it was started."""

    def __init__(self, *, target: Callable[[], object], name: str = "", daemon: bool = False) -> None:
        self._target, self.name, self.daemon = target, name, daemon

    def start(self) -> None:
        asyncio.get_running_loop().call_later(DICE.uniform(0, 0.002), self._target)


def install(loop: Callable[[], Any]) -> None:
    """`loop`: the storm's loop, or None between two storms."""
    real, steady = time.time, time.monotonic

    def wall() -> float:
        at = loop()
        return at.wall() if at is not None else real()

    def monotonic(_: int = 0) -> float:
        at = loop()
        return at.time() if at is not None else steady()

    time.time = wall
    time.time_ns = lambda: int(wall() * 1e9)
    time.monotonic = time.perf_counter = monotonic
    time.clock_gettime = monotonic
    uuid.uuid4 = lambda: uuid.UUID(int=DICE.getrandbits(128), version=4)
    secrets.token_bytes = lambda nbytes=None: DICE.randbytes(32 if nbytes is None else nbytes)
    thread = threading.Thread
    threading.Thread = lambda **given: (_Thread if loop() is not None else thread)(**given)  # type: ignore[misc,assignment]
