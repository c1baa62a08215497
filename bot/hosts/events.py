"""Reads one event of a session on another server. Pure.

ADKs write events differently. Names are in camel or snake case, absent values are null or left out, and the time is in
seconds (Python), milliseconds (Java, JavaScript), whole seconds as `time` (Go), text, or missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from bot.hosts.host import AgentMessage, MessageDelta, RunOutput
from runtime.errors import Invalid
from runtime.jsontypes import Json, JsonObject, as_object, as_text
from runtime.wire import USER, Event

_READ = (
    "content",
    "author",
    "partial",
    "id",
    "invocationId",
    "errorCode",
    "errorMessage",
    "customMetadata",
)

ABORTED = "INVOCATION_ABORTED"
"""The error code of the events with which google-adk 2.11 and later close a run whose reader hung up. They answer every
open call of the run, also requests that people can still answer, and so they say nothing about any of them."""

_LATEST = 1e11
"""A larger number of seconds is not plausible: it is in milliseconds."""

NO_TIME = 0.0


def event_from(raw: JsonObject, index: int = 0) -> Event:
    """Reads the parts of an event that the bot needs. Extra keys, nulls and unusual times are accepted."""
    kept = {key: raw[name] for key in _READ for name in (key, _snake(key)) if raw.get(name) is not None}
    if not kept.get("id"):
        kept["id"] = f"{kept.get('invocationId', '')}:{index}"
    kept["branch"] = branch if isinstance(branch := raw.get("branch"), str) else None
    ids = raw.get("longRunningToolIds", raw.get("long_running_tool_ids"))
    kept["longRunningToolIds"] = [one for one in ids if isinstance(one, str)] if isinstance(ids, list) else None
    try:
        return Event.model_validate({**kept, "timestamp": _time(raw)})
    except ValidationError as error:
        where = ".".join(str(step) for step in error.errors(include_url=False)[0]["loc"])
        raise Invalid(f"The agent's server sent an event that can't be read (at {where}); it is left out.") from error


def time_of(event: Event) -> float | None:
    """When the event happened, in seconds. None if the server does not say."""
    return None if event.timestamp == NO_TIME else event.timestamp


def message_in(event: Event) -> AgentMessage | None:
    """The agent's message in an event, or the error of its model."""
    if event.author == USER or event.error_code == ABORTED:
        return None
    failed = bool(event.error_code or event.error_message) and not event.text.strip()
    text = (event.error_message or event.error_code or "") if failed else event.text
    if not text.strip():
        return None
    return AgentMessage(
        event=told_as(event.id), author=event.author, text=text, invocation_id=event.invocation_id, failed=failed
    )


def told_as(event_id: str) -> str:
    """The key of an event's message in the thread: apart from those of the bot's own sentences, such as `held:…`."""
    return f"event:{event_id}"


@dataclass(frozen=True)
class NodeOutput:
    """The result of a workflow's node, or of the workflow. `path`: the node's place in the workflow. `nothing`: an
    event without content, with which a node ends that returns nothing."""

    path: str
    value: Json
    whole: bool = False
    nothing: bool = False


def node_output(raw: JsonObject) -> NodeOutput | None:
    """The output in an event of google-adk 2. An event that repeats what came before a pause names no receiver."""
    node, value, path = _node(raw), raw.get("output"), node_path(raw)
    for_whom = node.get("outputFor", node.get("output_for"))
    if not path:
        return None
    if (code := raw.get("errorCode", raw.get("error_code"))) is not None:
        why = raw.get("errorMessage", raw.get("error_message"))
        return NodeOutput(path, {"error": f"{code}: {why}" if why else str(code)})
    if value is None:
        return NodeOutput(path, {"result": None}, nothing=True) if _is_empty(raw) else None
    if not isinstance(for_whom, list):
        return None
    return NodeOutput(path, value, any(isinstance(one, str) and "/" not in one for one in for_whom))


def _is_empty(raw: JsonObject) -> bool:
    actions = raw.get("actions")
    acted = [value for value in actions.values() if value] if isinstance(actions, dict) else []
    return not acted and raw.get("content") is None and not raw.get("partial")


def node_path(raw: JsonObject) -> str:
    """The place in a workflow that an event comes from, such as `flow@1/ask@1`. Empty elsewhere."""
    path = _node(raw).get("path")
    return as_text(path)


def _node(raw: JsonObject) -> JsonObject:
    node = raw.get("nodeInfo", raw.get("node_info"))
    return as_object(node)


def unread(raw: JsonObject, index: int, error: Invalid) -> AgentMessage:
    """A sentence that replaces an event that can't be read."""
    event, author = as_text(raw.get("id")), raw.get("author")
    invocation = raw.get("invocationId")
    return AgentMessage(
        event=told_as(event) if event else f"unread:{index}",
        author=as_text(author),
        text=str(error),
        invocation_id=as_text(invocation),
        failed=True,
    )


def asks_in_response(raw: JsonObject) -> frozenset[str]:
    """The calls whose tools asked for a confirmation when they returned."""
    actions = raw.get("actions")
    asked = (
        actions.get("requestedToolConfirmations", actions.get("requested_tool_confirmations"))
        if isinstance(actions, dict)
        else None
    )
    return frozenset(asked) if isinstance(asked, dict) else frozenset()


def _time(raw: JsonObject) -> float:
    time = raw.get("timestamp")
    at = _seconds(time if time is not None else raw.get("time"))
    at = at / 1000 if at > _LATEST else at
    return at if NO_TIME < at <= _LATEST else NO_TIME


def _seconds(time: Json) -> float:
    try:
        if isinstance(time, str):
            return datetime.fromisoformat(time).timestamp()
        return float(time) if isinstance(time, int | float) else NO_TIME
    except (ValueError, OverflowError):
        return NO_TIME


def _snake(camel: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in camel)


def run_output(event: Event, said: AgentMessage | None) -> Iterator[RunOutput]:
    """What a host yields for one event of a run. `said`: the message in it, if it is complete."""
    if said is not None and not event.partial:
        yield said
    elif event.partial and event.text:
        yield MessageDelta(author=event.author, text=event.text, invocation_id=event.invocation_id)
