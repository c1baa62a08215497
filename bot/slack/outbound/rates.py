"""Rate limits: a number of calls in a number of seconds, and a pause after `Retry-After`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

MINUTE = 60.5
"""Slack's minute and some more: Slack counts from the arrival of a call, and calls take different times to arrive."""


@dataclass(slots=True)
class Window:
    """At most `most` calls in any `seconds`. A call that comes too early gets a later slot, in the order of asking."""

    most: int
    seconds: float
    slots: deque[float] = field(init=False)
    closed_until: float = float("-inf")
    promised: float = float("-inf")

    def __post_init__(self) -> None:
        self.slots = deque(maxlen=self.most)

    def next_slot(self, now: float) -> float:
        at = max(now, self.closed_until)
        return max(at, self.slots[0] + self.seconds) if len(self.slots) == self.most else at

    def take(self, at: float) -> None:
        self.slots.append(at)

    def promise(self, now: float) -> float:
        """When to come back for a slot: after everybody who was sent away before, at the pace of the window."""
        self.promised = max(self.next_slot(now), self.promised + self.seconds / self.most)
        return self.promised

    def idle(self, now: float) -> bool:
        return max(self.closed_until, self.promised) <= now and (not self.slots or self.slots[-1] + self.seconds <= now)


class Rates:
    """A window for each key, made when it is first needed. A key always has the same size."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, keep: int = 2000) -> None:
        self._clock, self._keep = clock, keep
        self._windows: dict[Hashable, Window] = {}

    def wait(self, key: Hashable, most: int, seconds: float) -> float:
        """How long a call would have to wait now."""
        now = self._clock()
        return self._window(key, most, seconds, now).next_slot(now) - now

    def take(self, key: Hashable, most: int, seconds: float) -> float:
        """Takes a slot. Returns how long until it comes."""
        now = self._clock()
        window = self._window(key, most, seconds, now)
        at = window.next_slot(now)
        window.take(at)
        return at - now

    def promise(self, key: Hashable, most: int, seconds: float) -> float:
        """For callers that come back instead of waiting. Returns how long until then.

        With `wait` instead, all who come too early would come back at the same time, and most of them in vain: a
        thousand cards of one channel would each be tried a thousand times.
        """
        now = self._clock()
        return self._window(key, most, seconds, now).promise(now) - now

    def close(self, key: Hashable, most: int, seconds: float, after: float) -> None:
        """Closes a window until the time that Slack gave."""
        now = self._clock()
        window = self._window(key, most, seconds, now)
        window.closed_until = max(window.closed_until, now + after)

    def _window(self, key: Hashable, most: int, seconds: float, now: float) -> Window:
        window = self._windows.get(key)
        if window is None:
            if len(self._windows) >= self._keep:
                self._windows = {known: each for known, each in self._windows.items() if not each.idle(now)}
            window = self._windows[key] = Window(most, seconds)
        return window
