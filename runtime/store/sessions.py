"""Creates, leases, reads and writes sessions in the store. Transaction functions, each complete in itself.

A worker needs a session's lease to write to it, and every write names the lease's token. So a worker that lost the
lease changes nothing. The session's row is always locked first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from adk_confirm.runtime.calls.call import Call, CallState, GateKind, void
from adk_confirm.runtime.errors import Conflict, Forbidden, NotFound
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store import lease
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.lease import JobKey, LeaseLost, holds
from adk_confirm.runtime.store.records import (
    CALL,
    Invocation,
    InvocationStatus,
    OpenedBy,
    Rows,
    SessionChange,
    SessionId,
    StoredSession,
    call_key,
    is_storable_id,
    merge_shared,
    read_shared,
    split_state,
)
from adk_confirm.runtime.store.seal import seal_in
from adk_confirm.runtime.wire import Event, json_text

AT_ONCE = 100
"""How many sessions or calls one look returns at most."""

_EVENTS = "SELECT body FROM runtime_events WHERE session = :key AND seq >= :after ORDER BY seq"
_CALLS = """
    SELECT s.app, s.user_id, s.id AS name, c.id, c.body, c.sealed
    FROM runtime_calls c JOIN runtime_sessions s ON s.key = c.session
    WHERE c.session = :key
"""
_TURN = f"{_CALLS} AND c.turn = :turn"
_CALL = f"{_CALLS} AND c.id = :id"
_ASKED = """
    SELECT s.app, s.user_id, s.id AS name, c.id, c.body, c.sealed
    FROM runtime_requests r
    JOIN runtime_calls c ON c.session = r.session AND c.id = r.call
    JOIN runtime_sessions s ON s.key = r.session
    WHERE r.session = :key AND r.id = :id
"""
_INVOCATIONS = "SELECT id, agent, turn, status FROM runtime_invocations WHERE session = :key"


def read_events(tx: Tx, key: int, after: int = 0) -> list[Event]:
    """The events after number `after`, oldest first."""
    return [Event.model_validate_json(body) for body in tx.column(_EVENTS, key=key, after=after)]


def _call(tx: Tx, row: Any, *, as_void: bool) -> Call | None:
    """The stored call, if its seal fits. Otherwise there is no such call, or `as_void` what is left of it."""
    seal, name = seal_in(tx.context), SessionId(row.app, row.user_id, row.name)
    if seal is None or seal.fits(row.sealed, "call", call_key(name, row.id), row.body):
        return CALL.validate_json(row.body)
    if not as_void:
        return None
    try:
        return void(replace(CALL.validate_json(row.body), id=row.id))
    except ValidationError:
        return None


def _calls(tx: Tx, rows: Iterable[Any], *, as_void: bool = False) -> list[Call]:
    found = (_call(tx, row, as_void=as_void) for row in rows)
    return sorted((call for call in found if call is not None), key=lambda call: (call.turn, call.place))


def read_turn(tx: Tx, key: int, turn: int) -> list[Call]:
    """The turn's calls, to work on. Those that somebody changed are void."""
    return _calls(tx, tx.all(_TURN, key=key, turn=turn), as_void=True)


def read_call(tx: Tx, key: int, call_id: str) -> Call | None:
    """A call, to answer it. Void if somebody changed it."""
    row = tx.first(_CALL, key=key, id=call_id) if is_storable_id(call_id) else None
    return None if row is None else _call(tx, row, as_void=True)


def find_call(tx: Tx, key: int, call_id: str) -> Call | None:
    """The call as it is stored. None if it is new, or if somebody changed it."""
    row = tx.first(_CALL, key=key, id=call_id)
    return None if row is None else _call(tx, row, as_void=False)


def read_calls(tx: Tx, key: int) -> list[Call]:
    """The calls in the order in which they were made."""
    return _calls(tx, tx.all(_CALLS, key=key))


def known_calls(tx: Tx, key: int, ids: Collection[str]) -> set[str]:
    """Those of the ids that a call or a request already has."""
    asked = [call_id for call_id in ids if is_storable_id(call_id)]
    return set(
        tx.column(
            "SELECT id FROM runtime_calls WHERE session = :key AND id IN :ids"
            " UNION SELECT id FROM runtime_requests WHERE session = :key AND id IN :ids",
            key=key,
            ids=asked,
        )
    )


def call_asked_by(tx: Tx, key: int, request_id: str) -> Call | None:
    """The call that a request is about. Also accepts a call's own id."""
    if not is_storable_id(request_id):
        return None
    asked = tx.first(_ASKED, key=key, id=request_id)
    if asked is None:
        return read_call(tx, key, request_id)
    call = _call(tx, asked, as_void=True)
    if call is None or call.has_asked(request_id):
        return call
    # The table is only an index. If it contradicts the calls, somebody changed it.
    return next((one for one in read_calls(tx, key) if one.has_asked(request_id)), None)


