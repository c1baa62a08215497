"""Creates, reads, changes and deletes the sessions of an app."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from adk_confirm.runtime.agent import Agent
from adk_confirm.runtime.calls.call import Call
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.run.message import check_state
from adk_confirm.runtime.run.sequencer import Sequencer
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.desk import Writer
from adk_confirm.runtime.store.lookup import read_calls, read_events
from adk_confirm.runtime.store.records import SessionChange, SessionId, StoredSession
from adk_confirm.runtime.store.sessions import create_with, delete_session, find, list_sessions, update_state
from adk_confirm.runtime.store.shared_state import split_temporary
from adk_confirm.runtime.wire import USER, Event, EventActions, SessionRecord

STATE_PATIENCE = 60.0


@dataclass(frozen=True)
class Position:
    """How far a session was read. A database may give the key of a deleted session to another one."""

    key: int
    created: float
    events: int


@dataclass(frozen=True)
class SessionNews:
    """A session's current calls, and its events since a position. For another session, all events are new."""

    position: Position
    continues: bool
    events: tuple[Event, ...]
    calls: tuple[Call, ...]


class AppSessions(ABC):
    """The part of a runner that runs nothing: its sessions."""

    agent: Agent
    app_name: str
    _sequencer: Sequencer
    _sender: Writer

    @abstractmethod
    async def open(self) -> Database: ...

    async def create_session(
        self,
        *,
        user_id: str,
        session_id: str | None = None,
        state: JsonObject | None = None,
        events: Sequence[Event] = (),
    ) -> SessionRecord:
        """Raises `Conflict` if there is a session of that name."""
        name = self._name(user_id, str(uuid.uuid4()) if session_id is None else session_id)
        check_state(state)
        history = SessionChange()
        for number, event in enumerate(events, 1):
            try:
                history.add(event)
            except ValueError as error:
                raise Invalid(f"Event {number} cannot be written as JSON: {error}. No session was made.") from error
        stored = await (await self.open()).run(create_with, name, self.agent.name, state or {}, history, self._sender)
        return _record(stored, list(events))

    async def get_session(self, *, user_id: str, session_id: str) -> SessionRecord | None:
        def read(tx: Tx) -> SessionRecord | None:
            stored = find(tx, self._name(user_id, session_id))
            return None if stored is None else _record(stored, read_events(tx, stored.key))

        return await (await self.open()).read(read)

    async def list_sessions(self, *, user_id: str) -> list[SessionRecord]:
        """The sessions without their events."""
        stored = await (await self.open()).read(list_sessions, self.app_name, user_id)
        return [_record(session, []) for session in stored]

    async def update_state(self, *, user_id: str, session_id: str, delta: JsonObject) -> SessionRecord:
        name = self._name(user_id, session_id)
        check_state(delta)
        kept, _ = split_temporary(delta)
        event = Event(invocation_id=f"p-{uuid.uuid4()}", author=USER, actions=EventActions(state_delta=kept))
        stored = await self._sequencer.when_free(name, STATE_PATIENCE, update_state, name, event, self._sender)
        return _record(stored, await (await self.open()).read(read_events, stored.key))

    async def delete_session(self, *, user_id: str, session_id: str) -> bool:
        return await (await self.open()).run(delete_session, self._name(user_id, session_id), self._sender)

    async def calls(self, *, user_id: str, session_id: str) -> list[Call]:
        """The session's calls and their states, in the order in which they were made."""

        def read(tx: Tx) -> list[Call]:
            stored = find(tx, self._name(user_id, session_id))
            return [] if stored is None else read_calls(tx, stored.key)

        return await (await self.open()).read(read)

    async def news(self, *, user_id: str, session_id: str, since: Position | None = None) -> SessionNews | None:
        """What is new since a position, for callers that look at a session again and again."""

        def read(tx: Tx) -> SessionNews | None:
            stored = find(tx, self._name(user_id, session_id))
            if stored is None:
                return None
            continues = since is not None and (since.key, since.created) == (stored.key, stored.created)
            first = since.events if since is not None and continues else 0
            events = tuple(read_events(tx, stored.key, first)) if first < stored.events else ()
            position = Position(stored.key, stored.created, stored.events)
            return SessionNews(position, continues, events, tuple(read_calls(tx, stored.key)))

        database = await self.open()
        return await database.read(read)

    def _name(self, user_id: str, session_id: str) -> SessionId:
        return SessionId(self.app_name, user_id, session_id)


def _record(stored: StoredSession, events: list[Event]) -> SessionRecord:
    return SessionRecord(
        id=stored.name.id,
        app_name=stored.name.app,
        user_id=stored.name.user_id,
        state={**stored.shared, **stored.state},
        events=events,
        last_update_time=stored.updated,
    )
