"""Checks the shapes of Slack's payloads, as far as this app and Bolt rely on them. Pure.

Without this check Bolt would answer 500 to a signed body of another shape, and Slack would send it again. Here it gets
a 400 that says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError

from runtime.jsontypes import JsonObject

Id = Annotated[str, StringConstraints(max_length=64, pattern=r"^[!-~]+$")]
"""Also timestamps and the like: what goes into columns, and is compared."""

MaybeId = Annotated[str, StringConstraints(max_length=64, pattern=r"^[!-~]*$")] | None


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, defer_build=True)  # built with the first request, and not at the start


class _Named(_Part):
    id: Id


class _Maybe(_Part):
    id: MaybeId = None


class _User(_Named):
    team_id: MaybeId = None


class _Where(_Part):
    channel_id: MaybeId = None
    message_ts: MaybeId = None
    thread_ts: MaybeId = None


class _Message(_Part):
    ts: MaybeId = None
    thread_ts: MaybeId = None


class _Action(_Part):
    action_id: Annotated[str, Field(max_length=255)]
    action_ts: MaybeId = None
    value: Annotated[str, Field(max_length=2000)] | None = None


class _State(_Part):
    values: dict[str, dict[str, JsonObject]]


class _View(_Part):
    id: Id
    type: Id
    callback_id: str = ""
    hash: str = ""
    private_metadata: str = ""
    app_installed_team_id: MaybeId = None


class _Interaction(_Part):
    type: Id
    user: _User
    view: _View | None = None
    team: _Maybe | None = None
    enterprise: _Maybe | None = None
    channel: _Maybe | None = None
    container: _Where | None = None
    message: _Message | None = None
    trigger_id: Annotated[str, Field(max_length=255)]
    response_url: str | None = None
    response_urls: list[JsonObject] = []
    is_enterprise_install: JsonValue = None


class _Click(_Interaction):
    actions: Annotated[list[_Action], Field(min_length=1)]


class _Filled(_View):
    state: _State


class _Submitted(_Interaction):
    view: _Filled


class _Authorization(_Part):
    team_id: MaybeId = None
    enterprise_id: MaybeId = None
    user_id: MaybeId = None


class _Event(_Part):
    type: Id
    subtype: MaybeId = None
    user: MaybeId | JsonObject = None
    channel: MaybeId | JsonObject = None
    ts: MaybeId = None
    thread_ts: MaybeId = None
    text: str | None = None


class _Events(_Part):
    team_id: MaybeId = None
    enterprise_id: MaybeId = None
    event: _Event
    authorizations: list[_Authorization] | None = None


_SHAPES: Mapping[str, type[_Part]] = {
    "event_callback": _Events,
    "block_actions": _Click,
    "view_submission": _Submitted,
}


def shape_problem(body: JsonObject) -> str | None:
    """What is wrong with the body, if anything is. Kinds that this app does not handle are left to Bolt.

    >>> shape_problem({"type": "block_actions", "user": {"id": "U0ANN"}, "trigger_id": "1.2", "actions": []})
    'The body has not the shape of a block_actions: actions: List should have at least 1 item after validation, not 0.'
    """
    kind = body.get("type")
    shape = _SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        return None
    try:
        shape.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"The body has not the shape of a {kind}: {where}: {first['msg']}."
    return None
