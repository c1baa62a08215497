"""What `adk_plugin` reads in sessions of google-adk: requests, the answers to them, results, tools' schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types
from pydantic import ValidationError

from runtime.amending import refuse_unfit
from runtime.errors import Invalid
from runtime.finite import not_finite
from runtime.jsontypes import JsonObject, alike
from runtime.signing import Announcement, announced
from runtime.wire import REQUEST_CONFIRMATION, USER


@dataclass(frozen=True)
class Asked:
    """A request, the call that it is about, and what was announced of it."""

    request: str
    call_id: str
    tool: str
    arguments: JsonObject
    announcement: Announcement | None

    def edit_in(self, confirmation: ToolConfirmation) -> JsonObject | None:
        """The arguments that an approval replaces. Raises `Invalid` for some that the tool can't take; where the tool
        itself asked, those are a payload of which it knows what it means."""
        told, payload = self.announcement, confirmation.payload
        if told is None or not told.edits or not confirmation.confirmed or payload is None:
            return None
        try:
            if not isinstance(payload, dict):
                raise Invalid(f"payload must be an object with arguments of {self.tool}; the request still waits.")
            refuse_unfit(payload, told.schema, self.call_id)
        except Invalid:
            if told.gated:
                raise
            return None
        return payload

    def reason(self, confirmation: ToolConfirmation) -> str | None:
        """ADK's web page sends the call's own arguments with a denial: one that is called `reason` is not meant."""
        payload = confirmation.payload
        reason = payload.get("reason") if isinstance(payload, dict) and not alike(payload, self.arguments) else None
        return reason if isinstance(reason, str) and reason else None


def answers_in(message: types.Content) -> Iterator[types.FunctionResponse]:
    for part in message.parts or ():
        if part.function_response is not None and part.function_response.name == REQUEST_CONFIRMATION:
            yield part.function_response


def read_answer(response: types.FunctionResponse) -> ToolConfirmation:
    """As google-adk will read it, but for one thing: only the JSON boolean `true` approves."""
    given: Any = response.response or {}
    try:
        if len(given) == 1 and "response" in given:
            given = json.loads(given["response"])
        found: ToolConfirmation = ToolConfirmation.model_validate(given, strict=True)
    except (ValidationError, ValueError, TypeError) as error:
        raise Invalid("The answer can't be read: send {confirmed} or {confirmed, payload}.") from error
    if wrong := not_finite({"payload": found.payload}):
        raise Invalid(f"The answer holds what is no JSON: {'; '.join(wrong)}. Send finite numbers.")
    return found


def asked_in(event: Event) -> Iterator[Asked]:
    if event.author == USER:
        return
    for call in event.get_function_calls():
        original = (call.args or {}).get("originalFunctionCall")
        if call.name != REQUEST_CONFIRMATION or not call.id or not isinstance(original, dict):
            continue
        call_id, tool = original.get("id"), original.get("name")
        if isinstance(call_id, str) and isinstance(tool, str):
            told = announced(event.custom_metadata, call_id)
            yield Asked(call.id, call_id, tool, original.get("args") or {}, told)


def asked(session: Session, request: str | None) -> Asked | None:
    """What this request is about."""
    return next((one for event in session.events for one in asked_in(event) if one.request == request), None)


def asked_about(session: Session, call_id: str) -> Asked | None:
    """The request about this call."""
    return next((one for event in session.events for one in asked_in(event) if one.call_id == call_id), None)


def times_answered(session: Session, request: str) -> int:
    """How many answers to a request stand in the session."""
    users = (event.content for event in session.events if event.author == USER and event.content)
    return sum(answer.id == request for content in users for answer in answers_in(content))


def result_of(session: Session, call: Asked) -> dict[str, Any] | None:
    """What the call came to, once an answer stands before it."""
    answered = False
    for event in session.events:
        for response in event.get_function_responses():
            if event.author == USER:
                answered = answered or response.id == call.request
            elif answered and response.id == call.call_id:
                found: dict[str, Any] | None = response.response
                return found
    return None


def refuse_results(session: Session, message: types.Content) -> None:
    """Raises `Invalid` for somebody who gives a waiting call its result in place of the tool."""
    for part in message.parts or ():
        given = part.function_response
        if given is None or given.name == REQUEST_CONFIRMATION or not given.id:
            continue
        about = asked_about(session, given.id)
        if about is not None and not times_answered(session, about.request):
            raise Invalid(f"The call {given.id} waits for a decision: a result can't be given in its place.")


def schema_of(tool: BaseTool) -> JsonObject | None:
    """The tool's parameters as JSON schema, whichever way it declares them."""
    declaration = tool._get_declaration()
    if declaration is None:
        return None
    if declaration.parameters_json_schema is not None:
        schema: JsonObject = declaration.parameters_json_schema
        return schema
    if declaration.parameters is None:
        return None
    plain: JsonObject = declaration.parameters.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
    return plain
