"""Reads and writes the two parts of the protocol, the request and the answer, and reads messages. Pure.

A client needs one rule: answer with the id of the part that asked.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ValidationError

from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import DEEPEST, Json, JsonObject, NotJson, as_json, canonical, read_json, same
from adk_confirm.runtime.wire import (
    REQUEST_CONFIRMATION,
    REQUEST_INPUT,
    REQUEST_NAMES,
    USER,
    ConfirmationRequest,
    Content,
    Dialect,
    Event,
    FunctionCall,
    FunctionResponse,
    Part,
)

log = logging.getLogger(__name__)

NO_ANSWER = "nobody answered"
_ANSWER_KEYS = {"confirmed", "payload", "hint", "reason"}


@dataclass(frozen=True)
class Request:
    """A request as a client reads it from an event, in either dialect."""

    id: str
    call: FunctionCall
    hint: str
    payload: Json
    author: str
    invocation_id: str
    dialect: Dialect
    defaults: JsonObject = field(default_factory=dict)  # the arguments that the tool gets beside those of the call


@dataclass(frozen=True)
class Answer:
    """A person's answer to one request. `id` names the message part that asked. The call's own id is accepted as
    well."""

    id: str
    confirmed: bool
    payload: Json = None
    reason: str | None = None
    question: bool = False  # it answers a question: `payload` is the answer; if it is not confirmed, there is none
    preview: Preview | None = None  # the edited call's preview, as people saw it; no client can send this

    def says_the_same(self, other: Answer) -> bool:
        mine, others = ([one.id, one.confirmed, one.payload, one.reason, one.question] for one in (self, other))
        return same(mine, others)

    def as_content(self) -> Content:
        return Content(role="user", parts=[self.as_part()])

    def as_part(self) -> Part:
        """The bare form, which every ADK implementation accepts. A reason is part of the payload, since Python ADK
        refuses unknown keys."""
        if self.question:
            given = answer_to_question(self.payload) if self.confirmed else {"error": self.reason or NO_ANSWER}
            return Part(function_response=FunctionResponse(id=self.id, name=REQUEST_INPUT, response=given))
        response: JsonObject = {"confirmed": self.confirmed}
        payload = self.payload
        if self.confirmed and self.reason:  # a note, which only our own runtime takes
            response["reason"] = self.reason
        if not self.confirmed and self.reason and (payload is None or isinstance(payload, dict)):
            payload = {**(payload or {}), "reason": self.reason}
        if payload is not None:
            response["payload"] = payload
        return Part(function_response=FunctionResponse(id=self.id, name=REQUEST_CONFIRMATION, response=response))


def original_call_from(request: FunctionCall | FunctionResponse) -> FunctionCall:
    """The call that a request is about, typed or as a plain map. Anything else is an error."""
    carried = request.args if isinstance(request, FunctionCall) else request.response
    original: object = (carried or {}).get("originalFunctionCall")
    if original is None:
        original = (carried or {}).get("original_function_call")
    if original is None:
        raise Invalid("The confirmation request carries no originalFunctionCall: it does not say what it is about.")
    if not isinstance(original, Mapping):
        raise Invalid(
            f"originalFunctionCall must be a function call or a map, not {type(original).__name__}: "
            "send an object with id, name and args."
        )
    try:
        call = FunctionCall.model_validate(original)
    except ValidationError as error:
        raise Invalid(f"originalFunctionCall is malformed at {_first_problem(error)}.") from error
    if not call.name:
        raise Invalid("originalFunctionCall has no name: it does not say which tool it is about.")
    return call


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False)[0]
    return f"{'.'.join(str(step) for step in problem['loc'])}: {problem['msg']}"


def requests_in(event: Event) -> Iterator[Request]:
    """All requests in an event, in either dialect. Partial events and a user's events have none.
    What a model calls or a tool returns under this name is no request."""
    if event.partial or event.author == USER:
        return
    waiting = event.pausing_ids()
    for part in (event.content.parts if event.content else None) or ():
        asking: FunctionCall | FunctionResponse | None = part.function_call or part.function_response
        if asking is None or asking.name != REQUEST_CONFIRMATION or asking.id not in waiting:
            continue
        carried = asking.args if isinstance(asking, FunctionCall) else asking.response
        call = original_call_from(asking)
        try:
            request = ConfirmationRequest.model_validate(carried)
        except ValidationError as error:
            raise Invalid(f"The confirmation request {asking.id} is malformed at {_first_problem(error)}.") from error
        assert asking.id is not None
        if isinstance(asking, FunctionResponse) and not call.id:
            call = call.model_copy(update={"id": asking.id})
        yield Request(
            id=asking.id,
            call=call,
            hint=request.tool_confirmation.hint,
            payload=request.tool_confirmation.payload,
            author=event.author,
            invocation_id=event.invocation_id,
            dialect="call" if isinstance(asking, FunctionCall) else "response",
            defaults=request.defaults or {},
        )


_RESULT = "result"


def answer_to_question(value: Json) -> JsonObject:
    """The response to a question. Objects stay as they are. Other values, and objects that look like the wrapping,
    become `{"result": …}`."""
    return value if isinstance(value, dict) and list(value) != [_RESULT] else {_RESULT: value}


def read_input(part: FunctionResponse) -> Answer:
    """Reads an answer to a question. `{"error": "…"}` means that nobody answered."""
    if not part.id:
        raise Invalid("The answer has no id: send the id of the adk_request_input part that asked.")
    if part.response is None:
        raise Invalid('The answer has no response: send an object, or {"result": …}.')
    if list(part.response) == ["error"]:
        why = part.response["error"]
        return Answer(part.id, False, reason=why if isinstance(why, str) else None, question=True)
    value = part.response[_RESULT] if list(part.response) == [_RESULT] else part.response
    return Answer(part.id, True, value, question=True)


def read_answer(part: FunctionResponse) -> Answer:
    """Reads an answer in any accepted form: bare, `{"toolConfirmation": …}`, `{"response": … or its JSON text}`.

    Only the JSON boolean `true` approves. `{}` denies. Anything else that is malformed raises `Invalid`.
    """
    if not part.id:
        raise Invalid("The answer has no id: send the id of the adk_request_confirmation part that asked.")
    if part.response is None:
        raise Invalid('The answer has no response: send {"confirmed": true} or {"confirmed": false}.')
    body = _unwrap(part.response)
    unknown = sorted(set(body) - _ANSWER_KEYS)
    if unknown:
        raise Invalid(f"The answer has the unknown key {unknown[0]!r}: send only 'confirmed' and 'payload'.")
    confirmed = body.get("confirmed", False)
    if not isinstance(confirmed, bool):
        raise Invalid(f"'confirmed' must be true or false, not {json.dumps(confirmed)}: nothing was decided.")
    if not isinstance(body.get("hint"), str | None):
        raise Invalid(f"'hint' must be a text, not {json.dumps(body['hint'])}: nothing was decided.")
    payload = body.get("payload")
    reason = body.get("reason")
    if confirmed:
        return Answer(part.id, True, payload, reason if isinstance(reason, str) and reason.strip() else None)
    if reason is None and isinstance(payload, dict):
        reason = payload.get("reason")
    return Answer(part.id, False, reason=reason if isinstance(reason, str) and reason.strip() else None)


def _unwrap(response: Json) -> JsonObject:
    if isinstance(response, str):
        try:
            response = read_json(response, DEEPEST)
        except NotJson as error:
            raise Invalid(
                f"The answer's response is text that can't be read as JSON: {error}. Send an object with 'confirmed'."
            ) from error
    if not isinstance(response, dict):
        raise Invalid(f"The answer's response must be an object, not {json.dumps(response)}.")
    if len(response) == 1:
        for wrapper in ("toolConfirmation", "tool_confirmation", "response"):
            if wrapper in response:
                return _unwrap(response[wrapper])
    return response


# A message to a session: a person's words or answers to requests, never both

RunInput = str | Answer | BaseModel | Mapping[str, object]
"""Words, an answer, or a whole message: a `Content`, google-genai's own, or the JSON of one."""

