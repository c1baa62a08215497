"""What an event of an agent asks people, and the answers to it. Pure.

Besides tool confirmations (`adk_request_confirmation`), google-adk 2 has questions (`adk_request_input`), confirmations
of a workflow's nodes (the same call with its own id) and long-running tools. People are told about sign-ins
(`adk_request_credential`) and about kinds that a later version adds, and nothing is answered.

A workflow's node uses the same id each time it asks. So such a request is that of one event (`bound_to_event`), and
`part_id` is the id that ADK sends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from adk_confirm.blocks.shown import PAYLOAD
from adk_confirm.bot.confirmation.model import Ask, HostRequest
from adk_confirm.bot.hosts.host import AgentMessage, UnansweredWait
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
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, canonical, same
from adk_confirm.runtime.requests_and_answers import (
    NO_ANSWER,
    Answer,
    Request,
    answer_to_question,
    read_answer,
    requests_in,
)
from adk_confirm.runtime.wire import REQUEST_CONFIRMATION, FunctionCall, FunctionResponse

OF_THE_FRAMEWORK = "adk_"
"""The prefix of the names of google-adk's own calls."""

QUESTION_TOOL = "request_input"
"""The name under which google-adk's own tool for questions is imported."""

CHOICE_TOOL = "get_user_choice"
"""google-adk's tool with which a model lets people choose one of several options."""

WAITS = "requires confirmation, please approve or reject"
"""Part of every ADK's response to a call that waits for confirmation."""

WHOLE = "the whole answer"
"""The comment in the schema of a form whose one field is the whole answer."""

_RESULT = "result"
_STATUS, APPROVED, REJECTED = "status", "approved", "rejected"


@dataclass
class AdkRequest:
    """A request to people, and what its session says about it: the answers with their times, and two responses to its
    call, the last before the first answer and the first after it."""

    request: Request
    part_id: str
    ask: Ask = Ask.CONFIRMATION
    schema: JsonObject | None = None  # of the answer to a question
    by_node: bool = True  # False: a model asks, with a tool
    siblings: str = ""  # the same for all requests of one agent in one turn and branch; may be empty
    announcement: Announcement | None = None
    twice: bool = False  # another call has the same id, so it is unknown which of them an answer would run
    given: list[tuple[Answer, float | None]] = field(default_factory=list)
    before: JsonObject | None = None
    after: tuple[JsonObject, float | None] | None = None
    answered: int = 0  # how many answers to its part's id the session has, for any event
    awaits: str = ""  # what its call waits for after the approval, such as `adk_request_credential`
    ended_empty: bool = False  # its node ended after the answer without a result
    held_again: Announcement | None = None  # of the next request: it did not start, since its preview had changed
    asked_anew: bool = False  # a later event asks with the same id and would get the answer

    @property
    def call_id(self) -> str:
        return self.request.call.id or self.request.id

    @property
    def preview(self) -> Preview | None:
        return Preview.of(self.announcement.preview) if self.announcement is not None else None

    @property
    def shown(self) -> list[Json]:
        """What people decide on."""
        arguments: JsonObject = {**self.request.call.arguments, **self.defaults}
        return [self.call_id, self.request.call.name, arguments, self.preview.as_json() if self.preview else None]

    @property
    def defaults(self) -> JsonObject:
        """What the tool gets beside what the model gave, which may complete an argument. Our runtime says it in the
        request, the plugin next to it."""
        return self.request.defaults or (self.announcement.defaults if self.announcement is not None else {})

    @property
    def as_awaiting(self) -> str:
        """What its card says of the approved call."""
        return f"It waits for {_named(self.awaits)}. The thread says where that can be answered."

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

    def is_about(self, other: AdkRequest) -> bool:
        """Whether both requests are about exactly the same call."""
        return same(self.shown, other.shown)

    def as_call(self) -> Call:
        """This request as the `Call` that waits for people."""
        request, announced = self.request, self.announcement
        arguments, edits = request.call.arguments, announced is not None and announced.edits
        schema = self.schema if self.ask is Ask.INPUT else announced.payload_schema if announced else None
        return Call(
            id=self.call_id,
            tool=request.call.name or "",
            args={**arguments, **self.defaults},
            defaults=tuple(name for name in self.defaults if name not in arguments),
            agent=request.author,
            invocation_id=request.invocation_id,
            title=announced.title if announced else None,
            gate=GateKind.INPUT if self.ask is Ask.INPUT else GateKind.STATIC if edits else GateKind.DYNAMIC,
            state=CallState.HELD,
            asked=(
                HeldRequest(
                    request.id,
                    request.hint,
                    request.payload,
                    schema,
                    preview=self.preview,
                    attempts=(announced.attempts or 0) if announced else 0,
                ),
            ),
            tool_schema=announced.schema if announced else None,
        )

    def for_people(self, schemas: Mapping[str, JsonObject]) -> HostRequest:
        """The request as people are asked. `schemas`: what the server says about its tools' parameters."""
        call, request = self.as_call(), self.request
        if self.ask is Ask.INPUT:
            return request_about(call, self.ask, self.siblings)
        declared = schemas.get(call.tool)
        foreign = self.announcement is None or not self.announcement.bound
        about = request_about(
            replace(call, tool_schema=call.tool_schema or declared),
            self.ask,
            self.siblings,
            misfit=_misfit(declared, request.call.arguments) if foreign and declared else "",
            unbound=foreign and not declared,
        )
        if self.announcement is None:
            return about
        before, unseen = self.announcement.approved_preview, self.announcement.edited_unseen
        return replace(about, approved_preview=before, edited_unseen=unseen)


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


