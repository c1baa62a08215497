"""Reads google-adk's sessions for `adk_plugin`: requests, the answers to them, results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types
from pydantic import ValidationError

from adk_confirm.runtime.adk.signing import (
    REQUEST_INPUT,
    WORKFLOW_CONFIRMATION,
    Announcement,
    announcement_about,
    bound_to_event,
    signatures_in,
)
from adk_confirm.runtime.adk.type_checks import check_edit
from adk_confirm.runtime.errors import Forbidden, Invalid
from adk_confirm.runtime.jsontypes import JsonObject, alike, find_non_finite
from adk_confirm.runtime.wire import REQUEST_CONFIRMATION, USER

ASK_AGAIN = "Ask the agent again."


@dataclass(frozen=True)
class SessionRequest:
    """A request, the call that it is about, and the plugin's announcement about it."""

    request: str
    call_id: str
    tool: str
    arguments: JsonObject
    announcement: Announcement | None
    event: str = ""

    @property
    def defaults(self) -> JsonObject:
        return {} if self.announcement is None else self.announcement.defaults

    @property
    def preview(self) -> JsonObject | None:
        """The call's preview, as people saw it."""
        return None if self.announcement is None else self.announcement.preview

    @property
    def signed_name(self) -> str:
        return bound_to_event(self.request, self.event) if self.is_from_node else self.request

    @property
    def is_from_node(self) -> bool:
        """Whether a workflow's node asks. It uses the same id again and again."""
        return self.request.startswith(WORKFLOW_CONFIRMATION)

    def edit_in(self, confirmation: ToolConfirmation) -> JsonObject | None:
        """The arguments that an approval replaces, or None. Raises `Invalid` for values that the tool can't take. If
        the tool itself asked, a payload may be anything: one that does not fit gives None."""
        announcement, payload = self.announcement, confirmation.payload
        if announcement is None or not announcement.edits or not confirmation.confirmed or payload is None:
            return None
        try:
            if not isinstance(payload, dict):
                raise Invalid(f"payload must be an object with arguments of {self.tool}; the request still waits.")
            check_edit(payload, announcement.schema, self.call_id)
        except Invalid:
            if announcement.gated:
                raise
            return None
        return payload

    def reason(self, confirmation: ToolConfirmation) -> str | None:
        """The reason of a denial. ADK's web page sends the call's own arguments with a denial; a `reason` among those
        does not count."""
        payload = confirmation.payload
        reason = payload.get("reason") if isinstance(payload, dict) and not alike(payload, self.arguments) else None
        return reason if isinstance(reason, str) and reason else None


def answers_in(message: types.Content) -> Iterator[types.FunctionResponse]:
    return (given for given in _responses_in(message) if _is_about_confirmation(given))


def responses_to_pauses(message: types.Content) -> Iterator[types.FunctionResponse]:
    """The responses in a message that answer something other than a confirmation."""
    return (given for given in _responses_in(message) if not _is_about_confirmation(given))


def _responses_in(message: types.Content) -> Iterator[types.FunctionResponse]:
    return (part.function_response for part in message.parts or () if part.function_response is not None)


def _is_about_confirmation(part: types.FunctionCall | types.FunctionResponse) -> bool:
    return part.name == REQUEST_CONFIRMATION or (part.id or "").startswith(WORKFLOW_CONFIRMATION)


def read_answer(response: types.FunctionResponse) -> ToolConfirmation:
    """Reads an answer as google-adk does, except that only the JSON boolean `true` approves."""
    given: Any = response.response or {}
    try:
        if len(given) == 1 and "response" in given:
            given = json.loads(given["response"])
        found: ToolConfirmation = ToolConfirmation.model_validate(given, strict=True)
    except (ValidationError, ValueError, TypeError) as error:
        raise Invalid(
            "The answer can't be read: send only 'confirmed', which is true or false, and 'payload'."
        ) from error
    if wrong := find_non_finite({"payload": found.payload}):
        raise Invalid(f"The answer holds something that is not JSON: {'; '.join(wrong)}. Send finite numbers.")
    return found


def requests_in_event(event: Event) -> Iterator[SessionRequest]:
    if event.author == USER:
        return
    for call in event.get_function_calls():
        if call.name == REQUEST_INPUT and call.id and call.id.startswith(WORKFLOW_CONFIRMATION):
            yield _node_request(event, call.id, (call.args or {}).get("payload"))
            continue
        original = (call.args or {}).get("originalFunctionCall")
        if call.name != REQUEST_CONFIRMATION or not call.id or not isinstance(original, dict):
            continue
        call_id, tool = original.get("id"), original.get("name")
        if isinstance(call_id, str) and isinstance(tool, str):
            announcement = announcement_about(event.custom_metadata, call_id)
            yield SessionRequest(call.id, call_id, tool, original.get("args") or {}, announcement, event.id)


