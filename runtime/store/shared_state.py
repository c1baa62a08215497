"""State that outlives a session: a user's (`user:`) and an app's (`app:`), each in one row with its own lock."""

from __future__ import annotations

from pydantic_core import from_json

from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.wire import json_text

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