_ADKS_OWN = "__adk_internal_"


@dataclass(frozen=True)
class IncomingMessage:
    """A message that was read. Without content nothing was said, and the agent continues with what it knows."""

    content: Content | None
    answers: tuple[Answer, ...] = ()
    means_nothing: bool = False  # responses that are not answers here
    foreign: tuple[str, ...] = ()  # ids for which a client sent a result in place of the tool
    state_delta: JsonObject | None = None

    def content_of(self, answer: Answer) -> Part:
        parts = self.content.parts if self.content else None
        return next(p for p in parts or () if p.function_response and p.function_response.id == answer.id)


def read_message(message: RunInput | None, state_delta: JsonObject | None = None) -> IncomingMessage:
    """Reads a message. Raises `Invalid` if it can't be acted on; then nothing is stored."""
    if message is None:
        return IncomingMessage(None, state_delta=state_delta)
    content = _storable_content(_as_content(message))
    responses = [p.function_response for p in content.parts or () if p.function_response]
    if not responses:
        return _words(content, state_delta)
    if len(responses) < len(content.parts or ()):
        raise Invalid("An answer must come alone: send text in a message of its own.")
    answers: dict[str, Answer] = {}
    kept: list[Part] = []
    for response in responses:
        if response.name not in REQUEST_NAMES or not response.id:
            _warn(response)
            continue
        answer = read_answer(response) if response.name == REQUEST_CONFIRMATION else read_input(response)
        if answer.id in answers and not answers[answer.id].says_the_same(answer):
            raise Invalid(f"The message answers {answer.id} twice, and differently: send one answer.")
        if answer.id not in answers:
            kept.append(Part(function_response=response))
        answers[answer.id] = answer
    foreign = tuple(str(r.id) for r in responses if r.id and r.name not in (None, *REQUEST_NAMES))
    return IncomingMessage(Content(role="user", parts=kept), tuple(answers.values()), not kept, foreign, state_delta)