def read_invocation(tx: Tx, key: int, invocation_id: str) -> Invocation | None:
    if not is_storable_id(invocation_id):
        return None
    row = tx.first(f"{_INVOCATIONS} AND id = :id", key=key, id=invocation_id)
    return None if row is None else Invocation(row.id, row.agent, row.turn, InvocationStatus(row.status))


def active_invocations(tx: Tx, key: int) -> list[Invocation]:
    rows = tx.all(f"{_INVOCATIONS} AND status = 'active' ORDER BY turn", key=key)
    return [Invocation(row.id, row.agent, row.turn, InvocationStatus(row.status)) for row in rows]


def active(tx: Tx, name: SessionId, ids: Collection[str] | None = None) -> bool:
    """Whether any of these invocations has unfinished work. Without ids, whether the session has any unfinished
    work."""
    found = """
        SELECT i.id FROM runtime_invocations i JOIN runtime_sessions s ON s.key = i.session
        WHERE s.app = :app AND s.user_id = :user_id AND s.id = :id AND i.status = 'active'
    """
    unfinished = tx.column(found, app=name.app, user_id=name.user_id, id=name.id)
    return any(ids is None or id_ in ids for id_ in unfinished)


def find_abandoned(tx: Tx, apps: Collection[str], *, desk: bool = False) -> list[SessionId]:
    """Sessions with unfinished work on which nobody works: their process died. The order is random, so that sessions
    that fail again and again do not block others. The desk resumes its own sessions, other services resume theirs."""
    found = """
        SELECT app, user_id, id FROM runtime_sessions
        WHERE key IN (SELECT session FROM runtime_invocations WHERE status = 'active')
          AND app IN :apps AND (opened_by = 'desk') = (:desk = 1)
          AND NOT EXISTS (
              SELECT 1 FROM jobs WHERE kind = 'run' AND jobs.key = CAST(runtime_sessions.key AS TEXT)
                AND lease_until > :now
          )
        ORDER BY random() LIMIT :most
    """
    rows = tx.all(found, apps=list(apps), desk=int(desk), now=tx.now(), most=AT_ONCE)
    return [SessionId(row.app, row.user_id, row.id) for row in rows]


def find_unknown_since(tx: Tx, apps: Collection[str], age: float) -> list[tuple[SessionId, str, int]]:
    """Calls that have been unknown for so long that the model gets that as their result, each with its attempt. A desk
    decides about its own."""
    found = """
        SELECT s.app, s.user_id, s.id AS name, c.id, c.body, c.sealed
        FROM runtime_calls c JOIN runtime_sessions s ON s.key = c.session
        WHERE c.state = 'unknown' AND c.since <= :until
          AND s.app IN :apps AND s.opened_by <> 'desk'
        ORDER BY random() LIMIT :most
    """
    rows = tx.all(found, apps=list(apps), until=tx.now() - age, most=AT_ONCE)
    unknown = [(SessionId(row.app, row.user_id, row.name), _call(tx, row, as_void=True)) for row in rows]
    return [(name, call.id, call.attempt) for name, call in unknown if call is not None]


@dataclass(frozen=True)
class Writer:
    """Who wants to write. `shares_state`: others may write an app's `app:` state even if the app has a desk."""

    desk: bool = False
    shares_state: bool = False


ANYBODY = Writer()


def open_desk(tx: Tx, app: str, prefix: str) -> None:
    """Reserves names that begin with `prefix` for the desk."""
    if _prefix(tx, app) != prefix:
        tx.run(
            "INSERT INTO runtime_desks (app, prefix) VALUES (:app, :prefix)"
            " ON CONFLICT (app) DO UPDATE SET prefix = excluded.prefix",
            app=app,
            prefix=prefix,
        )


def check_sender(
    tx: Tx, sender: Writer, name: SessionId, session: StoredSession | None = None, keys: Iterable[str] = ()
) -> None:
    """Raises `Forbidden` for what only the desk may write. `session` is the existing session of that name, `keys` are
    those of the state that would be written."""
    if not sender.desk:
        check_against(_prefix(tx, name.app), sender, name, session, keys)


