"""Reads sessions from the store: events, calls, requests, invocations, and unfinished work."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from adk_confirm.runtime.calls.call import Call, void
from adk_confirm.runtime.calls.view import ViewEvent
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.records import CALL, Invocation, InvocationStatus, SessionId, call_key, is_storable_id
from adk_confirm.runtime.store.seal import seal_in
from adk_confirm.runtime.wire import Event

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


def read_view_events(tx: Tx, key: int, after: int) -> list[ViewEvent]:
    """The same for a model's view."""
    return [ViewEvent.model_validate_json(body) for body in tx.column(_EVENTS, key=key, after=after)]


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
    """Whether any of these invocations has unfinished work. Without ids, whether the session has any."""
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
          AND (lease_until IS NULL OR lease_until <= :now)
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