def _misfit(schema: JsonObject, arguments: JsonObject) -> str:
    try:
        return misfit(schema, arguments)
    except Invalid as error:
        return str(error)


# What an event asks


def asked_in(event: HostEvent) -> Iterator[AdkRequest]:
    """The requests in an event. Raises `Invalid` for one that can't be understood."""
    siblings = canonical([event.invocation_id, event.branch or "", event.author]) if event.invocation_id else ""
    for request in requests_in(event):
        asks = AdkRequest(request, request.id, siblings=siblings)
        yield replace(asks, announcement=announcement_about(event.custom_metadata, asks.call_id))
    for call in _waiting_calls(event):
        named = bound_to_event(call.id or "", event.id)
        if call.name == REQUEST_INPUT:
            asks = _node(event, call, named) if _of_node(call) else _question(event, call, named)
        elif not (call.name or "").startswith(OF_THE_FRAMEWORK):
            asks = _tool(event, call, named)
        else:
            continue
        yield replace(asks, announcement=announcement_about(event.custom_metadata, asks.part_id))


def _waiting_calls(event: HostEvent) -> Iterator[FunctionCall]:
    waiting = event.pausing_ids()
    return (call for call in event.calls() if call.id and call.id in waiting)


def _of_node(call: FunctionCall) -> bool:
    return (call.id or "").startswith(WORKFLOW_CONFIRMATION)


def _node(event: HostEvent, call: FunctionCall, named: str) -> AdkRequest:
    args = call.arguments
    payload = as_object(args.get("payload"))
    about = FunctionCall(id=named, name=as_text(payload.get("tool_name")), args=as_object(payload.get("args")))
    if not about.name:
        raise Invalid("A workflow's node asks for a confirmation without naming its tool; it is left out.")
    request = _request(event, about, as_text(args.get("message")), payload.get("confirmation_payload"))
    return AdkRequest(request, call.id or "", Ask.NODE)


def _question(event: HostEvent, call: FunctionCall, named: str) -> AdkRequest:
    args = call.arguments
    by_node = "interruptId" in args or "interrupt_id" in args
    # `flow@1/ask@2` is the second run of the node `ask`.
    node = event.node_info.path.rpartition("/")[2].partition("@")[0] or event.author
    name = as_text(args.get("toolName")) or (node if by_node else "") or QUESTION_TOOL
    payload = args.get("payload")
    arguments: JsonObject = payload if isinstance(payload, dict) else {} if payload is None else {"payload": payload}
    request = _request(event, FunctionCall(id=named, name=name, args=arguments), as_text(args.get("message")))
    request = replace(request, defaults=as_object(args.get("defaults")))
    schema = args.get("response_schema", args.get("responseSchema"))
    return AdkRequest(request, call.id or "", Ask.INPUT, schema if isinstance(schema, dict) else None, by_node)


