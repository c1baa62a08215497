"""Creates, leases and writes sessions in the store. Transaction functions, each complete in itself.

A worker needs a session's lease to write to it, and every write names the lease's token. So a worker that lost the
lease changes nothing. The session's row is always locked first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json

from adk_confirm.runtime.calls.call import Call, CallState, GateKind
from adk_confirm.runtime.errors import Conflict, NotFound
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store import lease
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.desk import Writer, check_against, check_sender
from adk_confirm.runtime.store.lease import LeasedRow, LeaseLost, new_token
from adk_confirm.runtime.store.lookup import find_call
from adk_confirm.runtime.store.records import OpenedBy, Rows, SessionChange, SessionId, StoredSession
from adk_confirm.runtime.store.seal import seal_in
from adk_confirm.runtime.store.shared_state import merge_shared, read_shared, split_state
from adk_confirm.runtime.wire import Event, json_text

OnChange = Callable[[Tx, SessionId, Call | None, Call], Call]
"""Called in the transaction that stores a gated call, for each beginning and each new state: with the call as it was
stored before, and as it is to be stored. Returns the call to store: another one if it must not begin."""


def topic(name: SessionId) -> str:
    """The topic that is notified when a session's lease is released."""
    return f"runtime:session:{name.app}/{name.user_id}/{name.id}"


def row_of(key: int) -> LeasedRow:
    return LeasedRow("runtime_sessions", "key", key, has_due_at=False)


# Looking


def find(tx: Tx, name: SessionId) -> StoredSession | None:
    row = tx.first(_FIND, app=name.app, user_id=name.user_id, id=name.id)
    return None if row is None else as_stored(tx, row)


def list_sessions(tx: Tx, app: str, user_id: str) -> list[StoredSession]:
    found = "SELECT * FROM runtime_sessions WHERE app = :app AND user_id = :user_id ORDER BY key"
    return [as_stored(tx, row) for row in tx.all(found, app=app, user_id=user_id)]


_FIND = "SELECT * FROM runtime_sessions WHERE app = :app AND user_id = :user_id AND id = :id"
_LOCK = """
    SELECT *, (SELECT prefix FROM runtime_desks WHERE runtime_desks.app = runtime_sessions.app) AS reserved
    FROM runtime_sessions WHERE app = :app AND user_id = :user_id AND id = :id FOR UPDATE
"""


def _lock(tx: Tx, name: SessionId) -> Any:
    return tx.first(_LOCK, app=name.app, user_id=name.user_id, id=name.id)


def as_stored(tx: Tx, row: Any) -> StoredSession:
    return StoredSession(
        key=row.key,
        name=SessionId(row.app, row.user_id, row.id),
        opened_by=row.opened_by,
        state=from_json(row.state),
        shared=read_shared(tx, row.app, row.user_id),
        agent=row.agent,
        events=row.events,
        turn=row.turn,
        version=row.version,
        created=row.created,
        updated=row.updated,
    )


# Beginning and ending


def create(tx: Tx, name: SessionId, agent: str, state: JsonObject, opened_by: OpenedBy = "anyone") -> bool:
    """Creates a session. Returns False if there is one of that name, even one that another process makes at this
    moment."""
    own, user, app = split_state(state)
    now = tx.now()
    row = {
        "app": name.app,
        "user_id": name.user_id,
        "id": name.id,
        "opened_by": opened_by,
        "state": json_text(own),
        "agent": agent,
        "events": 0,
        "turn": 0,
        "version": 1,
        "created": now,
        "updated": now,
    }
    if not tx.insert("runtime_sessions", row, if_absent=True):
        return False
    merge_shared(tx, name.app, name.user_id, user, app)
    return True


def create_with(
    tx: Tx, name: SessionId, agent: str, state: JsonObject, history: SessionChange, sender: Writer
) -> StoredSession:
    """Creates a session with a history. Raises `Conflict` if there is one of that name."""
    check_sender(tx, sender, name, keys=state)
    if not create(tx, name, agent, state):
        raise Conflict(f"Session already exists: {name.id}")
    stored = _write_at_once(tx, name, history) if history.any else find(tx, name)
    assert stored is not None  # this transaction has created, and so locked, it
    return stored


