"""Checks an answer against its call and its tool, and turns it into an event. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adk_confirm.runtime.adk.type_checks import check_answer
from adk_confirm.runtime.calls.call import Approve, Call, CallEvent, Deny, GateKind, Refuse, already_answered
from adk_confirm.runtime.confirming import Answer
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import JsonObject, alike, canonical, same
from adk_confirm.runtime.signature import BadArguments
from adk_confirm.runtime.tool import Tool
from adk_confirm.runtime.wire import Part


@dataclass(frozen=True)
class CallDecision:
    """What should happen to a call, checked against its tool. It is stored only if the call has not changed since."""

    call_id: str
    event: CallEvent
    answer: Answer | None = None
    part: Part | None = None
    attempt: int | None = None  # the attempt that people decided about


def decide(answer: Answer, call: Call, tool: Tool | None, part: Part, *, final: bool = False) -> CallDecision | None:
    """What an answer means for its call. None if it was given before. Raises if it does not fit.

    `final`: people have decided exactly this, and nobody can correct it.
    """
    if already_answered(call, answer.id, answer.confirmed, answer.payload):
        return None
    if not answer.confirmed:
        return CallDecision(call.id, Deny(_reason(answer, call, part)), answer, part)
    if call.asks_input and call.request is not None:
        check_answer(answer.payload, call.request.payload_schema, answer.id)
    try:
        amended = _amended_arguments(call, answer, tool, exact=final) if call.gate is GateKind.STATIC else None
    except Invalid as error:
        if not final:
            raise
        return CallDecision(call.id, Refuse(f"{error} Nothing ran."), answer, part)
    return CallDecision(call.id, Approve(answer.payload, amended), answer, part)


def _reason(answer: Answer, call: Call, part: Part) -> str | None:
    """The reason of a denial. ADK's web page sends the call's own arguments with a denial; a `reason` among those does
    not count."""
    said = part.function_response.response if part.function_response else None
    return None if said and alike(said.get("payload"), call.given_args) else answer.reason


def one_per_call(decisions: Sequence[CallDecision]) -> tuple[CallDecision, ...]:
    """Reduces decisions to one for each call. Answers by the request's id and by the call's id may repeat a decision,
    but not differ."""
    first: dict[str, CallDecision] = {}
    for decision in decisions:
        said = first.setdefault(decision.call_id, decision)
        if not _same_event(said.event, decision.event):
            raise Invalid(f"The message answers call {decision.call_id} twice, and differently: send one answer.")
    return tuple(first.values())


def _same_event(one: CallEvent, other: CallEvent) -> bool:
    match one, other:
        case Approve(), Approve():
            return same([one.payload, one.amended], [other.payload, other.amended])
        case _:
            return one == other


def _amended_arguments(call: Call, answer: Answer, tool: Tool | None, *, exact: bool) -> JsonObject | None:
    """The call's arguments with the payload's changes, as the tool gets them. None if there are no changes.

    `exact`: 1 instead of 1.0 is a change. Other clients may write 1.0 as 1 without meaning a change.
    """
    if answer.payload is None:
        return None
    if not isinstance(answer.payload, dict):
        raise Invalid(f"payload must be an object with arguments of {call.tool}; the request still waits.")
    args = {**call.args, **answer.payload}
    equal = same if exact else alike
    changed = {
        name for name, value in answer.payload.items() if name not in call.args or not equal(call.args[name], value)
    }
    if not changed:
        return None
    if tool is None:
        return args
    try:
        bound = tool.bind(args, strict=True)
    except BadArguments as error:
        # Only what the person wrote has to be of the right type by itself.
        edited = {field: why for field, why in error.fields.items() if field.split(".")[0] in changed}
        if edited:
            raise BadArguments(call.tool, edited) from error
        bound = tool.bind(args)
    if exact and not same(bound.args, args):
        other = [name for name, value in bound.args.items() if not same(args.get(name), value)]
        raise BadArguments(call.tool, {name: f"would run as {canonical(bound.args[name])}" for name in other})
    return bound.args