def _tool(event: HostEvent, call: FunctionCall, named: str) -> AdkRequest:
    """A choice between several options, or a long-running operation."""
    request, options = _request(event, FunctionCall(id=named, name=call.name, args=call.args)), _options(call)
    schema: JsonObject | None = {"type": "string", "enum": options, "title": "Choice"} if options else None
    return AdkRequest(request, call.id or "", Ask.INPUT if options else Ask.OPERATION, schema, by_node=False)


def _options(call: FunctionCall) -> list[Json]:
    options = call.arguments.get("options") if call.name == CHOICE_TOOL else None
    if not isinstance(options, list) or not all(isinstance(one, str) and one for one in options):
        return []
    return options if len(options) == len({*map(str, options)}) else []


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


# What nobody can answer from here

NOT_RESUMED = "which AgentTool cannot resume"
"""Part of google-adk's response if something waits inside an agent that is used as a tool."""

UNKNOWN = (
    "The agent waits for {name}, which can't be answered from Slack. To continue, answer it in another client of the "
    "agent, such as its own web page, or tell the agent what to do instead."
)
SIGN_IN = (
    "{name} needs a sign-in before it can run, and the agent asked no client for one, so nobody can answer it, here or "
    "elsewhere. Whoever runs the agent gives the tool its credential; then ask again."
)
AGENT_TOOL = (
    "{name} is an agent used as a tool, and something in it wanted to ask people. google-adk can't resume that, so "
    "nobody was asked and nothing ran. Make {name} a sub-agent instead of an AgentTool."
)
ASKED_TWICE = (
    "{name} asked for one more approval after it had one. google-adk passes only the first on, so nobody can answer "
    "the second. Let it ask for everything at once."
)
ONE_ID = (
    "The agent waits for several calls that have the same id, so nobody can answer for one of them, and none runs. Let "
    "its model give each call an id of its own; then ask again."
)
LONG_RUNNING = "{name} is a long-running operation: it has begun, and its result comes later."


def other_waits_in(event: HostEvent) -> Iterator[tuple[str, UnansweredWait]]:
    """The other things that an event waits for, by call id. An agent that is used as a tool gives up at once what waits
    in it."""
    for call in _waiting_calls(event):
        name = call.name or ""
        if name.startswith(OF_THE_FRAMEWORK) and name not in (REQUEST_CONFIRMATION, REQUEST_INPUT):
            yield call.id or "", unanswered(event, call.id or "", name, UNKNOWN.format(name=_named(name)))
    for response in event.responses():
        if kind := awaited(event, response):
            text = UNKNOWN.format(name=_named(kind)) if kind == response.name else SIGN_IN.format(name=response.name)
            yield pause_of(response.id or ""), unanswered(event, response.id or "", kind, text)
        if response.id and NOT_RESUMED in str((response.response or {}).get(_RESULT)):
            text = AGENT_TOOL.format(name=response.name or "it")
            yield f"{response.id}!", unanswered(event, response.id, "AgentTool", text)
    there = {call.id or "" for call in event.calls()} | {given.id or "" for given in event.responses()}
    for shared in there & {*event.long_running_tool_ids} - event.pausing_ids():
        yield f"{shared}!shared", unanswered(event, shared, "one id", ONE_ID)


def awaited(event: HostEvent, response: FunctionResponse) -> str:
    """What a response says that its call waits for, such as `adk_request_credential`. Such a response is no result, and
    what it carries is only for the client that answers it. Empty if the call does not wait, or for a confirmation."""
    call_id, name = response.id or "", response.name or ""
    if call_id in event.actions.requested_auth_configs:
        return REQUEST_CREDENTIAL
    goes_on = response.will_continue or call_id in event.long_running_tool_ids
    return name if goes_on and name.startswith(OF_THE_FRAMEWORK) and name != REQUEST_CONFIRMATION else ""


def _named(kind: str) -> str:
    return "a sign-in" if kind == REQUEST_CREDENTIAL else kind


def pause_of(call_id: str) -> str:
    """The key of what a call waits for after it was approved."""
    return f"{call_id}!waits"


