"""Creates, leases and writes sessions in the store. Transaction functions, each complete in itself.

A worker needs a session's lease to write to it, and every write names the lease's token. So a worker that lost the
lease changes nothing. The session's row is always locked first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from pydantic_core import from_json
from sqlalchemy import ColumnElement, Double, bindparam, delete, insert, select, update

from runtime.calls.call import Call, CallState, GateKind
from runtime.errors import Conflict, NotFound
from runtime.jsontypes import JsonObject
from runtime.store import lease
from runtime.store.database import Tx, for_update
from runtime.store.desk import RESERVED, Writer, check_against, check_sender
from runtime.store.lease import LeaseLost, free, new_token
from runtime.store.lookup import find_call
from runtime.store.prepared import Prepared
from runtime.store.records import OpenedBy, Rows, SessionChange, SessionId, StoredSession
from runtime.store.seal import seal_in
from runtime.store.shared_state import merge_shared, read_shared, split_state
from runtime.store.tables import calls, events, invocations, requests, sessions
from runtime.store.upsert import insert_if_absent, upsert
from runtime.wire import Event, json_text

OnChange = Callable[[Tx, SessionId, Call | None, Call], Call]
"""Called in the transaction that stores a gated call, for each beginning and each new state: with the call as it was
stored before, and as it is to be stored. Returns the call to store, which is refused if it must not begin."""


def topic(name: SessionId) -> str:
    """The topic that is notified when a session's lease is released."""
    return f"runtime:session:{name.app}/{name.user_id}/{name.id}"


@lru_cache(maxsize=4096)
def row_of(key: int) -> ColumnElement[bool]:
    """The condition that names the row of a session's lease. It is cached, since SQLAlchemy takes 50 µs to make one."""
    return sessions.c.key == key


# Looking


_BY_NAME = select(sessions).where(
    sessions.c.app == bindparam("app_"), sessions.c.user_id == bindparam("user_"), sessions.c.id == bindparam("id_")
)
_FIND, _LOCK = Prepared(_BY_NAME), Prepared(for_update(_BY_NAME.add_columns(RESERVED)))


def find(tx: Tx, name: SessionId) -> StoredSession | None:
    row = _row(tx, name, lock=False)
    return None if row is None else as_stored(tx, row)


def list_sessions(tx: Tx, app: str, user_id: str) -> list[StoredSession]:
    rows = tx.execute(
        select(sessions).where(sessions.c.app == app, sessions.c.user_id == user_id).order_by(sessions.c.key)
    ).all()
    return [as_stored(tx, row) for row in rows]


def _row(tx: Tx, name: SessionId, *, lock: bool) -> Any:
    return (_LOCK if lock else _FIND).first(tx, app_=name.app, user_=name.user_id, id_=name.id)


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
    if tx.execute(insert_if_absent(tx.dialect, sessions), row).rowcount != 1:
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
    tx.execute(update(sessions).where(sessions.c.key == session.key).values(opened_by="desk"))


def set_aside(tx: Tx, session: StoredSession) -> None:
    """Renames a session. It keeps its content."""
    name = f"{session.name.id[:200]}~{session.key}"
    tx.execute(update(sessions).where(sessions.c.key == session.key).values(id=name))


def delete_session(tx: Tx, name: SessionId, sender: Writer) -> bool:
    row = _row(tx, name, lock=True)
    if row is None:
        return False
    check_against(row.reserved, sender, name, as_stored(tx, row))
    if row.lease_token is not None and row.lease_until > tx.now():
        raise Conflict(f"Session {name.id} is at work; delete it when its run has ended.")
    for table in (events, calls, requests, invocations):
        tx.execute(delete(table).where(table.c.session == row.key))
    tx.execute(delete(sessions).where(sessions.c.key == row.key))
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
    row = _row(tx, name, lock=True)
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
    token = lease.claim(tx, sessions, row_of(locked.session.key), term=term)
    if token is None:
        raise LeaseLost
    return token


def give_back(tx: Tx, session: StoredSession, token: str) -> None:
    lease.release(tx, sessions, row_of(session.key), token, topic=topic(session.name))


def free_all(tx: Tx) -> None:
    """Frees all leases. For a process that knows that it is the only one, so that the holders are dead."""
    tx.execute(update(sessions).where(sessions.c.lease_token.is_not(None)).values(lease_token=None, lease_until=None))


_WRITE = (
    update(sessions)
    # Check the version, since a write with an unknown outcome could otherwise be repeated.
    .where(sessions.c.key == bindparam("key_"), sessions.c.version == bindparam("before_"))
    .values(
        state=bindparam("state_"),
        agent=bindparam("agent_"),
        events=bindparam("events_"),
        turn=bindparam("turn_"),
        version=bindparam("version_"),
        updated=bindparam("updated_"),
    )
)
_HELD = _WRITE.where(sessions.c.lease_token == bindparam("token_"))
_WRITE_ROW, _WRITE_ROW_AND_RELEASE = Prepared(_HELD), Prepared(_HELD.values(lease_token=None, lease_until=None))
_WRITE_ROW_AND_CLAIM = Prepared(
    _WRITE.where(free(sessions, bindparam("now_", type_=Double))).values(
        lease_token=bindparam("token_"), lease_until=bindparam("until_")
    )
)
_ADD_EVENTS = Prepared(insert(events))
_PUT_ROWS = {
    "calls": Prepared(partial(upsert, table=calls, fixed="turn")),
    "requests": Prepared(partial(upsert, table=requests)),
    "invocations": Prepared(partial(upsert, table=invocations)),
}


def write(
    tx: Tx, session: StoredSession, token: str, change: SessionChange, rows: Rows, on_change: OnChange | None = None
) -> StoredSession:
    """Adds to a session under its lease, and returns the session as it is now."""
    after = session.after(change)
    values = {**_values(session, after), "token_": token}
    if (_WRITE_ROW_AND_RELEASE if change.release else _WRITE_ROW)(tx, **values) != 1:
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
    values = {**_values(session, after), "token_": token, "now_": now, "until_": now + term}
    if _WRITE_ROW_AND_CLAIM(tx, **values) != 1:
        raise LeaseLost
    _add(tx, session, change, change.rows(session, seal_in(tx.context)), on_change)
    return after, token


def _values(session: StoredSession, after: StoredSession) -> dict[str, object]:
    return {
        "key_": session.key,
        "before_": session.version,
        "state_": json_text(after.state),
        "agent_": after.agent,
        "events_": after.events,
        "turn_": after.turn,
        "version_": after.version,
        "updated_": after.updated,
    }


def _add(tx: Tx, session: StoredSession, change: SessionChange, rows: Rows, on_change: OnChange | None) -> None:
    if on_change is not None and (refused := _refused(tx, session, change, on_change)):
        rows = replace(change, calls={**change.calls, **refused}).rows(session, seal_in(tx.context))
    if rows["events"]:
        _ADD_EVENTS.many(tx, rows["events"])
    for name, put in _PUT_ROWS.items():
        if rows[name]:
            put.many(tx, rows[name])
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
    written = (sessions.c.version == after.version, sessions.c.events == after.events)
    found = tx.execute(select(sessions.c.lease_token).where(sessions.c.key == after.key, *written)).one_or_none()
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
