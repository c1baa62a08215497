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
from adk_confirm.runtime.store.lease import JobKey, Lease, LeaseLost, holds
from adk_confirm.runtime.store.seal import seal_in
from adk_confirm.runtime.store.stored_session import (
    CALL,
    Invocation,
    InvocationStatus,
    OpenedBy,
    Rows,
    SessionChange,
    StoredSession,
    call_key,
    merge_shared,
    read_shared,
    split_state,
)
from adk_confirm.runtime.store.tables import note, noted
from adk_confirm.runtime.wire import Event, SessionId, is_storable_id, json_text

_EVENTS = "SELECT body FROM runtime_events WHERE session = :key AND seq >= :after ORDER BY seq"
_CALLS = """
    SELECT s.app, s.user_id, s.id AS name, s.opened_by, c.id, c.body, c.sealed
    FROM runtime_calls c JOIN runtime_sessions s ON s.key = c.session
    WHERE c.session = :key
"""
_CALLS_SINCE = f"{_CALLS} AND (c.turn >= :turn OR c.state = 'held')"
_TURN = f"{_CALLS} AND c.turn = :turn"
_CALL = f"{_CALLS} AND c.id = :id"
_UNKNOWN = f"{_CALLS} AND c.state = 'unknown' AND c.since <= :until"
_ASKED = """
    SELECT s.app, s.user_id, s.id AS name, s.opened_by, c.id, c.body, c.sealed
    FROM runtime_requests r
    JOIN runtime_calls c ON c.session = r.session AND c.id = r.call
    JOIN runtime_sessions s ON s.key = r.session
    WHERE r.session = :key AND r.id = :id
"""
_INVOCATIONS = "SELECT id, agent, turn, status FROM runtime_invocations WHERE session = :key"


def read_events(tx: Tx, key: int, after: int = 0) -> list[Event]:
    """The events after number `after`, oldest first."""
    return read_events_and_size(tx, key, after)[0]


def read_events_and_size(tx: Tx, key: int, after: int) -> tuple[list[Event], int]:
    bodies = tx.column(_EVENTS, key=key, after=after)
    return [Event.model_validate_json(body) for body in bodies], sum(map(len, bodies))


def _call(tx: Tx, row: Any, *, as_void: bool) -> Call | None:
    """The stored call, if its seal fits. Otherwise None, or with `as_void` what `void` leaves of the call."""
    seal, name = seal_in(tx.context), SessionId(row.app, row.user_id, row.name)
    if seal is None or seal.fits(row.sealed, "call", call_key(name, row.opened_by, row.id), row.body):
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
    """The turn's calls, to work on. Those that somebody changed in the database are void."""
    return _calls(tx, tx.all(_TURN, key=key, turn=turn), as_void=True)


def read_call(tx: Tx, key: int, call_id: str) -> Call | None:
    """A call, to answer it. Void if somebody changed it."""
    row = tx.first(_CALL, key=key, id=call_id) if is_storable_id(call_id) else None
    return None if row is None else _call(tx, row, as_void=True)


def find_call(tx: Tx, key: int, call_id: str) -> Call | None:
    """The call as it is stored. None if it is new, or if somebody changed it."""
    row = tx.first(_CALL, key=key, id=call_id)
    return None if row is None else _call(tx, row, as_void=False)


def read_calls(tx: Tx, key: int, turn: int = 0) -> list[Call]:
    """The calls in the order in which they were made: those that are held, and those of `turn` and later ones."""
    return _calls(tx, tx.all(_CALLS_SINCE, key=key, turn=turn))


def known_calls(tx: Tx, key: int, ids: Collection[str]) -> set[str]:
    """Which of these ids a call or a request already has."""
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
    # The table of requests is only an index. If it contradicts the calls, somebody changed it.
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


LONGEST_UNKNOWN = 24 * 3600.0
"""After this many seconds an unknown call ends, with the result that nobody knows its outcome. In a session of a desk
(the bot) people say what happened, or the desk's own clock does."""

_MISSING = """
    INSERT INTO jobs (kind, key, due_at)
    SELECT :kind, CAST(key AS TEXT), :now FROM runtime_sessions
    WHERE app = :app AND opened_by = :opened_by AND key IN (
        SELECT session FROM runtime_invocations WHERE status = 'active'
        UNION SELECT session FROM runtime_calls WHERE state = 'unknown'
    )
    ON CONFLICT (kind, key) DO UPDATE SET
        due_at = coalesce(jobs.due_at, excluded.due_at), parked_at = NULL, failures = 0
"""


def owe_unfinished(tx: Tx, app: str, opened_by: OpenedBy) -> None:
    """Makes the job of each session with unfinished work due, also one that somebody deleted or that was parked."""
    tx.run(_MISSING, kind=run_kind(app, opened_by), app=app, opened_by=opened_by, now=tx.now())