def check_against(
    prefix: str | None, sender: Writer, name: SessionId, session: StoredSession | None, keys: Iterable[str] = ()
) -> None:
    """The same for a caller that has read the prefix of the desk's names."""
    if sender.desk:
        return
    if session is not None and session.opened_by == "desk":
        raise Forbidden(
            f"Session {name.id} belongs to the bot that opened it and takes nothing from others. Nothing was changed."
        )
    if prefix is None:
        return
    for what, text in (("user", name.user_id), ("session", name.id)):
        if text.startswith(prefix):
            raise Forbidden(
                f"The {what} {text} belongs to a bot: names with {prefix} in front are taken. Nothing was changed."
            )
    shared = next((key for key in keys if key.startswith("app:")), None)
    if shared is not None and not sender.shares_state:
        raise Forbidden(
            f"{shared} is state that a bot's sessions see too, and approvals may depend on it. Nothing was changed. "
            "Whoever runs this API can allow it: adk-confirm api --shared-state."
        )


def _prefix(tx: Tx, app: str) -> str | None:
    prefix: str | None = tx.value("SELECT prefix FROM runtime_desks WHERE app = :app", app=app)
    return prefix


OnChange = Callable[[Tx, SessionId, Call | None, Call], Call]
"""Called in the transaction that stores a gated call, for each beginning and each new state: with the call as it was
stored before, and as it is to be stored. Returns the call to store: another one if it must not begin,
or begins though it would have asked once more."""


def topic(name: SessionId) -> str:
    """The topic that is notified when a session's lease is released."""
    return f"runtime:session:{name.app}/{name.user_id}/{name.id}"


def run_of(key: int) -> JobKey:
    """The job whose lease says who works on the session."""
    return JobKey("run", str(key))


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
    """Creates a session. Returns False if there is one of that name already, also if another process creates it at
    the same moment."""
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
    if not is_free(tx, row.key):
        raise Conflict(f"Session {name.id} is at work; delete it when its run has ended.")
    tx.run("DELETE FROM runtime_events WHERE session = :key", key=row.key)
    tx.run("DELETE FROM runtime_calls WHERE session = :key", key=row.key)
    tx.run("DELETE FROM runtime_requests WHERE session = :key", key=row.key)
    tx.run("DELETE FROM runtime_invocations WHERE session = :key", key=row.key)
    tx.run("DELETE FROM runtime_sessions WHERE key = :key", key=row.key)
    tx.run("DELETE FROM jobs WHERE kind = 'run' AND key = :key", key=str(row.key))
    return True


# Working on one


@dataclass(frozen=True)
class LockedSession:
    """A session whose row this transaction has locked: until the commit, nobody else can lease it or write to it."""

    session: StoredSession
    reserved: str | None  # a prefix of session ids that only one writer may use, such as Slack


def lock(tx: Tx, name: SessionId) -> LockedSession | None:
    """Locks a session. Returns None if there is no such session."""
    row = _lock(tx, name)
    if row is None:
        return None
    return LockedSession(as_stored(tx, row), row.reserved)


def is_free(tx: Tx, key: int) -> bool:
    """Whether nobody works on a session that this transaction has locked."""
    until = tx.value("SELECT lease_until FROM jobs WHERE kind = 'run' AND key = :key FOR UPDATE", key=str(key))
    return until is None or until <= tx.now()


def claim(tx: Tx, name: SessionId, term: float) -> tuple[StoredSession, str] | None:
    """The session and a new lease on it. None while somebody else works on it."""
    locked = lock(tx, name)
    if locked is None:
        raise NotFound(f"Session not found: {name.id}")
    token = lease.claim(tx, run_of(locked.session.key), term=term)
    return None if token is None else (locked.session, token)


def give_back(tx: Tx, session: StoredSession, token: str) -> None:
    lease.release(tx, run_of(session.key), token, topic=topic(session.name))


# The version is checked, since a write with an unknown outcome could otherwise be repeated.
_WRITE = """
    UPDATE runtime_sessions SET
        state = :state, agent = :agent, events = :events, turn = :turn, version = :version, updated = :updated
    WHERE key = :key AND version = :before
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
    after, run = add(tx, session, change, on_change, rows), run_of(session.key)
    if not (lease.release(tx, run, token, topic=topic(session.name)) if change.release else holds(tx, run, token)):
        raise LeaseLost
    return after


def add(
    tx: Tx, session: StoredSession, change: SessionChange, on_change: OnChange | None = None, rows: Rows | None = None
) -> StoredSession:
    """Adds to a session that this transaction has leased, and returns the session as it is now. `rows`: the change's,
    if they are known."""
    after = session.after(change)
    if tx.run(_WRITE, **_values(session, after)) != 1:
        raise LeaseLost
    _add(tx, session, change, rows or change.rows(session, seal_in(tx.context)), on_change)
    return after


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
    """Calls `on_change` for each call whose state changes. Returns the calls that must not begin."""
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
        """
        SELECT j.lease_token FROM runtime_sessions s JOIN jobs j ON j.kind = 'run' AND j.key = CAST(s.key AS TEXT)
        WHERE s.key = :key AND s.version = :version AND s.events = :events
        """,
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
