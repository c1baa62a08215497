"""Reads what an event of an agent asks people, and writes the answers to it. Pure.

Besides tool confirmations (`adk_request_confirmation`), google-adk 2 has questions (`adk_request_input`), confirmations
of a workflow's nodes (the same call with its own id) and long-running tools. People are told about sign-ins
(`adk_request_credential`) and about kinds that a later version adds, and nothing is answered.

A workflow's node uses the same id each time it asks. So such a request has an id of its own for each event
(`bound_to_event`), and `part_id` is the id that ADK sends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pydantic import ConfigDict

from adk_confirm.bot.confirmation import decision_texts
from adk_confirm.bot.confirmation.confirmation import Ask, HostRequest
from adk_confirm.bot.confirmation.edits import answer_from_form, form_of, has_fields
from adk_confirm.bot.confirmation.outcome import has_failed
from adk_confirm.bot.hosts.host import ServerInfo
from adk_confirm.bot.hosts.host_events import HostEvent
from adk_confirm.runtime.adk.signing import (
    REQUEST_CREDENTIAL,
    REQUEST_INPUT,
    WORKFLOW_CONFIRMATION,
    Announcement,
    announcement_about,
    bound_to_event,
)
from adk_confirm.runtime.adk.type_checks import misfit
from adk_confirm.runtime.calls.call import Call, CallState, GateKind, HeldRequest
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, canonical
from adk_confirm.runtime.requests_and_answers import (
    NO_ANSWER,
    Answer,
    Request,
    answer_to_question,
    read_answer,
    requests_in,
)
from adk_confirm.runtime.wire import REQUEST_CONFIRMATION, FunctionCall, FunctionResponse, ToolConfirmation

OF_THE_FRAMEWORK = "adk_"
"""The prefix of the names of google-adk's own calls."""

QUESTION_TOOL = "request_input"
"""The name under which google-adk's own tool for questions is imported."""

CHOICE_TOOL = "get_user_choice"
"""google-adk's tool with which a model lets people choose one of several options."""

WAITS = "requires confirmation, please approve or reject"
"""Part of every ADK's response to a call that waits for confirmation."""

AWAITS = "It waits for {}. The thread says where that can be answered."
NOBODY_SIGNS_IN = "It needs a sign-in, and its agent asked no client for one, so it went no further."
"""What the card of an approved call says."""

_NOTHING = Announcement(gated=False, bound=False)
RESULT = "result"
_STATUS, APPROVED, REJECTED = "status", "approved", "rejected"


ENDED_BY_THEIR_ANSWER = (Ask.INPUT, Ask.OPERATION)
"""Requests that are done once they are answered: no call waits for them."""


class RequestStatus(StrEnum):
    """What the session says about a request."""

    GONE = "gone"  # the session does not have the request, or asked it anew
    ABSENT = "absent"  # no answer yet
    BEGUN = "begun"  # an answer, and no response of the tool after it
    SETTLED = "settled"  # nothing more comes


