"""Reads sessions from the store: events, calls, requests, invocations, and unfinished work."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from sqlalchemy import BindParameter, ColumnElement, bindparam, func, literal_column, select

from runtime.calls.call import Call, CallState, void
from runtime.calls.view import ViewEvent
from runtime.store.database import Tx
from runtime.store.prepared import Prepared
from runtime.store.records import CALL, Invocation, InvocationStatus, SessionId, call_key, is_storable_id
from runtime.store.seal import seal_in
from runtime.store.tables import calls, events, invocations, requests, sessions
from runtime.wire import Event

AT_ONCE = 100
"""How many sessions or calls one look returns at most."""

_KEY: BindParameter[int] = bindparam("key_")
_ID: BindParameter[str] = bindparam("id_")
_EVENTS = Prepared(
    select(events.c.body).where(events.c.session == _KEY, events.c.seq >= bindparam("after_")).order_by(events.c.seq)
)
_STORED = select(
    sessions.c.app, sessions.c.user_id, sessions.c.id.label("name"), calls.c.id, calls.c.body, calls.c.sealed
).join_from(sessions, calls, calls.c.session == sessions.c.key)
_IN_SESSION = _STORED.where(sessions.c.key == _KEY)
_TURN = Prepared(_IN_SESSION.where(calls.c.turn == bindparam("turn_")))
_CALLS = Prepared(_IN_SESSION)
_CALL = Prepared(_IN_SESSION.where(calls.c.id == _ID))
_ABOUT = (requests.c.session == calls.c.session) & (requests.c.call == calls.c.id)
_ASKED = Prepared(_IN_SESSION.join(requests, _ABOUT).where(requests.c.id == _ID))
_INVOCATION = Prepared(select(invocations).where(invocations.c.session == _KEY, invocations.c.id == _ID))
_ACTIVE = Prepared(
    select(invocations)
    .where(invocations.c.session == _KEY, invocations.c.status == literal_column(f"'{InvocationStatus.ACTIVE.value}'"))
    .order_by(invocations.c.turn)
)


def read_events(tx: Tx, key: int, after: int = 0) -> list[Event]:
    """The events after number `after`, oldest first."""
    rows = _EVENTS.all(tx, key_=key, after_=after)
    return [Event.model_validate_json(row.body) for row in rows]


def read_view_events(tx: Tx, key: int, after: int) -> list[ViewEvent]:
    """The same for a model's view."""
    rows = _EVENTS.all(tx, key_=key, after_=after)
    return [ViewEvent.model_validate_json(row.body) for row in rows]


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
    return _calls(tx, _TURN.all(tx, key_=key, turn_=turn), as_void=True)


def read_call(tx: Tx, key: int, call_id: str) -> Call | None:
    """A call, to answer it. Void if somebody changed it."""
    row = _CALL.first(tx, key_=key, id_=call_id) if is_storable_id(call_id) else None
    return None if row is None else _call(tx, row, as_void=True)


def find_call(tx: Tx, key: int, call_id: str) -> Call | None:
    """The call as it is stored. None if it is new, or if somebody changed it."""
    row = _CALL.first(tx, key_=key, id_=call_id)
    return None if row is None else _call(tx, row, as_void=False)


def read_calls(tx: Tx, key: int) -> list[Call]:
    """The calls in the order in which they were made."""
    return _calls(tx, _CALLS.all(tx, key_=key))


def known_calls(tx: Tx, key: int, ids: Collection[str]) -> set[str]:
    """Those of the ids that a call or a request already has."""
    asked = [call_id for call_id in ids if is_storable_id(call_id)]
    found = [
        tx.execute(select(table.c.id).where(table.c.session == key, table.c.id.in_(asked))).scalars()
        for table in (calls, requests)
    ]
    return {call_id for ids in found for call_id in ids}


def call_asked_by(tx: Tx, key: int, request_id: str) -> Call | None:
    """The call that a request is about. Also accepts a call's own id."""
    if not is_storable_id(request_id):
        return None
    asked = _ASKED.first(tx, key_=key, id_=request_id)
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
    row = _INVOCATION.first(tx, key_=key, id_=invocation_id)
    return None if row is None else Invocation(row.id, row.agent, row.turn, InvocationStatus(row.status))


def active_invocations(tx: Tx, key: int) -> list[Invocation]:
    rows = _ACTIVE.all(tx, key_=key)
    return [Invocation(row.id, row.agent, row.turn, InvocationStatus(row.status)) for row in rows]


def active(tx: Tx, name: SessionId, ids: Collection[str] | None = None) -> bool:
    """Whether any of these invocations has unfinished work. Without ids, whether the session has any."""
    found = (
        select(func.count())
        .select_from(invocations.join(sessions, invocations.c.session == sessions.c.key))
        .where(
            sessions.c.app == name.app,
            sessions.c.user_id == name.user_id,
            sessions.c.id == name.id,
            invocations.c.status == InvocationStatus.ACTIVE.value,
        )
    )
    return tx.execute(found if ids is None else found.where(invocations.c.id.in_(ids))).scalar_one() > 0


def find_abandoned(tx: Tx, apps: Collection[str], *, desk: bool = False) -> list[SessionId]:
    """Sessions with unfinished work on which nobody works: their process died. The order is random, so that sessions
    that fail again and again do not block others. The desk resumes its own sessions, other services resume theirs."""
    owing = select(invocations.c.session).where(invocations.c.status == InvocationStatus.ACTIVE.value)
    found = (
        select(sessions.c.app, sessions.c.user_id, sessions.c.id)
        .where(
            sessions.c.key.in_(owing),
            sessions.c.app.in_(apps),
            _belongs_to(desk),
            func.coalesce(sessions.c.lease_until, 0.0) <= tx.now(),
        )
        .order_by(func.random())
        .limit(AT_ONCE)
    )
    return [SessionId(row.app, row.user_id, row.id) for row in tx.execute(found)]


def _belongs_to(desk: bool) -> ColumnElement[bool]:
    return sessions.c.opened_by == "desk" if desk else sessions.c.opened_by != "desk"


def find_unknown_since(
    tx: Tx, apps: Collection[str], age: float, *, desk: bool = False
) -> list[tuple[SessionId, str, int]]:
    """Calls that have been unknown for so long that the model gets that as their result, each with its attempt."""
    found = (
        _STORED.where(
            calls.c.state == CallState.UNKNOWN.value, calls.c.since <= tx.now() - age, sessions.c.app.in_(apps)
        )
        .where(_belongs_to(desk))
        .order_by(func.random())
        .limit(AT_ONCE)
    )
    unknown = [(SessionId(row.app, row.user_id, row.name), _call(tx, row, as_void=True)) for row in tx.execute(found)]
    return [(name, call.id, call.attempt) for name, call in unknown if call is not None]
