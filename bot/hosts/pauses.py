"""Reads from an agent's events what it waits for besides `adk_request_confirmation`. Pure.

google-adk 2 has questions (`adk_request_input`), confirmations of a workflow's nodes (the same call with its own id)
and long-running tools. People are told about sign-ins (`adk_request_credential`) and about kinds that a later version
adds, and nothing is answered.

A workflow's node uses the same id each time it asks. So a request here is the question of one event (`bound_to_event`),
and `part_id` is the id that ADK sends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bot.confirmation.model import Ask, HostRequest
from bot.hosts.host import AgentMessage, UnansweredWait
from runtime.adk.signing import REQUEST_CREDENTIAL, REQUEST_INPUT, WORKFLOW_CONFIRMATION, bound_to_event
from runtime.confirming import Answer, Request, answer_to_question, read_answer
from runtime.errors import Invalid
from runtime.jsontypes import Json, JsonObject, as_object, as_text, canonical
from runtime.wire import REQUEST_CONFIRMATION, Event, FunctionCall, FunctionResponse

OF_THE_FRAMEWORK = "adk_"
"""The prefix of the names of google-adk's own calls."""

QUESTION_TOOL = "request_input"
"""The name under which google-adk's own tool for questions is imported."""

CHOICE_TOOL = "get_user_choice"
"""google-adk's tool with which a model lets people choose one of several options."""

ANSWER = "answer"
"""The name of the only field of an answer that has no fields of its own."""

_RESULT = "result"
_STATUS, APPROVED, REJECTED = "status", "approved", "rejected"


@dataclass(frozen=True)
class PauseRequest:
    """A question or a node's confirmation, from one event."""

    request: Request
    part_id: str
    ask: Ask
    signed_name: str
    schema: JsonObject | None = None
    by_node: bool = True  # False: a model asks, with a tool

    @property
    def takes_errors(self) -> bool:
        """Whether the agent can be told that nobody answered. google-adk fails if that does not fit the schema."""
        return not self.by_node and (self.schema is None or self.request.call.name == CHOICE_TOOL)

    @property
    def node(self) -> str | None:
        """The path of the node whose call needs confirmation."""
        named = self.part_id.startswith(WORKFLOW_CONFIRMATION)
        return self.part_id.removeprefix(WORKFLOW_CONFIRMATION) if named else None


def pause_requests_in(event: Event, node: str = "") -> Iterator[PauseRequest]:
    """The questions and nodes' confirmations in an event. `node`: the path of the node that wrote the event."""
    waiting = event.pausing_ids()
    for call in event.calls():
        if call.id is None or call.id not in waiting:
            continue
        if call.name == REQUEST_INPUT:
            named = bound_to_event(call.id, event.id)
            made = _confirmation if call.id.startswith(WORKFLOW_CONFIRMATION) else _question
            yield made(event, call, named, node)
        elif not (call.name or "").startswith(OF_THE_FRAMEWORK):
            yield _choice(event, call) or _operation(event, call)


def other_waits_in(event: Event) -> Iterator[tuple[str, UnansweredWait]]:
    """The other things that an event waits for, by call id."""
    waiting = event.pausing_ids()
    for call in event.calls():
        name = call.name or ""
        asked = name in (REQUEST_CONFIRMATION, REQUEST_INPUT)
        if call.id and call.id in waiting and name.startswith(OF_THE_FRAMEWORK) and not asked:
            what = "a sign-in" if name == REQUEST_CREDENTIAL else name
            yield call.id, _unanswered_wait(event, call.id, name, UNKNOWN.format(name=what))


NOT_RESUMED = "which AgentTool cannot resume"
"""Part of google-adk's answer to a call of an agent used as a tool in which something waits."""
AGENT_TOOL = (
    "{name} is an agent used as a tool, and something in it wanted to ask people. google-adk can't resume that, so "
    "nobody was asked and nothing ran. Make {name} a sub-agent instead of an AgentTool."
)


