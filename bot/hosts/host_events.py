"""Reads one event of a session on another server. Pure.

ADKs write events differently. Names are in camel or snake case, absent values are null or left out, and the time is in
seconds (Python), milliseconds (Java, JavaScript), text, or missing (Go).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from adk_confirm.bot.hosts.host import AgentMessage, MessageDelta, RunOutput
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, texts
from adk_confirm.runtime.wire import USER, Event, WireModel

ABORTED = "INVOCATION_ABORTED"
"""The error code of the events with which google-adk 2.11 and later close a run whose reader hung up. They answer every
open call of the run, also requests that people can still answer, and so they say nothing about any of them."""

NO_TIME = 0.0

_LATEST = 1e11
"""A larger number of seconds is not plausible: it is in milliseconds."""

Text = Annotated[str, BeforeValidator(as_text)]
Object = Annotated[JsonObject, BeforeValidator(as_object)]


class HostActions(WireModel):
    model_config = ConfigDict(extra="allow")

    requested_tool_confirmations: Object = Field(default_factory=dict)
    requested_auth_configs: Object = Field(default_factory=dict)


class HostNode(WireModel):
    """The place in a workflow that an event comes from, such as `flow@1/ask@1`, and who gets its output. An event that
    repeats what came before a pause names no receiver."""

    path: Text = ""
    output_for: Annotated[list[str], BeforeValidator(texts)] = Field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the output is that of the whole workflow."""
        return any("/" not in one for one in self.output_for)


class HostEvent(Event):
    """An event as any ADK writes it. It leaves out what only other clients need, so that no mistake in
    there makes it unreadable."""

    actions: Annotated[HostActions, BeforeValidator(as_object)] = Field(default_factory=HostActions)  # type: ignore[assignment]  # what the bot reads of them
    node_info: Annotated[HostNode, BeforeValidator(as_object)] = Field(default_factory=HostNode)  # type: ignore[assignment]  # with the receivers
    output: Json = None
    branch: Annotated[str | None, BeforeValidator(lambda value: as_text(value) or None)] = None
    long_running_tool_ids: Annotated[list[str], BeforeValidator(texts)] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _what_is_there(cls, raw: dict[str, Any]) -> dict[str, Any]:
        given = {_FIELDS[name]: value for name, value in raw.items() if name in _FIELDS and value is not None}
        return {**given, "timestamp": _time(raw.get("timestamp"))}

    @property
    def at(self) -> float | None:
        """When it happened, in seconds. None if the server does not say."""
        return None if self.timestamp == NO_TIME else self.timestamp

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it. A node that returns nothing ends with such an event."""
        return self.content is None and self.output is None and not any(dict(self.actions).values())


_FIELDS = {
    spelled: name
    for name in (
        *("content", "author", "partial", "id", "invocation_id", "error_code", "error_message", "custom_metadata"),
        *("branch", "long_running_tool_ids", "actions", "node_info", "output"),
    )
    for spelled in (name, to_camel(name))
}


def event_from(raw: JsonObject, index: int = 0) -> HostEvent:
    """Reads an event. Raises `Invalid` if the parts that matter can't be understood."""
    try:
        event = HostEvent.model_validate(raw)
    except ValidationError as error:
        where = ".".join(str(step) for step in error.errors(include_url=False)[0]["loc"])
        raise Invalid(f"The agent's server sent an event that can't be read (at {where}); it is left out.") from error
    return event if raw.get("id") else event.model_copy(update={"id": f"{event.invocation_id}:{index}"})


def message_in(event: HostEvent) -> AgentMessage | None:
    """The agent's message in an event, or the error of its model."""
    if event.author == USER or event.error_code == ABORTED:
        return None
    failed = bool(event.error_code or event.error_message) and not event.text.strip()
    text = (event.error_message or event.error_code or "") if failed else event.text
    return said_in(event, text, failed=failed) if text.strip() else None


def said_in(event: HostEvent, text: str, *, failed: bool = False) -> AgentMessage:
    """What the event says, for the thread. Its key differs from those of the bot's own sentences, such as `held:…`."""
    key, invocation = f"event:{event.id}", event.invocation_id
    return AgentMessage(event=key, author=event.author, text=text, invocation_id=invocation, failed=failed)


def unread(raw: JsonObject, index: int, error: Invalid) -> AgentMessage:
    """A sentence that replaces an event that can't be read."""
    event, author, invocation = (as_text(raw.get(name)) for name in ("id", "author", "invocationId"))
    key = f"event:{event}" if event else f"unread:{index}"
    return AgentMessage(event=key, author=author, text=str(error), invocation_id=invocation, failed=True)


def _time(time: Json) -> float:
    at = NO_TIME
    with suppress(ValueError, OverflowError):
        if isinstance(time, str):
            at = datetime.fromisoformat(time).timestamp()
        elif isinstance(time, int | float):
            at = float(time)
    at = at / 1000 if at > _LATEST else at
    return at if NO_TIME < at <= _LATEST else NO_TIME


def run_output(event: Event, said: AgentMessage | None) -> Iterator[RunOutput]:
    """What a host yields for one event of a run. `said`: the message in it, if it is complete."""
    if said is not None and not event.partial:
        yield said
    elif event.partial and event.text:
        yield MessageDelta(event.text)
