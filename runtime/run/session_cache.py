"""Keeps sessions in memory with the history as their model sees it, so that a long history is not read again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from adk_confirm.runtime.calls.view import View
from adk_confirm.runtime.store.records import SessionId, StoredSession
from adk_confirm.runtime.wire import Event

MOST_SESSIONS = 1024
MOST_EVENTS = 400_000


@dataclass
class CachedSession:
    """A session in memory. A view may lack events that others wrote; these are read when it is used."""

    stored: StoredSession
    views: dict[str, View] = field(default_factory=dict)
    events: int = field(init=False)  # events that are written, or about to be

    def __post_init__(self) -> None:
        self.events = self.stored.events

    def add(self, event: Event) -> None:
        for view in self.views.values():
            if view.seen == self.events:
                view.add(event)
        self.events += 1


class SessionCache:
    """The most recently used sessions, limited by number and by their events."""

    def __init__(self, most_sessions: int = MOST_SESSIONS, most_events: int = MOST_EVENTS) -> None:
        self._most_sessions, self._most_events = most_sessions, most_events
        self._kept: OrderedDict[SessionId, CachedSession] = OrderedDict()
        self._events = 0

    def take(self, stored: StoredSession) -> CachedSession:
        """Takes the session as far as it is known (events never change). Put it back if its run went well."""
        live = self._kept.pop(stored.name, None)
        if live is not None:
            self._events -= live.stored.events
            if _identity(live.stored) == _identity(stored):
                return CachedSession(stored, live.views)
        return CachedSession(stored)

    def put(self, live: CachedSession) -> None:
        self._kept[live.stored.name] = live
        self._events += live.stored.events
        while len(self._kept) > self._most_sessions or (self._events > self._most_events and len(self._kept) > 1):
            _, dropped = self._kept.popitem(last=False)
            self._events -= dropped.stored.events


def _identity(stored: StoredSession) -> tuple[int, float]:
    """Identifies a session. A database may give the key of a deleted session to the next one."""
    return stored.key, stored.created