@dataclass
class AdkRequest:
    """A request to people, and what its session says about it: the answers with their times, and two responses to its
    call, the last before the first answer and the first after it."""

    request: Request
    part_id: str
    ask: Ask = Ask.CONFIRMATION
    schema: JsonObject | None = None  # of the answer to a question
    by_node: bool = True  # False: a model asks, with a tool
    siblings: str = ""  # the same for all requests whose answers are sent together; may be empty
    announcement: Announcement | None = None
    twice: bool = False  # another call has the same id, so it is unknown which of them an answer would run
    given: list[tuple[Answer, float | None]] = field(default_factory=list)
    before: JsonObject | None = None
    after: tuple[JsonObject, float | None] | None = None
    answered: int = 0  # how many answers to its part's id the session has, whichever event asked
    awaits: str = ""  # what its call waits for after the approval, such as `adk_request_credential`
    unasked: bool = False  # no client was asked for what it awaits, so nothing more comes
    ended_empty: bool = False  # its node ended after the answer without a result
    held_again: Announcement | None = None  # the next request's, if a changed preview kept the call from starting
    asked_anew: bool = False  # a later event asks with the same id and would get the answer

    @property
    def call_id(self) -> str:
        return self.request.call.id or self.request.id

    @property
    def announced(self) -> Announcement:
        """What is known of the call from our plugin: little, if it is not there."""
        return self.announcement or _NOTHING

    @property
    def preview(self) -> Preview | None:
        return Preview.of(self.announced.preview)

    @property
    def shown(self) -> list[Json]:
        """What people decide on."""
        arguments: JsonObject = {**self.request.call.arguments, **self.defaults}
        return [self.call_id, self.request.call.name, arguments, self.preview.as_json() if self.preview else None]

    @property
    def defaults(self) -> JsonObject:
        """The arguments that the tool gets beside those of the model, or that complete one of them. Our runtime states
        them in the request, the plugin next to it."""
        return self.request.defaults or self.announced.defaults

    @property
    def held_by_gate(self) -> bool:
        """Whether ADK holds the call. Otherwise the tool itself asked, and must run to get the answer."""
        if self.announcement is not None:
            return self.announcement.gated
        return self.before is not None and WAITS in str(self.before.get("error"))

    @property
    def takes_errors(self) -> bool:
        """Whether the agent can be told that nobody answered. google-adk fails if that does not fit the schema."""
        return not self.by_node and (self.schema is None or self.request.call.name == CHOICE_TOOL)

    def as_call(self) -> Call:
        """This request as the `Call` that waits for people."""
        request, announced, arguments = self.request, self.announced, self.request.call.arguments
        schema = self.schema if self.ask is Ask.INPUT else announced.payload_schema
        asked = HeldRequest(
            request.id, request.hint, request.payload, schema, preview=self.preview, attempts=announced.attempts or 0
        )
        return Call(
            id=self.call_id,
            tool=request.call.name or "",
            args={**arguments, **self.defaults},
            defaults=tuple(name for name in self.defaults if name not in arguments),
            agent=request.author,
            invocation_id=request.invocation_id,
            title=announced.title,
            gate=GateKind.INPUT if self.ask is Ask.INPUT else GateKind.STATIC if announced.edits else GateKind.DYNAMIC,
            state=CallState.HELD,
            asked=(asked,),
            tool_schema=announced.schema,
        )

    @property
    def status(self) -> RequestStatus:
        if not self.given:
            return RequestStatus.GONE if self.asked_anew else RequestStatus.ABSENT
        ended = self.after is not None or self.ended_empty or self.ask in ENDED_BY_THEIR_ANSWER
        return RequestStatus.SETTLED if ended else RequestStatus.BEGUN

    def as_told(self, on_its_way: int | None) -> Call | None:
        """The call that was asked about, as the session tells of it. None while its answer is on its way: `on_its_way`
        is how many answers there were before the one that is being sent."""
        call, given = self.as_call(), len(self.given)
        if not given:
            refused = replace(call, state=CallState.REFUSED, reason=decision_texts.ASKED_ANEW)
            return refused if self.asked_anew else call
        answer, first = self.given[0]
        confirmed: bool | None = answer.confirmed
        state, begun = CallState.DONE if confirmed else CallState.REFUSED, first
        result: JsonObject | None = None
        if self.ask in ENDED_BY_THEIR_ANSWER:
            begun = None
        elif self.awaits and self.asked_anew:
            state, begun, result = CallState.REFUSED, None, {"error": decision_texts.ASKED_ANEW}
        elif self.held_again is not None:
            why = decision_texts.CHANGED_BY_EDIT if self.held_again.edited_unseen else decision_texts.PREVIEW_CHANGED
            state, begun, result = CallState.REFUSED, None, {"error": why}
        elif self.after is not None:
            result = self.after[0]
            if not confirmed and self.held_by_gate and not has_failed(result):
                state, confirmed = CallState.DONE, None  # it ran, whatever the answer was
        elif self.awaits and confirmed:
            over = self.unasked and on_its_way is None
            state = CallState.DONE if over else CallState.RUNNING
            result = {"error": NOBODY_SIGNS_IN if over else AWAITS.format(named(self.awaits))}
        elif on_its_way == given:
            return None
        elif on_its_way is not None or not self.ended_empty:
            begun = self.given[-1][1]
            if confirmed:
                state = CallState.UNKNOWN if on_its_way is None or given < on_its_way else CallState.RUNNING
        asked = tuple(replace(one, confirmed=confirmed) for one in call.asked)
        return replace(call, state=state, asked=asked, result=result, begun=begun)

    def for_people(self, about: ServerInfo) -> HostRequest:
        """The request as people are asked."""
        call, request = self.as_call(), self.request
        siblings = self.siblings if about.say_what_became is None else ""  # our own API takes each answer alone
        if self.ask is Ask.INPUT:
            return request_about(call, self.ask, siblings)
        declared = about.schemas.get(call.tool)
        foreign, wrong = not self.announced.bound, ""
        if foreign and declared:
            try:
                wrong = misfit(declared, request.call.arguments)
            except Invalid as error:
                wrong = str(error)
        asked = request_about(
            replace(call, tool_schema=call.tool_schema or declared),
            self.ask,
            siblings,
            misfit=wrong,
            unbound=foreign and not declared,
        )
        before, unseen = self.announced.approved_preview, self.announced.edited_unseen
        return replace(asked, approved_preview=before, edited_unseen=unseen)


