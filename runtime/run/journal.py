"""Collects what happens to a session under its lease, writes it, and only then sends it to listeners."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable

from adk_confirm.runtime.calls.call import Call
from adk_confirm.runtime.calls.view import View
from adk_confirm.runtime.errors import Busy, StoreError
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.run.session_cache import CachedSession
from adk_confirm.runtime.store.database import Database, OutcomeUnknown, Tx
from adk_confirm.runtime.store.lease import Lease, LeaseLost
from adk_confirm.runtime.store.lookup import read_view_events
from adk_confirm.runtime.store.records import Invocation, SessionChange, SessionId, StoredSession
from adk_confirm.runtime.store.seal import seal_in
from adk_confirm.runtime.store.sessions import OnChange, was_written, write
from adk_confirm.runtime.wire import Event

# A tool may have taken an hour for its result, so writing it is tried several times.
_PAUSES = (0.05, 0.2, 0.8, 2.0, 4.0, 8.0)


class Journal:
    """`emit` gets every event once it is written. `temporary` is the state that ends with the run."""

    def __init__(
        self,
        database: Database,
        live: CachedSession,
        lease: Lease,
        emit: Callable[[Event], None],
        temporary: JsonObject,
        on_change: OnChange | None,
    ) -> None:
        self.emit = emit
        self.temporary = temporary
        self._database, self._live, self._lease = database, live, lease
        self._on_change = on_change
        self._change = SessionChange()
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
        self._change.add(event)
        self._change.agent = speaker or self._change.agent
        self._live.add(event)

    def begin_turn(self, turn: int) -> None:
        self._change.turn = turn

    async def view(self, agent: str) -> View:
        """The history as the agent's model sees it. Call this after a `flush`: it reads events that the view has
        missed."""
        view = self._live.views.setdefault(agent, View(agent))
        if self._live.events > view.seen:
            for event in await self._database.read(read_view_events, self.stored.key, view.seen):
                view.add(event)
        return view

    async def flush(self, *, release: bool = False) -> dict[str, Call]:
        """Writes what was collected, then sends its events. Returns the calls that must not begin, as they are stored.
        Raises `LeaseLost` if nothing was written."""
        async with self._writing:
            if not (release or self._change.any):
                return {}
            change, self._change = self._change, SessionChange()
            change.release = release
            refused: dict[str, Call] = {}
            self._live.stored = await self._write(change, refused)
            for event in change.events:
                self.emit(event)
            return refused

    async def _write(self, change: SessionChange, refused: dict[str, Call]) -> StoredSession:
        before, on_change = self.stored, self._on_change
        rows = change.rows(before, seal_in(self._database.context))

        def changes(tx: Tx, name: SessionId, was: Call | None, call: Call) -> Call:
            stored = call if on_change is None else on_change(tx, name, was, call)
            refused.pop(call.id, None)  # the transaction may run again
            refused.update({} if stored is call else {call.id: stored})
            return stored

        unsure = False
        for pause in (*_PAUSES, None):
            try:
                return await self._database.run(
                    write, before, self._lease.token, change, rows, changes if on_change else None
                )
            except LeaseLost:
                after = before.after(change)
                if unsure and await self._database.read(was_written, after, self._lease.token, change):
                    return after
                raise
            except (StoreError, Busy) as error:
                unsure = unsure or isinstance(error, OutcomeUnknown)
                if pause is None or self._lease.lost.is_set():
                    raise
            await asyncio.sleep(pause)
        raise AssertionError  # the last attempt returns or raises
