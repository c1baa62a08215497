"""One turn: the calls that the model made in one answer, and what to do next for them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from adk_confirm.runtime.adk.signing import Announcement, announcement_metadata
from adk_confirm.runtime.calls.call import SETTLED, Call, CallState, GateKind, HeldRequest, default_hint
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.wire import (
    REQUEST_INPUT,
    ConfirmationRequest,
    Content,
    Dialect,
    Event,
    EventActions,
    FunctionCall,
    FunctionResponse,
    Part,
    ToolConfirmation,
)

PLACEHOLDER: JsonObject = {"error": "This tool call requires confirmation, please approve or reject."}
OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
APPROVERS_NOTE = "note_of_the_people_who_approved"


@dataclass(frozen=True)
class Recover:
    """Calls that were running when their process died."""

    calls: tuple[Call, ...]


@dataclass(frozen=True)
class RunTools:
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class AddEvents:
    """Calls whose state is not in the session's events yet."""

    calls: tuple[Call, ...]


Next = Recover | RunTools | AddEvents | Literal["wait", "ask the model"]


def next_step(calls: Sequence[Call]) -> Next:
    """The next thing to do for a turn. A turn without calls still needs the model's answer."""
    ordered = sorted(calls, key=lambda call: call.place)
    if running := tuple(c for c in ordered if c.state is CallState.RUNNING):
        return Recover(running)
    if ready := tuple(c for c in ordered if c.state is CallState.READY):
        return RunTools(ready)
    if untold := tuple(c for c in ordered if not c.told):
        return AddEvents(untold)
    if any(c.state not in SETTLED for c in ordered):
        return "wait"
    return "ask the model"


def events_for(calls: Sequence[Call], event: Event, actions: EventActions, dialect: Dialect) -> list[Event]:
    """The events for these calls' states, in ADK's order: results first, then requests, then their placeholders.
    `event` has author, invocation and so on."""
    events: list[Event] = []
    speaking = [call for call in calls if call.state is not CallState.UNKNOWN]
    if speaking:
        held = [call for call in speaking if call.state is CallState.HELD]
        responses = _responses(speaking, event, actions, dialect)
        questions = [call for call in held if call.asks_input]
        if dialect == "response" and questions:  # this dialect has no form of its own for a question
            events += [_requests(questions, event), responses]
        elif not held or dialect == "response":
            events.append(responses)
        else:
            request = _requests(held, event)
            events += [request, responses] if len(held) == len(speaking) else [responses, request]
    events += [_unknown(call, event) for call in calls if call.state is CallState.UNKNOWN]
    return events


def _responses(calls: Sequence[Call], event: Event, actions: EventActions, dialect: Dialect) -> Event:
    held = {call.id: _confirmation(call) for call in calls if call.state is CallState.HELD and not call.asks_input}
    static = any(call.state is CallState.HELD and call.gate is GateKind.STATIC for call in calls)
    # If one event has both requests and results, the model still has to speak about the results.
    enough = (static or actions.skip_summarization) and len(held) in (0, len(calls))
    actions = actions.model_copy(
        update={"requested_tool_confirmations": held, "skip_summarization": True if enough else None}
    )
    parts = [_response(call, dialect) for call in calls]
    asking = [call for call in calls if call.id in held] if dialect == "response" else []
    return _new(event, Content(role="user", parts=parts), actions, asking)


def _response(call: Call, dialect: Dialect) -> Part:
    if call.state is CallState.HELD and dialect == "response" and not call.asks_input:
        return _request(call, dialect)
    result = call.result if call.result is not None else PLACEHOLDER
    if call.state is CallState.DONE and (notes := [asked.note for asked in call.asked if asked.note]):
        result = {**result, APPROVERS_NOTE: "\n".join(notes)}
    return Part(function_response=FunctionResponse(id=call.id, name=call.tool, response=result))


def _requests(calls: Sequence[Call], event: Event) -> Event:
    parts = [_request(call, "call") for call in calls]
    return _new(event, Content(role="model", parts=parts), EventActions(), calls)


def _request(call: Call, dialect: Dialect) -> Part:
    """The request for a decision, or a question in the form of ADK's own tool. In that, `payload` (what the question is
    about), `defaults` and `toolName` are our additions."""
    asked = _asked(call)
    if not call.asks_input:
        original = FunctionCall(id=call.id, name=call.tool, args=call.given_args)
        request = ConfirmationRequest(
            original_function_call=original, tool_confirmation=_confirmation(call), defaults=call.run_defaults or None
        )
        return request.as_part(asked.request_id, dialect)
    args: JsonObject = {
        "message": asked.hint,
        "payload": call.given_args,
        "response_schema": asked.payload_schema,
        "toolName": call.tool,
    }
    if call.run_defaults:
        args["defaults"] = call.run_defaults
    return Part(function_call=FunctionCall(id=asked.request_id, name=REQUEST_INPUT, args=args))


def _asked(call: Call) -> HeldRequest:
    """The request of a call that asks."""
    assert call.request is not None
    return call.request


def _confirmation(call: Call) -> ToolConfirmation:
    asked = _asked(call)
    return ToolConfirmation(hint=asked.hint or default_hint(call.tool), payload=asked.payload)


def _unknown(call: Call, event: Event) -> Event:
    event = _new(event, None, EventActions())
    return event.model_copy(
        update={
            "error_code": OUTCOME_UNKNOWN,
            "error_message": f"The process stopped while {call.tool} ran. Nobody knows whether it took effect: look, "
            "then say that it happened, that it did not, or that it should run again.",
            "custom_metadata": {**(event.custom_metadata or {}), "callId": call.id, "attempt": call.attempt},
        }
    )


def _new(event: Event, content: Content | None, actions: EventActions, asking: Sequence[Call] = ()) -> Event:
    """A new event. `asking`: the calls that it asks about. Its metadata tells HTTP clients what may be edited."""
    announced = announcement_metadata({call.id: _announcement(call) for call in asking}) if asking else {}
    return Event(
        invocation_id=event.invocation_id,
        author=event.author,
        node_info=event.node_info,
        custom_metadata={**(event.custom_metadata or {}), **announced} or None,
        content=content,
        actions=actions,
        long_running_tool_ids=sorted(_asked(call).request_id for call in asking) or None,
        timestamp=event.timestamp,
    )


def _announcement(call: Call) -> Announcement:
    asked, before, static = _asked(call), call.changed_preview, call.gate is GateKind.STATIC
    return Announcement(
        gated=static,
        edits=static,
        schema=call.tool_schema,
        payload_schema=asked.payload_schema,
        title=call.title,
        preview=asked.preview.as_json() if asked.preview else None,
        attempts=asked.attempts or None,
        approved_preview=before.as_json() if before else None,
        edited_unseen=before is not None and call.asked[-2].edited_unseen,
    )


def merge_actions(all_actions: Sequence[EventActions]) -> EventActions:
    """The actions of calls that ran together, combined for one event. Later ones win."""
    one = EventActions()
    for actions in all_actions:
        one.state_delta.update(actions.state_delta)
        one.artifact_delta.update(actions.artifact_delta)
        one.transfer_to_agent = actions.transfer_to_agent or one.transfer_to_agent
        one.escalate = actions.escalate or one.escalate
        one.skip_summarization = actions.skip_summarization or one.skip_summarization
    return one
