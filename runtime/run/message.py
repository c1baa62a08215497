"""A message to a session: a person's words or answers to requests, never both. Pure."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from adk_confirm.runtime.confirming import Answer, read_answer, read_input
from adk_confirm.runtime.context import as_json
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject, canonical
from adk_confirm.runtime.wire import REQUEST_CONFIRMATION, REQUEST_NAMES, Content, FunctionResponse, Part

log = logging.getLogger(__name__)

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