def sign_ins_in(event: HostEvent) -> Iterator[str]:
    """The keys of the calls for which the agent asks its clients for a sign-in."""
    calls = (call for call in _waiting_calls(event) if call.name == REQUEST_CREDENTIAL)
    return (pause_of(as_text(call.arguments.get("functionCallId"))) for call in calls)


def unanswered(event: HostEvent, call_id: str, kind: str, text: str) -> UnansweredWait:
    return UnansweredWait(kind=kind, said=_wait(f"{call_id}@{event.id}", event.author, text, event.invocation_id))


def unfinished_operation(asks: AdkRequest, schemas: Mapping[str, JsonObject]) -> UnansweredWait:
    """A long-running operation that has begun, with its tool's first response. As JSON, since a policy may hide some of
    it by name."""
    request = asks.for_people(schemas)
    note = canonical(asks.before) if asks.before else ""
    said = _wait(request.request_id, request.agent, LONG_RUNNING.format(name=request.tool), request.invocation_id)
    return UnansweredWait(kind="long running", said=said, request=replace(request, hint=note))


def _wait(key: str, author: str, text: str, invocation: str) -> AgentMessage:
    return AgentMessage(event=f"waits:{key}", author=author, text=text, invocation_id=invocation, failed=True)


# Answers


def form_of(schema: JsonObject | None) -> tuple[JsonObject, JsonObject]:
    """The schema of the form to fill in, and its first values: one input for each field, or one for the whole answer.

    The first values are the fields' defaults, because google-adk gives its node a null for a field that is left out.
    """
    if has_fields(schema):
        properties = as_object((schema or {}).get("properties"))
        defaults: JsonObject = {
            name: rules["default"]
            for name, rules in properties.items()
            if isinstance(rules, dict) and "default" in rules
        }
        return schema or {}, defaults
    shared = {name: part for name, part in (schema or {}).items() if name in ("$defs", "definitions")}
    whole: JsonObject = {name: part for name, part in (schema or {}).items() if name not in shared}
    form: JsonObject = {"$comment": WHOLE, "type": "object", "properties": {PAYLOAD: whole or {"type": "string"}}}
    return {**form, "required": [PAYLOAD], **shared}, {}


def has_fields(schema: JsonObject | None) -> bool:
    return bool(as_object((schema or {}).get("properties")))


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
    name = CHOICE_TOOL if tool == CHOICE_TOOL else REQUEST_INPUT
    if answer.confirmed:
        return FunctionResponse(id=part, name=name, response=_response(asks, answer.payload))
    if asks.takes_errors:
        return FunctionResponse(id=part, name=name, response={"error": answer.reason or NO_ANSWER})
    return None


def _response(asks: AdkRequest, payload: Json) -> JsonObject:
    """The response for an answer. google-adk takes the single value out of `{"result": …}`, and parses a text in it
    that is JSON."""
    value = answer_from_form(form_of(asks.schema)[0], payload)
    if has_fields(asks.schema):
        return answer_to_question(value)
    if asks.by_node and isinstance(value, str) and _is_json(value):
        value = json.dumps(value, ensure_ascii=False)
    return {_RESULT: value}


def answer_from_form(form: JsonObject | None, payload: Json) -> Json:
    """The answer, from what was filled into a form of this schema (`form_of`)."""
    filled = as_object(payload)
    return filled.get(PAYLOAD) if form is not None and form.get("$comment") == WHOLE else filled


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def read_stored_answer(asks: AdkRequest, response: FunctionResponse) -> Answer:
    """Reads an answer from the session. For a node's confirmation any answer counts, in any form. Raises `Invalid` for
    one to a confirmation that no server accepts."""
    given, request = response.response or {}, asks.request.id
    if asks.ask is Ask.CONFIRMATION:
        return read_answer(response)
    if asks.ask is Ask.OPERATION:
        return Answer(request, confirmed=given.get(_STATUS) != REJECTED, payload=response.response)
    if asks.ask is Ask.INPUT:
        return Answer(request, confirmed=asks.by_node or list(given) != ["error"], payload=response.response)
    if list(given) == [_RESULT]:
        given = {"response": given[_RESULT]}
    try:
        return read_answer(FunctionResponse(id=request, name=REQUEST_CONFIRMATION, response=given))
    except Invalid:
        return Answer(request, confirmed=False)