def request_about(call: Call, ask: Ask, siblings: str = "", *, misfit: str = "", unbound: bool = False) -> HostRequest:
    """What a held call asks people."""
    asked, question, own = call.request, ask is Ask.INPUT, call.gate is GateKind.DYNAMIC
    assert asked is not None
    schema, payload = form_of(asked.payload_schema) if question else (asked.payload_schema, asked.payload)
    approved = call.changed_preview
    return HostRequest(
        request_id=asked.request_id,
        call_id=call.id,
        tool=call.tool,
        arguments=call.run_args,  # an earlier agent may have changed them
        defaults=tuple(call.run_defaults),
        title=None if question else call.title,
        why=call.why or "",
        preview=asked.preview.as_json() if asked.preview else None,
        attempts=asked.attempts,
        approved_preview=approved.as_json() if approved else None,
        agent=call.agent,
        invocation_id=call.invocation_id,
        hint=asked.hint,
        wants_payload=question or (own and (payload is not None or schema is not None)),
        payload=payload,
        payload_schema=schema,
        tool_schema=None if question else call.tool_schema,
        misfit=misfit,
        unbound=unbound,
        can_edit=not own,
        ask=ask,
        siblings=siblings,
    )


# What an event asks


def asked_in(event: HostEvent) -> Iterator[AdkRequest]:
    """The requests in an event. Raises `Invalid` for one that can't be understood."""
    siblings = canonical([event.invocation_id, event.branch or "", event.author]) if event.invocation_id else ""
    for request in requests_in(event):
        asks = AdkRequest(request, request.id, siblings=siblings)
        yield replace(asks, announcement=announcement_about(event.custom_metadata, asks.call_id))
    for call in waiting_calls(event):
        bound_id = bound_to_event(call.id or "", event.id)
        if call.name == REQUEST_INPUT:
            by_node = (call.id or "").startswith(WORKFLOW_CONFIRMATION)
            asks = (_node if by_node else _question)(event, call, bound_id)
        elif not (call.name or "").startswith(OF_THE_FRAMEWORK):
            asks = _tool(event, call, bound_id)
        else:
            continue
        yield replace(asks, announcement=announcement_about(event.custom_metadata, asks.part_id))


def waiting_calls(event: HostEvent) -> Iterator[FunctionCall]:
    waiting = event.pausing_ids()
    return (call for call in event.calls() if call.id and call.id in waiting)


def named(kind: str) -> str:
    """What people call a pause of the framework."""
    return "a sign-in" if kind == REQUEST_CREDENTIAL else kind


def _node(event: HostEvent, call: FunctionCall, bound_id: str) -> AdkRequest:
    args = call.arguments
    payload = as_object(args.get("payload"))
    about = FunctionCall(id=bound_id, name=as_text(payload.get("tool_name")), args=as_object(payload.get("args")))
    if not about.name:
        raise Invalid("A workflow's node asks for a confirmation without naming its tool; it is left out.")
    request = _request(event, about, as_text(args.get("message")), payload.get("confirmation_payload"))
    return AdkRequest(request, call.id or "", Ask.NODE)


def _question(event: HostEvent, call: FunctionCall, bound_id: str) -> AdkRequest:
    args = call.arguments
    by_node = "interruptId" in args or "interrupt_id" in args
    # `flow@1/ask@2` is the second run of the node `ask`.
    node = event.node_info.path.rpartition("/")[2].partition("@")[0] or event.author
    name = as_text(args.get("toolName")) or (node if by_node else "") or QUESTION_TOOL
    payload = args.get("payload")
    arguments: JsonObject = payload if isinstance(payload, dict) else {} if payload is None else {"payload": payload}
    request = _request(event, FunctionCall(id=bound_id, name=name, args=arguments), as_text(args.get("message")))
    request = replace(request, defaults=as_object(args.get("defaults")))
    schema = args.get("response_schema", args.get("responseSchema"))
    return AdkRequest(request, call.id or "", Ask.INPUT, schema if isinstance(schema, dict) else None, by_node)