def find_run(tx: Tx, job: JobKey) -> tuple[SessionId, list[Call]] | None:
    """The session that a job is for, and its calls that were unknown for too long. None if the session was deleted, or
    is another app's."""
    key = int(job.key)
    row = tx.first("SELECT app, user_id, id, opened_by FROM runtime_sessions WHERE key = :key", key=key)
    if row is None or run_kind(row.app, row.opened_by) != job.kind:
        return None
    unknown = tx.all(_UNKNOWN, key=key, until=tx.now() - LONGEST_UNKNOWN)
    given_up = [] if row.opened_by == "desk" else _calls(tx, unknown, as_void=True)
    return SessionId(row.app, row.user_id, row.id), given_up


@dataclass(frozen=True)
class Writer:
    """Who wants to write: a desk (the bot) or another, who with `shares_state` may write `app:` state beside a desk."""

    desk: bool = False
    shares_state: bool = False

    @property
    def opens(self) -> OpenedBy:
        """The `opened_by` of the sessions that it creates."""
        return "desk" if self.desk else "anyone"


ANYBODY = Writer()


def open_desk(tx: Tx, app: str, prefix: str) -> None:
    """Reserves names that begin with `prefix` for the desk."""
    if noted(tx, _desk(app)) != prefix:
        note(tx, {_desk(app): prefix})


def check_sender(
    tx: Tx, sender: Writer, name: SessionId, session: StoredSession | None = None, keys: Iterable[str] = ()
) -> None:
    """Raises `Forbidden` for what only the desk may write. `session` is the existing session of that name, `keys` are
    those of the state that would be written."""
    if not sender.desk:
        check_against(noted(tx, _desk(name.app)), sender, name, session, keys)


def check_against(
    prefix: str | None, sender: Writer, name: SessionId, session: StoredSession | None, keys: Iterable[str] = ()
) -> None:
    """Like `check_sender`, for a caller that has read the prefix of the desk's names."""
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


def _desk(app: str) -> str:
    """The name under which a store notes the prefix of the names that are the desk's."""
    return f"desk {app}"


OnChange = Callable[[Tx, SessionId, Call | None, Call], Call]
"""Called in the transaction that stores a gated call, for each beginning and each new state: with the call as it was
stored before, and as it is to be stored. Returns the call to store: a changed one if the call must not begin, or may
begin without asking once more."""


def topic(name: SessionId) -> str:
    """The topic that is notified when a session's lease is released."""
    return f"runtime:session:{name.app}/{name.user_id}/{name.id}"


def run_kind(app: str, opened_by: OpenedBy) -> str:
    """The kind of the jobs of an app's runs. Only the desk resumes the runs of sessions that it opened."""
    return f"{opened_by}:{app}"


def run_of(session: StoredSession) -> JobKey:
    """The job whose lease says who works on the session. It is due while there is unfinished work."""
    return JobKey(run_kind(session.name.app, session.opened_by), str(session.key))


# Looking


def find(tx: Tx, name: SessionId) -> StoredSession | None:
    row = tx.first(_FIND, app=name.app, user_id=name.user_id, id=name.id)
    return None if row is None else as_stored(tx, row)


def list_sessions(tx: Tx, app: str, user_id: str) -> list[StoredSession]:
    found = "SELECT * FROM runtime_sessions WHERE app = :app AND user_id = :user_id ORDER BY key"
    return [as_stored(tx, row) for row in tx.all(found, app=app, user_id=user_id)]


_FIND = "SELECT * FROM runtime_sessions WHERE app = :app AND user_id = :user_id AND id = :id"
_LOCK = """
    SELECT *, (SELECT value FROM adk_confirm_store WHERE name = :desk) AS reserved
    FROM runtime_sessions WHERE app = :app AND user_id = :user_id AND id = :id FOR UPDATE
"""


def _lock(tx: Tx, name: SessionId) -> Any:
    return tx.first(_LOCK, app=name.app, user_id=name.user_id, id=name.id, desk=_desk(name.app))


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
    stored = find(tx, name)
    assert stored is not None  # this transaction has created, and so locked, it
    return add(tx, stored, history) if history.any else stored


def take_over_session(tx: Tx, session: StoredSession) -> None:
    """Makes the desk the only writer of a session that others made."""
    _drop_job(tx, session)
    tx.run("UPDATE runtime_sessions SET opened_by = 'desk' WHERE key = :key", key=session.key)


def set_aside(tx: Tx, session: StoredSession) -> None:
    """Renames a session. It keeps its content."""
    name = f"{session.name.id[:200]}~{session.key}"
    tx.run("UPDATE runtime_sessions SET id = :id WHERE key = :key", key=session.key, id=name)


def delete_session(tx: Tx, name: SessionId, sender: Writer) -> bool:
    row = _lock(tx, name)
    if row is None:
        return False
    session = as_stored(tx, row)
    check_against(row.reserved, sender, name, session)
    if not is_free(tx, session):
        raise Conflict(f"Session {name.id} is at work; delete it when its run has ended.")
    tx.run("DELETE FROM runtime_events WHERE session = :key", key=row.key)
    tx.run("DELETE FROM runtime_calls WHERE session = :key", key=row.key)
    tx.run("DELETE FROM runtime_requests WHERE session = :key", key=row.key)
    tx.run("DELETE FROM runtime_invocations WHERE session = :key", key=row.key)
    tx.run("DELETE FROM runtime_sessions WHERE key = :key", key=row.key)
    _drop_job(tx, session)
    return True