def _node_request(event: Event, request: str, payload: object) -> SessionRequest:
    given = payload if isinstance(payload, dict) else {}
    announcement, arguments = announcement_about(event.custom_metadata, request), given.get("args") or {}
    return SessionRequest(request, request, str(given.get("tool_name") or ""), arguments, announcement, event.id)


def find_request(session: Session, request: str | None) -> SessionRequest | None:
    """Finds what this request is about. Raises `Forbidden` if the session has it twice: people saw one, and google-adk
    would run the other. A workflow's node asks with one id again and again, so the last one counts."""
    return _only_request(
        [one for event in session.events for one in requests_in_event(event) if one.request == request]
    )


def find_request_for_call(session: Session, call_id: str) -> SessionRequest | None:
    """The request about this call. Raises `Forbidden` like `find_request`."""
    about = _only_request(
        [one for event in session.events for one in requests_in_event(event) if one.call_id == call_id]
    )
    return None if about is None else find_request(session, about.request)


def _only_request(found: list[SessionRequest]) -> SessionRequest | None:
    if len(found) > 1 and not found[-1].is_from_node:
        raise Forbidden(f"The request {found[-1].request} appears twice in the session: nothing runs. {ASK_AGAIN}")
    return found[-1] if found else None


@dataclass(frozen=True)
class Pause:
    """A call for which the agent waits, other than for a confirmation: the last with its id."""

    call_id: str
    name: str
    event: str
    answered: int  # how many answers to its id the session has

    @property
    def signed_name(self) -> str:
        return bound_to_event(self.call_id, self.event)


class Pauses:
    """The waiting calls, collected from a session's events."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, str]] = {}
        self._times: Counter[str] = Counter()

    @classmethod
    def of(cls, session: Session) -> Pauses:
        pauses = cls()
        for event in session.events:
            pauses.add(event)
        return pauses

    def add(self, event: Event) -> None:
        if event.author == USER:
            self._times.update(one.id for one in event.get_function_responses() if one.id)
            return
        for call_id, name in pausing_calls(event):
            self._calls[call_id] = (name, event.id)

    def about(self, call_id: str | None) -> Pause | None:
        found = self._calls.get(call_id or "")
        if found is None or call_id is None:
            return None
        return Pause(call_id, *found, answered=self._times[call_id])


def pausing_calls(event: Event) -> Iterator[tuple[str, str]]:
    """The calls in an event that wait for an answer other than a confirmation, by id and name. The framework names them
    beside its event; a model can only write a call."""
    waits = set(event.long_running_tool_ids or ())
    for call in event.get_function_calls():
        if call.id and call.id in waits and not _is_about_confirmation(call):
            yield call.id, call.name or ""


def answers_to_pauses(session: Session) -> Iterator[tuple[Pause, types.FunctionResponse, JsonObject]]:
    """The session's answers to waiting calls, each with its call and its signatures."""
    pauses = Pauses()
    for event in session.events:
        for given in event.get_function_responses() if event.author == USER else ():  # under whatever name
            about = pauses.about(given.id)
            if about is not None:
                yield about, given, signatures_in(event.custom_metadata)
        pauses.add(event)


def times_answered(session: Session, request: str) -> int:
    """How many answers to a request the session has. For a workflow's node an answer counts under any name."""
    given = (one for event in session.events if event.author == USER for one in event.get_function_responses())
    by_any_name = request.startswith(WORKFLOW_CONFIRMATION)
    return sum(one.id == request and (by_any_name or one.name == REQUEST_CONFIRMATION) for one in given)


def answers_to_nodes(session: Session) -> Iterator[tuple[SessionRequest | None, types.FunctionResponse, int]]:
    """The session's answers to requests of a workflow's nodes: each with the request before it, and how many answers
    that request's id had before."""
    asking: dict[str, SessionRequest] = {}
    times: Counter[str] = Counter()
    for event in session.events:
        asking.update({one.request: one for one in requests_in_event(event) if one.is_from_node})
        for given in event.get_function_responses() if event.author == USER else ():
            if given.id and given.id.startswith(WORKFLOW_CONFIRMATION):
                yield asking.get(given.id), given, times[given.id]
                times[given.id] += 1


def result_of(session: Session, call: SessionRequest) -> dict[str, Any] | None:
    """The call's result, if there is one after an answer."""
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
    """Raises `Invalid` if somebody sends a result for a waiting call in place of the tool."""
    for given in responses_to_pauses(message):
        if not given.id:
            continue
        if find_request(session, given.id) is not None:
            raise Invalid(f"The request {given.id} is answered under the name adk_request_confirmation, and no other.")
        about = find_request_for_call(session, given.id)
        if about is not None and not times_answered(session, about.request):
            raise Invalid(f"The call {given.id} waits for a decision, so nobody may send a result for it.")
