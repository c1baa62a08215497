"""State that outlives a session: a user's (`user:`) and an app's (`app:`), each in one row with its own lock."""

from __future__ import annotations

from pydantic_core import from_json
from sqlalchemy import bindparam, literal, select, update

from runtime.jsontypes import JsonObject
from runtime.store.database import Tx, for_update
from runtime.store.prepared import Prepared
from runtime.store.tables import shared_state
from runtime.store.upsert import insert_if_absent
from runtime.wire import json_text

_APP = ""  # the user id of the app's own row
_SHARED = Prepared(
    select(shared_state.c.state).where(
        shared_state.c.app == bindparam("app_"), shared_state.c.user_id.in_([bindparam("user_"), literal(_APP)])
    )
)


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
    for row in _SHARED.all(tx, app_=app, user_=user_id):
        shared.update(from_json(row.state))
    return shared


def merge_shared(tx: Tx, app: str, user_id: str, user: JsonObject, whole_app: JsonObject) -> None:
    """Merges changes under the row's lock, since other sessions of the user write to it too. The user's row is always
    locked first."""
    for owner, delta in ((user_id, user), (_APP, whole_app)):
        if not delta:
            continue
        here = (shared_state.c.app == app, shared_state.c.user_id == owner)
        # A row that is not there yet cannot be locked.
        tx.execute(insert_if_absent(tx.dialect, shared_state), {"app": app, "user_id": owner, "state": "{}"})
        before = tx.execute(for_update(select(shared_state.c.state).where(*here))).scalar_one()
        tx.execute(update(shared_state).where(*here).values(state=json_text({**from_json(before), **delta})))