def take_over_session(tx: Tx, session: StoredSession) -> None:
    """Makes the desk the only writer of a session that others made."""
    tx.run("UPDATE runtime_sessions SET opened_by = 'desk' WHERE key = :key", key=session.key)


def set_aside(tx: Tx, session: StoredSession) -> None:
    """Renames a session. It keeps its content."""
    name = f"{session.name.id[:200]}~{session.key}"
    tx.run("UPDATE runtime_sessions SET id = :id WHERE key = :key", key=session.key, id=name)


def delete_session(tx: Tx, name: SessionId, sender: Writer) -> bool:
    row = _lock(tx, name)
    if row is None:
        return False
    check_against(row.reserved, sender, name, as_stored(tx, row))
    if row.lease_token is not None and row.lease_until > tx.now():
        raise Conflict(f"Session {name.id} is at work; delete it when its run has ended.")
    tx.run("DELETE FROM runtime_events WHERE session = :key", key=row.key)
    tx.run("DELETE FROM runtime_calls WHERE session = :key", key=row.key)
    tx.run("DELETE FROM runtime_requests WHERE session = :key", key=row.key)
    tx.run("DELETE FROM runtime_invocations WHERE session = :key", key=row.key)
    tx.run("DELETE FROM runtime_sessions WHERE key = :key", key=row.key)
    return True


# Working on one


@dataclass(frozen=True)
class LockedSession:
    """A session whose row this transaction has locked: until the commit, nobody else can lease it or write to it."""

    session: StoredSession
    is_free: bool  # nobody works on it
    reserved: str | None  # names that begin with it are the desk's


def lock(tx: Tx, name: SessionId) -> LockedSession | None:
    """Locks a session. None: there is no such session."""
    row = _lock(tx, name)
    if row is None:
        return None
    is_free = row.lease_until is None or row.lease_until <= tx.now()
    return LockedSession(as_stored(tx, row), is_free, row.reserved)


def claim(tx: Tx, name: SessionId, term: float) -> tuple[StoredSession, str] | None:
    """The session and a new lease on it. None while somebody else works on it."""
    locked = lock(tx, name)
    if locked is None:
        raise NotFound(f"Session not found: {name.id}")
    return (locked.session, claim_locked(tx, locked, term=term)) if locked.is_free else None


def claim_locked(tx: Tx, locked: LockedSession, *, term: float) -> str:
    """Leases a locked session on which nobody works."""
    token = lease.claim(tx, row_of(locked.session.key), term=term)
    if token is None:
        raise LeaseLost
    return token


def give_back(tx: Tx, session: StoredSession, token: str) -> None:
    lease.release(tx, row_of(session.key), token, topic=topic(session.name))


def free_all(tx: Tx) -> None:
    """Frees all leases. For a process that knows that it is the only one, so that the holders are dead."""
    tx.run("UPDATE runtime_sessions SET lease_token = NULL, lease_until = NULL WHERE lease_token IS NOT NULL")


# The version is checked, since a write with an unknown outcome could otherwise be repeated.
_WRITE = """
    UPDATE runtime_sessions SET
        state = :state, agent = :agent, events = :events, turn = :turn, version = :version, updated = :updated
    WHERE key = :key AND version = :before AND lease_token = :token
"""
_WRITE_AND_RELEASE = """
    UPDATE runtime_sessions SET
        state = :state, agent = :agent, events = :events, turn = :turn, version = :version, updated = :updated,
        lease_token = NULL, lease_until = NULL
    WHERE key = :key AND version = :before AND lease_token = :token
"""
_WRITE_AND_CLAIM = """
    UPDATE runtime_sessions SET
        state = :state, agent = :agent, events = :events, turn = :turn, version = :version, updated = :updated,
        lease_token = :token, lease_until = :until
    WHERE key = :key AND version = :before AND (lease_until IS NULL OR lease_until <= :now)
"""
_ADD_EVENT = "INSERT INTO runtime_events (session, seq, body) VALUES (:session, :seq, :body)"
_PUT_CALL = """
    INSERT INTO runtime_calls (session, id, turn, state, since, body, sealed)
    VALUES (:session, :id, :turn, :state, :since, :body, :sealed)
    ON CONFLICT (session, id) DO UPDATE SET
        state = excluded.state, since = excluded.since, body = excluded.body, sealed = excluded.sealed
"""
_PUT_REQUEST = """
    INSERT INTO runtime_requests (session, id, call) VALUES (:session, :id, :call)
    ON CONFLICT (session, id) DO UPDATE SET call = excluded.call
"""
_PUT_INVOCATION = """
    INSERT INTO runtime_invocations (session, id, agent, turn, status) VALUES (:session, :id, :agent, :turn, :status)
    ON CONFLICT (session, id) DO UPDATE SET agent = excluded.agent, turn = excluded.turn, status = excluded.status
"""