def stuck_in(event: Event) -> Iterator[tuple[str, UnansweredWait]]:
    """What waited inside an agent that is used as a tool. google-adk gives such requests up at once."""
    for response in event.responses():
        if response.id and NOT_RESUMED in str((response.response or {}).get(_RESULT)):
            name = response.name or "it"
            yield f"{response.id}!", _unanswered_wait(event, response.id, "AgentTool", AGENT_TOOL.format(name=name))


ASKED_TWICE = (
    "{name} asked for one more approval after it had one. google-adk passes only the first on, so nobody can answer "
    "the second. Let it ask for everything at once."
)


def second_request_in(event: Event, call_id: str, tool: str) -> UnansweredWait:
    return _unanswered_wait(event, call_id, "second approval", ASKED_TWICE.format(name=tool))


UNKNOWN = (
    "The agent waits for {name}, which can't be answered from Slack. Nothing was sent to the agent. "
    "To continue, answer it in another client of the agent, such as its own web page, or tell the agent what to do "
    "instead."
)
LONG_RUNNING = "{name} is a long-running operation: it has begun, and its result comes later."


def unfinished_operation(asked: PauseRequest, request: HostRequest, announced: JsonObject | None) -> UnansweredWait:
    """A long-running operation that has begun, with its tool's first response."""
    note = f"It has begun, and waits for its result. It says: {canonical(announced)}" if announced else ""
    said = AgentMessage(
        event=f"waits:{asked.request.id}",
        author=asked.request.author,
        text=LONG_RUNNING.format(name=request.tool),
        invocation_id=asked.request.invocation_id,
        failed=True,
    )
    return UnansweredWait(kind="long running", said=said, request=replace(request, hint=note))


def _unanswered_wait(event: Event, call_id: str, kind: str, text: str) -> UnansweredWait:
    said = AgentMessage(
        event=f"waits:{call_id}@{event.id}",
        author=event.author,
        text=text,
        invocation_id=event.invocation_id,
        failed=True,
    )
    return UnansweredWait(kind=kind, said=said)


def _operation(event: Event, call: FunctionCall) -> PauseRequest:
    named = bound_to_event(call.id or "", event.id)
    about = FunctionCall(id=named, name=call.name, args=call.args)
    return PauseRequest(_request(event, named, about, "", None), call.id or "", Ask.OPERATION, named, by_node=False)


def _choice(event: Event, call: FunctionCall) -> PauseRequest | None:
    options = (call.args or {}).get("options")
    if call.name != CHOICE_TOOL or not isinstance(options, list) or not options:
        return None
    if not all(isinstance(one, str) and one for one in options) or len(options) != len({*map(str, options)}):
        return None
    named = bound_to_event(call.id or "", event.id)
    about = FunctionCall(id=named, name=CHOICE_TOOL, args=call.args)
    schema: JsonObject = {"type": "string", "enum": options, "title": "Choice"}
    return PauseRequest(_request(event, named, about, "", None), call.id or "", Ask.INPUT, named, schema, by_node=False)


def _confirmation(event: Event, call: FunctionCall, named: str, node: str) -> PauseRequest:  # noqa: ARG001  (as `_question`)
    args = call.args or {}
    payload = as_object(args.get("payload"))
    about = FunctionCall(id=named, name=as_text(payload.get("tool_name")), args=as_object(payload.get("args")))
    if not about.name:
        raise Invalid("A workflow's node asks for a confirmation without naming its tool; it is left out.")
    return PauseRequest(
        _request(event, named, about, as_text(args.get("message")), payload.get("confirmation_payload")),
        call.id or "",
        Ask.NODE,
        named,
    )


def _question(event: Event, call: FunctionCall, named: str, node: str) -> PauseRequest:
    args = call.args or {}
    by_node = "interruptId" in args or "interrupt_id" in args
    of_node = (_node_name(node) or event.author) if by_node else QUESTION_TOOL
    name = as_text(args.get("toolName")) or of_node
    payload = args.get("payload")
    arguments: JsonObject = payload if isinstance(payload, dict) else {} if payload is None else {"payload": payload}
    about = FunctionCall(id=named, name=name or QUESTION_TOOL, args=arguments)
    schema = args.get("response_schema", args.get("responseSchema"))
    request = replace(
        _request(event, named, about, as_text(args.get("message")), None), defaults=as_object(args.get("defaults"))
    )
    return PauseRequest(request, call.id or "", Ask.INPUT, named, schema if isinstance(schema, dict) else None, by_node)


