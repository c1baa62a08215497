"""Data classes for a session as it is stored and for what one transaction adds to it, and state that sessions share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from pydantic import TypeAdapter
from pydantic_core import from_json

from adk_confirm.runtime.calls.call import Call, CallState
from adk_confirm.runtime.jsontypes import DEEPEST, Json, JsonObject
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.runtime.wire import Event, SessionId, json_text

_APP = ""  # the user id of the app's own row


def split_state(delta: JsonObject) -> tuple[JsonObject, JsonObject, JsonObject]:
    """A delta's parts: the session's own, the user's, the app's. `temp:` lives only as long as the run."""
    own, user, app = {}, {}, {}
    for key, value in delta.items():
        if key.startswith("user:"):
            user[key] = value
        elif key.startswith("app:"):
            app[key] = value
        elif not key.startswith("temp:"):
            own[key] = value
    return own, user, app


def split_temporary(delta: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Splits off the part of the state that exists only during the run."""
    temporary = {key: value for key, value in delta.items() if key.startswith("temp:")}
    return {key: value for key, value in delta.items() if key not in temporary}, temporary


def read_shared(tx: Tx, app: str, user_id: str) -> JsonObject:
    shared: JsonObject = {}
    for state in tx.column(
        "SELECT state FROM runtime_shared_state WHERE app = :app AND user_id IN (:user_id, '')",
        app=app,
        user_id=user_id,
    ):
        shared.update(from_json(state))
    return shared


def merge_shared(tx: Tx, app: str, user_id: str, user: JsonObject, whole_app: JsonObject) -> None:
    """Merges changes under the row's lock, since other sessions of the user write to it too. The user's row is always
    locked first."""
    for owner, delta in ((user_id, user), (_APP, whole_app)):
        if not delta:
            continue
        here = {"app": app, "user_id": owner}
        # A row that is not there yet cannot be locked.
        tx.insert("runtime_shared_state", {**here, "state": "{}"}, if_absent=True)
        before = tx.value(
            "SELECT state FROM runtime_shared_state WHERE app = :app AND user_id = :user_id FOR UPDATE", **here
        )
        tx.run(
            "UPDATE runtime_shared_state SET state = :state WHERE app = :app AND user_id = :user_id",
            **here,
            state=json_text({**from_json(before), **delta}),
        )


CALL: TypeAdapter[Call] = TypeAdapter(Call)

OpenedBy = Literal["anyone", "desk"]
Rows = dict[str, list[dict[str, object]]]


def call_key(session: SessionId, opened_by: OpenedBy, call_id: str) -> Json:
    """What the seal of a stored call says about which call it is, and whether only a desk may answer it."""
    return [session.app, session.user_id, session.id, opened_by, call_id]


class InvocationStatus(StrEnum):
    ACTIVE = "active"  # there is unfinished work; if nobody holds the lease, its process died
    WAITING = "waiting"  # waits for people
    ENDED = "ended"


@dataclass(frozen=True)
class Invocation:
    id: str
    agent: str
    turn: int
    status: InvocationStatus


@dataclass(frozen=True)
class StoredSession:
    """A session's row."""

    key: int
    name: SessionId
    opened_by: OpenedBy
    state: JsonObject
    shared: JsonObject
    agent: str
    events: int
    turn: int
    version: int
    created: float
    updated: float

    def after(self, change: SessionChange) -> StoredSession:
        own, user, app = change.state()
        return replace(
            self,
            state={**self.state, **own} if own else self.state,
            shared={**self.shared, **user, **app} if user or app else self.shared,
            agent=change.agent or self.agent,
            events=self.events + len(change.events),
            turn=self.turn if change.turn is None else change.turn,
            version=self.version + 1,
            updated=max([self.updated, *(event.timestamp for event in change.events)]),
        )


@dataclass
class SessionChange:
    """What one transaction adds to a session."""

    events: list[Event] = field(default_factory=list)
    calls: dict[str, Call] = field(default_factory=dict)
    invocations: dict[str, Invocation] = field(default_factory=dict)
    agent: str | None = None
    turn: int | None = None
    release: bool = False
    _bodies: list[str] = field(default_factory=list)

    @property
    def any(self) -> bool:
        return bool(self.events or self.calls or self.invocations)

    @property
    def size(self) -> int:
        return sum(map(len, self._bodies))

    def add(self, event: Event) -> int:
        """Adds an event, and returns its size. Raises `ValueError` at once, and adds nothing, if the event could not be
        written or read again."""
        body = event.to_json()
        if body.count("[") + body.count("{") > DEEPEST:
            Event.model_validate_json(body)
        self._bodies.append(body)
        self.events.append(event)
        return len(body)

    def put(self, item: Call | Invocation) -> None:
        """Adds the state of a call or an invocation. Only the latest state is written."""
        if isinstance(item, Call):
            self.calls[item.id] = item
        else:
            self.invocations[item.id] = item

    def state(self) -> tuple[JsonObject, JsonObject, JsonObject]:
        return split_state({k: v for event in self.events for k, v in event.actions.state_delta.items()})

    def rows(self, session: StoredSession, seal: Seal | None) -> Rows:
        """The rows to write. They are made before the transaction, so that the only writer does not wait for that."""
        key, first, calls = session.key, session.events, list(self.calls.values())
        bodies = {call.id: CALL.dump_json(call).decode() for call in calls}
        return {
            "events": [{"session": key, "seq": first + n, "body": body} for n, body in enumerate(self._bodies)],
            "calls": [
                {
                    "session": key,
                    "id": call.id,
                    "turn": call.turn,
                    "state": call.state.value,
                    "since": call.since,
                    "body": bodies[call.id],
                    "sealed": seal.of("call", call_key(session.name, session.opened_by, call.id), bodies[call.id])
                    if seal
                    else "",
                }
                for call in calls
            ],
            "requests": [
                {"session": key, "id": call.request.request_id, "call": call.id}
                for call in calls
                if call.request and call.state is CallState.HELD
            ],
            "invocations": [
                {"session": key, "id": i.id, "agent": i.agent, "turn": i.turn, "status": i.status.value}
                for i in self.invocations.values()
            ],
        }