def answers_in(event: Event) -> tuple[Answer, ...]:
    """All answers in an event of a user, in their order; one without an id is left out with a warning. Events of other
    authors have none. Raises `Invalid` if one is malformed."""
    return read_message(event.content).answers if event.author == USER else ()


def _as_content(message: RunInput) -> Content:
    match message:
        case str():
            return Content.of_text(message)
        case Content():
            return message
        case Answer():
            return message.as_content()
    try:
        if isinstance(message, BaseModel):
            content = Content.model_validate_json(message.model_dump_json(by_alias=True, exclude_none=True))
        else:
            content = Content.model_validate(message)
    except ValueError as error:
        raise _no_message() from error
    if content.parts is None:
        raise _no_message()
    return content


def _no_message() -> Invalid:
    return Invalid("A message is a text, an Answer, or a Content with its parts. This is something else.")


def _words(content: Content, state_delta: JsonObject | None) -> IncomingMessage:
    if any(part.function_call for part in content.parts or ()):
        raise Invalid("A user's message cannot call functions: send text, files, or answers.")
    return IncomingMessage(content.model_copy(update={"role": "user"}), state_delta=state_delta)


def _warn(response: FunctionResponse) -> None:
    what = "without an id" if not response.id else f"named {response.name!r}"
    log.warning("dropped a function response %s: only adk_request_confirmation answers anything here", what)


def check_state(delta: JsonObject | None) -> None:
    """Raises `Invalid` for state that can't be written as JSON."""
    _check(delta or {}, "state")


def kept_metadata(given: JsonObject | None) -> JsonObject | None:
    """The sender's metadata to keep with the events of a run. Names that ADK reserves are dropped, as ADK does."""
    _check(given or {}, "custom metadata")
    return {name: value for name, value in (given or {}).items() if not name.startswith(_ADKS_OWN)} or None


def _storable_content(content: Content) -> Content:
    """The message as it will be read from the store."""
    for part in content.parts or ():
        if part.function_response:
            _check(part.function_response.response, "answer")
    try:
        return Content.model_validate_json(content.to_json())
    except ValueError as error:
        raise Invalid(f"The message cannot be written as JSON: {error}. Nothing was stored.") from error


def _check(value: Json, what: str) -> None:
    """Refuses values that JSON can't represent, since they would be different when they are read again."""
    try:
        as_json(value)
        canonical(value)  # `as_json` turns NaN into null
    except (Invalid, ValueError) as error:
        raise Invalid(f"The {what} cannot be written as JSON: {error} Nothing was stored.") from error