def _drop_job(tx: Tx, session: StoredSession) -> None:
    tx.run("DELETE FROM jobs WHERE kind = :kind AND key = :key", **run_of(session)._asdict())


# Working on one


@dataclass(frozen=True)
class LockedSession:
    """A session whose row this transaction has locked: until the commit, nobody else can lease it or write to it."""

    session: StoredSession
    reserved: str | None  # the prefix of names that only the app's desk may use


def lock(tx: Tx, name: SessionId) -> LockedSession | None:
    """Locks a session. Returns None if there is no such session."""
    row = _lock(tx, name)
    if row is None:
        return None
    return LockedSession(as_stored(tx, row), row.reserved)


def is_free(tx: Tx, session: StoredSession) -> bool:
    """Whether nobody works on a session that this transaction has locked."""
    held = "SELECT lease_until FROM jobs WHERE kind = :kind AND key = :key FOR UPDATE"
    until = tx.value(held, **run_of(session)._asdict())
    return until is None or until <= tx.now()


def give_back(tx: Tx, session: StoredSession, token: str) -> None:
    lease.release(tx, run_of(session), token, topic=topic(session.name))


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


_END = """
    UPDATE jobs SET
        due_at = (SELECT min(since) + :longest FROM runtime_calls WHERE session = :session AND state = 'unknown'),
        owed_since = NULL, failures = 0, trouble = NULL, parked_at = NULL, lease_token = NULL, lease_until = NULL
    WHERE kind = :kind AND key = :key AND lease_token = :token
"""


def write(
    tx: Tx,
    session: StoredSession,
    held: Lease,
    change: SessionChange,
    rows: Rows,
    on_change: OnChange | None = None,
) -> StoredSession:
    """Adds to a session under its lease, and returns the session as it is now. If a call begins, the lease is extended,
    so that nobody else begins it too. A write that was stored, but whose outcome was lost, is not repeated."""
    try:
        after = add(tx, session, change, on_change, rows)
    except LeaseLost:
        after = session.after(change)
        if _was_written(tx, after, held, change):
            return after
        raise
    term = held.term if any(call.state is CallState.RUNNING for call in change.calls.values()) else 0.0
    if not (_end(tx, session, held) if change.release else holds(tx, held.job, held.token, term=term)):
        raise LeaseLost
    return after


def _end(tx: Tx, session: StoredSession, held: Lease) -> bool:
    """Releases the session, which is due again only if the outcome of a call is unknown."""
    longest = LONGEST_UNKNOWN if session.opened_by != "desk" else None
    tx.notify(topic(session.name))
    return tx.run(_END, **held.job._asdict(), token=held.token, session=session.key, longest=longest) == 1


def add(
    tx: Tx, session: StoredSession, change: SessionChange, on_change: OnChange | None = None, rows: Rows | None = None
) -> StoredSession:
    """Adds to a session that this transaction has leased, and returns the session as it is now. `rows`: those of the
    change, if they are made already."""
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
    """Calls `on_change` for each gated call that begins or changes its state. Returns the calls that it replaced."""
    refused: dict[str, Call] = {}
    for call in change.calls.values():
        before = None if call.gate is GateKind.NONE else find_call(tx, session.key, call.id)
        same = before is not None and before.state is call.state is not CallState.RUNNING
        if call.gate is not GateKind.NONE and not same:
            stored = on_change(tx, session.name, before, call)
            refused |= {} if stored is call else {call.id: stored}
    return refused


def _was_written(tx: Tx, after: StoredSession, held: Lease, change: SessionChange) -> bool:
    """Whether the session's last write was this one, and not somebody else's with the same version."""
    found = tx.first(
        """
        SELECT j.lease_token FROM runtime_sessions s JOIN jobs j ON j.kind = :job_kind AND j.key = :job_key
        WHERE s.key = :key AND s.version = :version AND s.events = :events
        """,
        job_kind=held.job.kind,
        job_key=held.job.key,
        key=after.key,
        version=after.version,
        events=after.events,
    )
    return found is not None and (found.lease_token == held.token or (change.release and found.lease_token is None))


def update_state(tx: Tx, name: SessionId, event: Event, sender: Writer) -> StoredSession | None:
    """Appends an event that only changes the state. None while somebody works on the session."""
    locked = lock(tx, name)
    if locked is None:
        check_sender(tx, sender, name, None, event.actions.state_delta)
        raise NotFound(f"Session not found: {name.id}")
    check_against(locked.reserved, sender, name, locked.session, event.actions.state_delta)
    if not is_free(tx, locked.session):
        return None
    change = SessionChange()
    change.add(event)
    return add(tx, locked.session, change)