def _tool(event: HostEvent, call: FunctionCall, bound_id: str) -> AdkRequest:
    """A choice between several options, or a long-running operation."""
    request = _request(event, FunctionCall(id=bound_id, name=call.name, args=call.args))
    options = call.arguments.get("options") if call.name == CHOICE_TOOL else None
    texts = [one for one in options if isinstance(one, str) and one] if isinstance(options, list) else []
    if not texts or options != texts or len(texts) > len({*texts}):
        return AdkRequest(request, call.id or "", Ask.OPERATION, by_node=False)
    schema: JsonObject = {"type": "string", "enum": [*texts], "title": "Choice"}
    return AdkRequest(request, call.id or "", Ask.INPUT, schema, by_node=False)


def _request(event: HostEvent, about: FunctionCall, hint: str = "", payload: Json = None) -> Request:
    return Request(
        id=about.id or "",
        call=about,
        hint=hint,
        payload=payload,
        author=event.author,
        invocation_id=event.invocation_id,
        dialect="call",
    )


# Answers


def answer_part(asks: AdkRequest, answer: Answer) -> FunctionResponse | None:
    """The answer in the form that the agent gets. None if nobody answered and the request takes only answers. The final
    response of a long-running tool repeats its first one, with how it ended."""
    part, tool = asks.part_id, asks.request.call.name
    if asks.ask in (Ask.CONFIRMATION, Ask.NODE):
        response = answer.as_part().function_response
        name = REQUEST_CONFIRMATION if asks.ask is Ask.CONFIRMATION else REQUEST_INPUT
        return FunctionResponse(id=part, name=name, response=response.response if response else None)
    if asks.ask is Ask.OPERATION:
        ended: JsonObject = {**(asks.before or {}), _STATUS: APPROVED if answer.confirmed else REJECTED}
        ended |= {"reason": answer.reason} if answer.reason and not answer.confirmed else {}
        return FunctionResponse(id=part, name=tool, response=ended)
    if not answer.confirmed and not asks.takes_errors:
        return None
    given = _response(asks, answer.payload) if answer.confirmed else {"error": answer.reason or NO_ANSWER}
    return FunctionResponse(id=part, name=CHOICE_TOOL if tool == CHOICE_TOOL else REQUEST_INPUT, response=given)


def _response(asks: AdkRequest, payload: Json) -> JsonObject:
    """The response for an answer. google-adk takes the single value out of `{"result": …}`, and parses a text in it
    that is JSON."""
    value = answer_from_form(form_of(asks.schema)[0], payload)
    if has_fields(asks.schema):
        return answer_to_question(value)
    if asks.by_node and isinstance(value, str):
        with suppress(ValueError, RecursionError):  # most texts are no JSON
            json.loads(value)
            value = json.dumps(value, ensure_ascii=False)
    return {RESULT: value}


def read_stored_answer(asks: AdkRequest, response: FunctionResponse) -> Answer:
    """Reads an answer from the session. For a node's confirmation any answer counts, in any form. Raises `Invalid` for
    an answer to a tool's confirmation that google-adk does not take."""
    given, request = response.response or {}, asks.request.id
    if asks.ask is Ask.CONFIRMATION:
        return _as_it_was_taken(response)
    if asks.ask is Ask.OPERATION:
        return Answer(request, confirmed=given.get(_STATUS) != REJECTED, payload=response.response)
    if asks.ask is Ask.INPUT:
        return Answer(request, confirmed=asks.by_node or list(given) != ["error"], payload=response.response)
    if list(given) == [RESULT]:
        given = {"response": given[RESULT]}
    try:
        return _as_it_was_taken(FunctionResponse(id=request, name=REQUEST_CONFIRMATION, response=given))
    except Invalid:
        return Answer(request, confirmed=False)


def _as_it_was_taken(response: FunctionResponse) -> Answer:
    """Reads an answer as we take it, or else as google-adk does: to it `1` and `"yes"` are true, and of two values
    under one name the last counts."""
    try:
        return read_answer(response)
    except Invalid:
        with suppress(ValueError, TypeError, RecursionError):  # it raises these
            given = response.response or {}
            text = given["response"] if list(given) == ["response"] else None
            taken = _Taken.model_validate(json.loads(text) if isinstance(text, str) else given)
            return Answer(str(response.id), taken.confirmed)
        raise


class _Taken(ToolConfirmation):
    model_config = ConfigDict(extra="forbid")
