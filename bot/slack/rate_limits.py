"""The Slack methods that the app calls, and one limiter that keeps to Slack's rates. Nothing is retried here: see
`runtime/store/jobs.py`.

The limits are those of an internal app, which is what this one is. The lower ones of 2026 for `conversations.history`
and `.replies` (one call a minute, 15 messages) are for apps that are sold outside of Slack's Marketplace.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace

from adk_confirm.bot.slack.troubles import Later

MINUTE = 60.5
"""Slack's minute and some more: Slack counts from the arrival of a call, and calls take different times to arrive."""


@dataclass(frozen=True)
class Method:
    """`per_minute` is Slack's limit. `reads`: Slack takes its arguments from the URL only. `posts`: into a channel,
    which has a limit of its own. `repeatable`: a second call does no harm. `within`: seconds after
    which the call is useless. `patience`: the longest that it waits for its turn, if nobody repeats it later."""

    name: str
    per_minute: int
    reads: bool = False
    posts: bool = False
    repeatable: bool = True
    within: float = math.inf
    patience: float | None = None


POST = Method("chat.postMessage", 600, posts=True, repeatable=False)
UPDATE = Method("chat.update", 50)
DELETE = Method("chat.delete", 50)
EPHEMERAL = Method("chat.postEphemeral", 100)
PERMALINK = Method("chat.getPermalink", 600, reads=True)

START_STREAM = Method("chat.startStream", 20, posts=True, repeatable=False, patience=0.0)
APPEND_STREAM = Method("chat.appendStream", 100, repeatable=False, patience=0.0)
STOP_STREAM = Method("chat.stopStream", 20, repeatable=False)
SUGGEST_PROMPTS = Method("assistant.threads.setSuggestedPrompts", 100, patience=0.0)
SET_SESSION_STATUS = Method("agents.sessions.setStatus", 50)
RENAME_SESSION = Method("agents.sessions.rename", 50)

# A trigger is valid for three seconds.
OPEN_VIEW = Method("views.open", 100, repeatable=False, within=3.0, patience=1.0)
UPDATE_VIEW = Method("views.update", 100)
PUBLISH = Method("views.publish", 100)

OPEN_DM = Method("conversations.open", 50)
HISTORY = Method("conversations.history", 50, reads=True)
REPLIES = Method("conversations.replies", 50, reads=True)
CHANNEL_INFO = Method("conversations.info", 50, reads=True)
CHANNEL_MEMBERS = Method("conversations.members", 50, reads=True)

WHOAMI = Method("auth.test", 100)
USERS_INFO = Method("users.info", 100, reads=True)
BY_EMAIL = Method("users.lookupByEmail", 50, reads=True)
GROUPS = Method("usergroups.list", 20, reads=True)
GROUP_USERS = Method("usergroups.users.list", 20, reads=True)
# Names can be missing, and decisions wait for the same methods.
USER_NAME, GROUP_NAMES = replace(USERS_INFO, patience=0.0), replace(GROUPS, patience=0.0)

Rate = tuple[Hashable, int, float]
"""A limit: its key, how many calls, and in how many seconds. The same key always has the same limit."""


@dataclass(slots=True)
class _Window:
    """At most `most` calls in any `seconds`. `places`: who was sent away, and when they are to come back."""

    most: int
    seconds: float
    slots: deque[float] = field(init=False)
    closed_until: float = float("-inf")
    places: dict[Hashable, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.slots = deque(maxlen=self.most)

    def next_slot(self, now: float) -> float:
        at = max(now, self.closed_until)
        return max(at, self.slots[0] + self.seconds) if len(self.slots) == self.most else at

    def place(self, who: Hashable, now: float) -> float:
        soonest = self.next_slot(now)
        if self.places.get(who, float("-inf")) < soonest:
            self.places = {each: at for each, at in self.places.items() if at > now and each != who}
            last = next(reversed(self.places.values()), float("-inf"))
            self.places[who] = max(soonest, last + self.seconds / self.most)
        return self.places[who]

    def idle(self, now: float) -> bool:
        return max(self.closed_until, *self.slots, *self.places.values(), now - self.seconds) <= now - self.seconds


_MOST_WINDOWS = 2000


class Limiter:
    """Gives calls their turn. A call that would come too early waits, or is sent away with the time to come back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: dict[Hashable, _Window] = {}

    def take(self, what: str, rates: Sequence[Rate], patience: float = 0.0, *, who: Hashable = None) -> float:
        """Takes a slot of each rate, and returns how long until it comes. Raises `Later` if that is longer than
        `patience`.

        Whoever says `who` they are gets a place in line then, behind those who were sent away before. Without one, all
        would come back at the same time, and most of them in vain: a thousand cards of one channel would each be tried
        a thousand times. Whoever waits keeps one place, however often they come too early, so the line is never longer
        than those who wait.
        """
        now = self._clock()
        windows = [self._window(rate, now) for rate in rates]
        at = max(window.next_slot(now) for window in windows)
        if at - now > patience:
            if who is not None:
                at = max(each.place(who, now) for each in windows if each.next_slot(now) - now > patience)
            raise Later(what, at - now)
        for window in windows:
            window.slots.append(at)
            window.places.pop(who, None)
        return at - now

    def close(self, rate: Rate, after: float) -> None:
        """Closes a window until the time that Slack gave."""
        now = self._clock()
        window = self._window(rate, now)
        window.closed_until = max(window.closed_until, now + after)

    def _window(self, rate: Rate, now: float) -> _Window:
        name, most, seconds = rate
        window = self._windows.get(name)
        if window is None:
            if len(self._windows) >= _MOST_WINDOWS:
                self._windows = {known: each for known, each in self._windows.items() if not each.idle(now)}
            window = self._windows[name] = _Window(most, seconds)
        return window
