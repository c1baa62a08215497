"""The request bodies of ADK's API. A body that is refused here changed nothing.

A field that does not fit gives a 422 that names it, as FastAPI does. JSON is read strictly (`read_json`).
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, TypeVar

from aiohttp import web
from pydantic import ValidationError

from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject, NotJson, is_larger, read_json
from adk_confirm.runtime.rest.listening import body_of
from adk_confirm.runtime.wire import LONGEST_ID, REQUEST_NAMES, Content, Event, EventActions, WireModel

DEEPEST = 64
MOST_VALUES = 100_000
"""The most values in a body. A megabyte can hold half a million, and each becomes an object here."""

_LONGEST_ECHO = 200


class BadBody(Invalid):
    """The request does not fit; `details` lists where and why, in FastAPI's form."""

    def __init__(self, *details: JsonObject) -> None:
        super().__init__("; ".join(f"{_dotted_path(detail['loc'])}: {detail['msg']}" for detail in details))
        self.details: list[Json] = [*details]


def detail(kind: str, loc: tuple[str | int, ...], message: str, value: object = None) -> JsonObject:
    """One entry of a `BadBody`."""
    return {"type": kind, "loc": list(loc), "msg": message, "input": _echo(value)}


def parse(text: str) -> Json:
    """The value. Raises `BadBody`."""
    try:
        value = read_json(text, DEEPEST)
    except NotJson as error:
        if error.problem != "broken":
            raise BadBody(detail("json_invalid", ("body",), f"JSON decode error: {error}")) from error
        wrong = detail("json_invalid", ("body", len(text) - len(error.about)), "JSON decode error", {})
        raise BadBody({**wrong, "ctx": {"error": str(error)}}) from error
    if is_larger(value, MOST_VALUES):
        raise BadBody(detail("too_long", ("body",), f"The body has more than {MOST_VALUES:,} values"))
    return value


def _echo(value: object) -> Json:
    """The value that was sent, shortened for the error."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return None
    echoed: Json = json.loads(text) if len(text) <= _LONGEST_ECHO else f"{text[:_LONGEST_ECHO]}…"
    return echoed


def _dotted_path(loc: Json) -> str:
    return ".".join(str(step) for step in loc) if isinstance(loc, list) else str(loc)


MOST_BYTES = 1 << 20
MOST_LISTED = 100

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

Body = TypeVar("Body", bound=WireModel)


class CreateSessionRequest(WireModel):
    session_id: str | None = None
    state: JsonObject | None = None
    events: list[Event] | None = None


class UpdateSessionRequest(WireModel):
    state_delta: JsonObject


class RunAgentRequest(WireModel):
    """The body of `/run` and `/run_sse`. What ADK's own page sends beyond this (`functionCallEventId`) is ignored."""

    app_name: str | None = None
    user_id: str
    session_id: str
    new_message: Content | None = None
    streaming: bool = False
    state_delta: JsonObject | None = None
    custom_metadata: JsonObject | None = None
    invocation_id: str | None = None


class SettleCallRequest(WireModel):
    word: Literal["it happened", "it did not", "run again"]
    attempt: int | None = None  # the attempt that it is about, so that a late answer does not affect the next one


async def read_body(request: web.Request, model: type[Body]) -> Body:
    """The body, or `BadBody`."""
    found = await read_optional(request, model)
    if found is None:
        raise BadBody(detail("missing", ("body",), "Field required"))
    return found


async def read_optional(request: web.Request, model: type[Body]) -> Body | None:
    """Like `read_body`, for a body that may be missing."""
    text = await _text(request)
    if text is None:
        return None
    raw = parse(text)
    if raw is None:
        return None
    try:
        body = model.model_validate_json(text)
    except ValidationError as error:
        raise BadBody(*_list_errors(error)) from error
    _check_names(raw)
    return body


async def read_object(request: web.Request) -> JsonObject:
    """A body that is a free-form object. A missing body is read as an empty object."""
    text = await _text(request)
    value = None if text is None else parse(text)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadBody(detail("dict_type", ("body",), "Input should be a valid dictionary", value))
    return value


def check_id(value: str, *where: str | int) -> str:
    """Checks an id that a client chose: short enough to be a key, without invisible characters."""
    if not value or len(value) > LONGEST_ID:
        message = f"String should have 1 to {LONGEST_ID} characters, not {len(value)}"
        raise BadBody(detail("string_length", where, message, value))
    if _CONTROL.search(value):
        raise BadBody(detail("string_pattern_mismatch", where, "String should have no control characters", value))
    return value


def check_message(message: Content) -> None:
    """Checks a message. The ids of its function responses are stored as keys, so they must be short and plain."""
    for number, part in enumerate(message.parts or ()):
        response = part.function_response
        if response is not None and response.id:
            check_id(response.id, "body", "newMessage", "parts", number, "functionResponse", "id")


def check_history(events: list[Event]) -> None:
    """Checks a session's initial history. It may contain messages from elsewhere, but nothing that only a run here can
    produce."""
    for number, event in enumerate(events):
        names = {*(asked.name for asked in event.calls()), *(given.name for given in event.responses())}
        if event.long_running_tool_ids:
            wrong = "long-running tool IDs"
        elif event.actions != EventActions():
            wrong = "event actions"
        elif names.intersection(REQUEST_NAMES):
            wrong = "ADK protocol function calls"
        else:
            continue
        raise Invalid(f"Session initialization event {number} cannot include {wrong}.")


async def _text(request: web.Request) -> str | None:
    body = await body_of(request) if request.can_read_body else b""
    if not body:
        return None
    kind = request.content_type
    if kind != "application/json" and not kind.endswith("+json"):
        message = "The body was not read: send it as JSON, with the header Content-Type: application/json"
        raise BadBody(detail("json_type", ("body",), message))
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        message = f"The body is not UTF-8: byte {error.start} makes no character"
        raise BadBody(detail("json_invalid", ("body", error.start), message)) from error


def _check_names(raw: Any) -> None:
    """Refuses unknown names in messages, as genai's own types do: a mistake would otherwise go unnoticed. Elsewhere
    they are ignored, since ADK's own page sends some."""
    sent: list[tuple[tuple[str | int, ...], Json]] = [
        *(((name,), raw[name]) for name in ("newMessage", "new_message") if raw.get(name)),
        *(
            (("events", number, "content"), event.get("content"))
            for number, event in enumerate(raw.get("events") or ())
        ),
    ]
    for where, content in sent:
        try:
            Content.model_validate_json(json.dumps(content or {}), extra="forbid")
        except ValidationError as error:
            raise BadBody(*_list_errors(error, where)) from error


def _list_errors(error: ValidationError, where: tuple[str | int, ...] = ()) -> list[JsonObject]:
    if error.error_count() > MOST_LISTED:
        message = f"The body does not fit in {error.error_count():,} places: more than {MOST_LISTED} are not listed"
        return [detail("too_many_errors", ("body",), message)]
    found = error.errors(include_url=False, include_context=False)
    return [detail(one["type"], ("body", *where, *one["loc"]), one["msg"], one["input"]) for one in found]