def _request(event: Event, named: str, about: FunctionCall, hint: str, payload: Json) -> Request:
    return Request(
        id=about.id or named,
        call=about,
        hint=hint,
        payload=payload,
        author=event.author,
        invocation_id=event.invocation_id,
        dialect="call",
    )


def _node_name(path: str) -> str:
    """`flow@1/ask@2` is the second run of the node `ask`."""
    return path.rpartition("/")[2].partition("@")[0]


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
    plain: JsonObject = {name: part for name, part in (schema or {}).items() if name not in ("$defs", "definitions")}
    whole: JsonObject = {"type": "object", "properties": {ANSWER: plain or {"type": "string"}}, "required": [ANSWER]}
    return {**whole, **{name: (schema or {})[name] for name in ("$defs", "definitions") if name in (schema or {})}}, {}


def has_fields(schema: JsonObject | None) -> bool:
    return bool(as_object((schema or {}).get("properties")))


def answer_part(asked: PauseRequest, answer: Answer, announced: JsonObject | None) -> FunctionResponse | None:
    """The answer in the form that the agent gets. None if nobody answered and the request takes only answers.
    `announced`: a long-running tool's first response; its final response repeats that, with how it ended."""
    if asked.ask is Ask.OPERATION:
        ended: JsonObject = {**(announced or {}), _STATUS: APPROVED if answer.confirmed else REJECTED}
        ended |= {"reason": answer.reason} if answer.reason and not answer.confirmed else {}
        return FunctionResponse(id=asked.part_id, name=asked.request.call.name, response=ended)
    if asked.ask is Ask.NODE:
        response = answer.as_part().function_response
        return FunctionResponse(id=asked.part_id, name=REQUEST_INPUT, response=response.response if response else None)
    name = CHOICE_TOOL if asked.request.call.name == CHOICE_TOOL else REQUEST_INPUT
    if not answer.confirmed:
        if not asked.takes_errors:
            return None
        return FunctionResponse(id=asked.part_id, name=name, response={"error": answer.reason or NO_ANSWER})
    return FunctionResponse(id=asked.part_id, name=name, response=_response(asked, answer.payload))


NO_ANSWER = "nobody answered"


def _response(asked: PauseRequest, payload: Json) -> JsonObject:
    """The response for an answer. google-adk takes the single value out of `{"result": …}`, and parses a text in it
    that is JSON."""
    value = answer_from_form(asked.schema, payload)
    if has_fields(asked.schema):
        return answer_to_question(value)
    if asked.by_node and isinstance(value, str) and _is_json(value):
        value = json.dumps(value, ensure_ascii=False)
    return {_RESULT: value}


def answer_from_form(schema: JsonObject | None, payload: Json) -> Json:
    """The answer, from what was filled into a form (`form_of`)."""
    return as_object(payload) if has_fields(schema) else as_object(payload).get(ANSWER)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def read_stored_answer(asked: PauseRequest, response: FunctionResponse) -> Answer:
    """Reads an answer from the session. For a node's confirmation any answer counts, in any form."""
    if asked.ask is Ask.OPERATION:
        confirmed = (response.response or {}).get(_STATUS) != REJECTED
        return Answer(asked.request.id, confirmed=confirmed, payload=response.response)
    if asked.ask is Ask.INPUT:
        answered = asked.by_node or list(response.response or {}) != ["error"]
        return Answer(asked.request.id, confirmed=answered, payload=response.response)
    answer = response.response or {}
    if list(answer) == [_RESULT]:
        answer = {"response": answer[_RESULT]}
    try:
        found = read_answer(FunctionResponse(id=asked.request.id, name=REQUEST_CONFIRMATION, response=answer))
    except Invalid:
        return Answer(asked.request.id, confirmed=False)
    return found
