"""Collects what happens to a session under its lease, writes it, and only then sends it to listeners."""

from __future__ import annotations

import asyncio
import copy
from collections import OrderedDict
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from functools import wraps

from adk_confirm.runtime.calls.call import Call, CallState
from adk_confirm.runtime.calls.model_history import ModelHistory
from adk_confirm.runtime.errors import Busy, StoreError
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.run.arrival import AcceptedMessage
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.lease import Lease, LeaseLost
from adk_confirm.runtime.store.seal import seal_in
from adk_confirm.runtime.store.sessions import OnChange, read_events_and_size, write
from adk_confirm.runtime.store.stored_session import Invocation, SessionChange, StoredSession
from adk_confirm.runtime.wire import Event, SessionId

MOST_SESSIONS = 1024
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of events, as stored. In memory a short event takes about five times as much, a file less than its text."""


@dataclass
class CachedSession:
    """A session in memory. A view may lack events that others wrote; these are read when the view is used."""

    stored: StoredSession
    views: dict[str, ModelHistory] = field(default_factory=dict)
    size: int = 0  # of the events in it, as they are stored
    events: int = field(init=False)  # events that are written, or about to be

    def __post_init__(self) -> None:
        self.events = self.stored.events

    def add(self, event: Event) -> None:
        for view in self.views.values():
            if view.seen == self.events:
                view.add(event)
        self.events += 1


class SessionCache:
    """The most recently used sessions, limited by number and by the size of their events."""

    def __init__(self, most_sessions: int = MOST_SESSIONS, most_bytes: int = MOST_BYTES) -> None:
        self._most_sessions, self._most_bytes = most_sessions, most_bytes
        self._kept: OrderedDict[SessionId, CachedSession] = OrderedDict()
        self._size = 0

    def __contains__(self, name: SessionId) -> bool:
        return name in self._kept

    def take(self, stored: StoredSession) -> CachedSession:
        """Takes the session and its views out of the cache (events never change). Put it back if its run went well."""
        live = self._kept.pop(stored.name, None)
        if live is not None:
            self._size -= live.size
            if _identity(live.stored) == _identity(stored):
                return CachedSession(stored, live.views, live.size)
        return CachedSession(stored)

    def put(self, live: CachedSession) -> None:
        self._kept[live.stored.name] = live
        self._size += live.size
        while len(self._kept) > self._most_sessions or (self._size > self._most_bytes and len(self._kept) > 1):
            _, dropped = self._kept.popitem(last=False)
            self._size -= dropped.size


def _identity(stored: StoredSession) -> tuple[int, float]:
    """Identifies a session. A database may give the key of a deleted session to the next one."""
    return stored.key, stored.created


@dataclass(frozen=True)
class Position:
    """How far a session was read. A database may give the key of a deleted session to another one."""

    key: int
    created: float
    events: int
    turn: int
    version: int

    @classmethod
    def in_session(cls, stored: StoredSession) -> Position:
        return cls(stored.key, stored.created, stored.events, stored.turn, stored.version)


@dataclass(frozen=True)
class SessionNews:
    """What is new in a session since a position, or since its beginning: its events, and its calls. `held`: the ids of
    all calls that wait for people. If None, those that waited before and are not in `calls` still do."""

    since: Position | None
    position: Position
    events: tuple[Event, ...]
    calls: tuple[Call, ...]
    held: Set[str] | None = None


# A tool may have taken an hour for its result, so writing it is tried several times.
_PAUSES = (0.05, 0.2, 0.8, 2.0, 4.0, 8.0)


class Journal:
    """Collects a run's changes and writes them. `emit` gets each event once it is written or handed over. `temporary`:
    the state that ends with the run. `message` began the run; if it is not stored, the first step stores it."""

    def __init__(
        self,
        database: Database,
        live: CachedSession,
        lease: Lease,
        emit: Callable[[Event], None],
        on_change: OnChange | None,
        message: AcceptedMessage,
    ) -> None:
        self.emit = emit
        self.temporary = dict(message.temporary)
        written, change = SessionChange(), message.change
        if message.is_written:
            written, change = change, written
        self._since = Position.in_session(message.before) if message.before.events else None
        self._all_events, self._all_calls = [*written.events], {**written.calls}
        self._database, self._live, self._lease = database, live, lease
        self._on_change = on_change
        self._change = change
        self._arrived = 0 if any(change.state()) else len(change.events)
        self._writing = asyncio.Lock()

    @property
    def stored(self) -> StoredSession:
        """The session as it was last written."""
        return self._live.stored

    @property
    def state(self) -> JsonObject:
        """A copy of the state, so that a tool that changes a value in place changes nothing else."""
        return copy.deepcopy({**self.stored.shared, **self.stored.state, **self.temporary})

    def put(self, item: Call | Invocation) -> None:
        self._change.put(item)

    def add(self, event: Event, *, speaker: str | None = None) -> None:
        """Adds an event. With a `speaker`, the conversation belongs to that agent from now on."""
        self._live.size += self._change.add(event)
        self._change.agent = speaker or self._change.agent
        self._live.add(event)

    def begin_turn(self, turn: int) -> None:
        self._change.turn = turn

    async def view(self, agent: str) -> ModelHistory:
        """The history as the agent's model sees it."""
        view = self._live.views.setdefault(agent, ModelHistory(agent))
        if self._live.events > view.seen:
            events, size = self._all_events, 0
            if view.seen or self._since is not None:  # otherwise the session began with this run
                events, size = await self._database.read(read_events_and_size, self.stored.key, view.seen)
            self._live.size += size
            for event in (*events, *self._change.events):
                view.add(event)
        return view

    async def flush_news(self) -> None:
        """Writes what was collected, unless that is only a message: its sender keeps it until the run has ended."""
        if len(self._change.events) > self._arrived:
            await self.flush()

    async def flush(self, *, release: bool = False) -> dict[str, Call]:
        """Writes what was collected, then sends its events. Returns the calls that `on_change` had stored in another
        state. Raises `LeaseLost` if the lease is gone and nothing was written."""
        async with self._writing:
            if not (release or self._change.any):
                return {}
            change, self._change, self._arrived = self._change, SessionChange(), 0
            change.release = release
            refused: dict[str, Call] = {}
            self._live.stored = await self._write(self._write_of(change, refused))
            self._tell(change, refused)
            return refused

    def hand_over(self, written: Callable[[], None]) -> bool:
        """Has the holder's next transaction write what was collected, and sends its events now: whatever the holder
        makes of them is in that transaction as well. After it, `written` is called. False, and nothing is done, if what
        was collected can't wait, such as a tool's result."""
        change = self._change
        if any(call.state is not CallState.HELD for call in change.calls.values()):
            return False

        def done(stored: StoredSession) -> None:
            self._live.stored = stored
            written()

        if change.any:
            self._change = SessionChange()
            self._lease.carry(self._write_of(change, {}), done)
            self._live.stored = self.stored.after(change)
            self._tell(change, {})
        else:
            written()
        return True

    @property
    def news(self) -> SessionNews:
        """All that this run did."""
        position = Position.in_session(self.stored)
        return SessionNews(self._since, position, tuple(self._all_events), tuple(self._all_calls.values()))

    def _tell(self, change: SessionChange, otherwise: dict[str, Call]) -> None:
        self._all_events += change.events
        self._all_calls |= {**change.calls, **otherwise}
        for event in change.events:
            self.emit(event)

    def _write_of(self, change: SessionChange, refused: dict[str, Call]) -> Callable[[Tx], StoredSession]:
        before, on_change = self.stored, self._on_change
        rows = change.rows(before, seal_in(self._database.context))

        def changes(tx: Tx, name: SessionId, was: Call | None, call: Call) -> Call:
            stored = call if on_change is None else on_change(tx, name, was, call)
            refused.pop(call.id, None)  # the transaction may run again
            refused.update({} if stored is call else {call.id: stored})
            return stored

        @wraps(write)
        def writing(tx: Tx) -> StoredSession:
            return write(tx, before, self._lease, change, rows, changes if on_change else None)

        return writing

    async def _write(self, writing: Callable[[Tx], StoredSession]) -> StoredSession:
        for pause in (*_PAUSES, None):
            try:
                return await self._database.run(writing)
            except LeaseLost:
                raise
            except (StoreError, Busy):
                if pause is None or self._lease.lost.is_set():
                    raise
            await asyncio.sleep(pause)
        raise AssertionError  # the last attempt returns or raises