def write(
    tx: Tx, session: StoredSession, token: str, change: SessionChange, rows: Rows, on_change: OnChange | None = None
) -> StoredSession:
    """Adds to a session under its lease, and returns the session as it is now."""
    after = session.after(change)
    if tx.run(_WRITE_AND_RELEASE if change.release else _WRITE, **_values(session, after), token=token) != 1:
        raise LeaseLost
    _add(tx, session, change, rows, on_change)
    if change.release:
        tx.notify(topic(session.name))
    return after


def claim_and_write(
    tx: Tx, locked: LockedSession, change: SessionChange, *, term: float, on_change: OnChange | None = None
) -> tuple[StoredSession, str]:
    """Adds to a session on which nobody works, and leases it in the same statement. Returns the session as it is now,
    and the lease's token."""
    session, token, now = locked.session, new_token(), tx.now()
    after = session.after(change)
    if tx.run(_WRITE_AND_CLAIM, **_values(session, after), token=token, now=now, until=now + term) != 1:
        raise LeaseLost
    _add(tx, session, change, change.rows(session, seal_in(tx.context)), on_change)
    return after, token


def _values(session: StoredSession, after: StoredSession) -> dict[str, object]:
    return {
        "key": session.key,
        "before": session.version,
        "state": json_text(after.state),
        "agent": after.agent,
        "events": after.events,
        "turn": after.turn,
        "version": after.version,
        "updated": after.updated,
    }


def _add(tx: Tx, session: StoredSession, change: SessionChange, rows: Rows, on_change: OnChange | None) -> None:
    if on_change is not None and (refused := _refused(tx, session, change, on_change)):
        rows = replace(change, calls={**change.calls, **refused}).rows(session, seal_in(tx.context))
    tx.many(_ADD_EVENT, rows["events"])
    tx.many(_PUT_CALL, rows["calls"])
    tx.many(_PUT_REQUEST, rows["requests"])
    tx.many(_PUT_INVOCATION, rows["invocations"])
    _, user, app = change.state()
    merge_shared(tx, session.name.app, session.name.user_id, user, app)


def _refused(tx: Tx, session: StoredSession, change: SessionChange, on_change: OnChange) -> dict[str, Call]:
    """Tells of the calls whose state changes. Returns those that must not begin."""
    refused: dict[str, Call] = {}
    for call in change.calls.values():
        before = None if call.gate is GateKind.NONE else find_call(tx, session.key, call.id)
        same = before is not None and before.state is call.state is not CallState.RUNNING
        if call.gate is not GateKind.NONE and not same:
            stored = on_change(tx, session.name, before, call)
            refused |= {} if stored is call else {call.id: stored}
    return refused


def was_written(tx: Tx, after: StoredSession, token: str, change: SessionChange) -> bool:
    """Whether a write with an unknown outcome was the last one, and not somebody else's with the same version."""
    found = tx.first(
        "SELECT lease_token FROM runtime_sessions WHERE key = :key AND version = :version AND events = :events",
        key=after.key,
        version=after.version,
        events=after.events,
    )
    return found is not None and (found.lease_token == token or (change.release and found.lease_token is None))


def update_state(tx: Tx, name: SessionId, event: Event, sender: Writer) -> StoredSession | None:
    """Appends an event that only changes the state. None while somebody works on the session."""
    check_sender(tx, sender, name, find(tx, name), event.actions.state_delta)
    change = SessionChange()
    change.add(event)
    return _write_at_once(tx, name, change)


def _write_at_once(tx: Tx, name: SessionId, change: SessionChange) -> StoredSession | None:
    claimed = claim(tx, name, 1.0)
    if claimed is None:
        return None
    stored, token = claimed
    change.release = True
    return write(tx, stored, token, change, change.rows(stored, seal_in(tx.context)))
