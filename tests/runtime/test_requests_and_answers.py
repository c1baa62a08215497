"""Requests and answers, in every spelling that the ADK implementations use, and the malformed ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, canonical
from adk_confirm.runtime.requests_and_answers import Answer, answers_in, original_call_from, read_answer, requests_in
from adk_confirm.runtime.wire import Content, Event, FunctionCall, FunctionResponse

NAME = "adk_request_confirmation"
CALL = {"id": "call-1", "name": "transfer_money", "args": {"amount": 100}}
ASKED = {"originalFunctionCall": CALL, "toolConfirmation": {"hint": "Approve this transfer?", "confirmed": False}}


def answered(response: Any, id_: str | None = "r-1") -> Answer:
    return read_answer(FunctionResponse.model_construct(id=id_, name=NAME, response=response))


def event(*parts: Any, **more: Any) -> Event:
    waiting = [one["id"] for part in parts for one in part.values() if "id" in one]
    content = {"role": "model", "parts": list(parts)}
    return Event.model_validate(
        {"author": "bank", "invocationId": "e-1", "content": content, "longRunningToolIds": waiting, **more}
    )


def request(dialect: str = "call", id_: str = "r-1") -> dict[str, Any]:
    if dialect == "call":
        return {"functionCall": {"id": id_, "name": NAME, "args": ASKED}}
    return {"functionResponse": {"id": id_, "name": NAME, "response": ASKED, "willContinue": True}}


# Answers


BARE: list[tuple[Any, Answer]] = [
    ({"confirmed": True}, Answer("r-1", True)),
    ({"confirmed": False}, Answer("r-1", False)),
    ({"confirmed": True, "payload": {"approved_days": 3}}, Answer("r-1", True, {"approved_days": 3})),
    ({"confirmed": True, "payload": 0}, Answer("r-1", True, 0)),
    ({"confirmed": True, "payload": [1, None]}, Answer("r-1", True, [1, None])),
    ({"confirmed": True, "payload": None}, Answer("r-1", True)),
    ({"confirmed": True, "hint": "whatever"}, Answer("r-1", True)),
    ({"confirmed": False, "reason": "No money."}, Answer("r-1", False, reason="No money.")),
    ({"confirmed": False, "payload": {"reason": "No money."}}, Answer("r-1", False, reason="No money.")),
    ({"confirmed": False, "payload": {"amount": 5}}, Answer("r-1", False)),
    ({"confirmed": False, "payload": "no"}, Answer("r-1", False)),
    ({"confirmed": False, "reason": "  "}, Answer("r-1", False)),
    ({"confirmed": False, "reason": 5}, Answer("r-1", False)),
    ({"payload": {"amount": 5}}, Answer("r-1", False)),
    ({}, Answer("r-1", False)),
]
WRAPPED: dict[str, Callable[[Any], Any]] = {
    "bare": lambda body: body,
    "toolConfirmation": lambda body: {"toolConfirmation": body},
    "tool_confirmation": lambda body: {"tool_confirmation": body},
    "response": lambda body: {"response": body},
    "JSON text": lambda body: {"response": json.dumps(body)},
    "both": lambda body: {"response": {"toolConfirmation": body}},
}


@pytest.mark.parametrize("wrapping", WRAPPED)
def test_an_answer_is_understood_in_every_spelling(wrapping: str) -> None:
    for body, answer in BARE:
        assert answered(WRAPPED[wrapping](body)) == answer, body


NOT_JSON = "The answer's response is text that can't be read as JSON: {}. Send an object with 'confirmed'.".format
NO_NUMBER = "{} is not a JSON number, or is too large a number".format


@pytest.mark.parametrize(
    ("response", "sentence"),
    [
        ({"confirmed": "true"}, "'confirmed' must be true or false, not \"true\": nothing was decided."),
        ({"confirmed": 1}, "'confirmed' must be true or false, not 1: nothing was decided."),
        ({"confirmed": None}, "'confirmed' must be true or false, not null: nothing was decided."),
        (None, 'The answer has no response: send {"confirmed": true} or {"confirmed": false}.'),
        ({"confirmed": True, "hint": 5}, "'hint' must be a text, not 5: nothing was decided."),
        ({"confirmed": [True]}, "'confirmed' must be true or false, not [true]: nothing was decided."),
        (
            {"confirmed": True, "originalFunctionCall": CALL},
            "The answer has the unknown key 'originalFunctionCall': send only 'confirmed' and 'payload'.",
        ),
        (
            {"confirmed": True, "toolConfirmation": {"confirmed": True}},
            "The answer has the unknown key 'toolConfirmation': send only 'confirmed' and 'payload'.",
        ),
        ({"response": "yes"}, NOT_JSON("Expecting value")),
        ({"response": '{"confirmed": NaN}'}, NOT_JSON(NO_NUMBER("NaN"))),
        (
            {"response": '{"confirmed": false, "confirmed": true}'},
            NOT_JSON('the name "confirmed" appears twice in one object: which value is meant?'),
        ),
        ({"response": '{"confirmed": true, "payload": Infinity}'}, NOT_JSON(NO_NUMBER("Infinity"))),
        ({"response": "true"}, "The answer's response must be an object, not true."),
        ({"toolConfirmation": [True]}, "The answer's response must be an object, not [true]."),
        ({"toolConfirmation": None}, "The answer's response must be an object, not null."),
    ],
)
def test_a_malformed_answer_decides_nothing_and_says_why(response: Any, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        answered(response)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("missing", [None, ""])
def test_an_answer_without_an_id_answers_nothing(missing: str | None) -> None:
    with pytest.raises(Invalid, match="has no id: send the id of the adk_request_confirmation part that asked"):
        answered({"confirmed": True}, missing)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(["confirmed", "payload", "reason", "hint", "response", "toolConfirmation"]) | st.text(max_size=5)


@given(st.dictionaries(keys, values, max_size=4))
def test_only_the_json_boolean_true_approves(body: dict[str, Any]) -> None:
    try:
        answer = answered(body)
    except Invalid:
        return
    if answer.confirmed:
        inner: Any = body
        while len(inner) == 1 and not inner.get("confirmed"):
            inner = next(iter(inner.values()))
            inner = json.loads(inner) if isinstance(inner, str) else inner
        assert inner["confirmed"] is True


@given(st.booleans(), values, st.none() | st.text(min_size=1).filter(str.strip))
def test_an_answer_is_read_as_it_was_written(confirmed: bool, payload: Json, reason: str | None) -> None:
    said = Answer("r-1", confirmed, payload, None) if confirmed else Answer("r-1", False, reason=reason)
    content = said.as_content()
    assert content.role == "user"
    [part] = content.responses()
    assert (part.id, part.name) == ("r-1", NAME)
    assert set(part.response or {}) <= {"confirmed", "payload"}, "Python ADK refuses other keys"
    heard = read_answer(FunctionResponse.model_validate_json(part.to_json()))
    assert (heard.confirmed, heard.reason) == (said.confirmed, said.reason)
    assert canonical(heard.payload) == canonical(said.payload)


# The call that a request is about


NO_ORIGINAL = "The confirmation request carries no originalFunctionCall: it does not say what it is about."


@pytest.mark.parametrize(
    "carrying",
    [
        FunctionCall(name=NAME, args=ASKED),
        FunctionCall(name=NAME, args={"original_function_call": CALL}),
        FunctionCall.model_validate({"name": NAME, "args": {"originalFunctionCall": FunctionCall(**CALL)}}),
        FunctionCall.model_validate({"name": NAME, "args": {"originalFunctionCall": types.FunctionCall(**CALL)}}),
        FunctionResponse(name=NAME, response=ASKED),
    ],
    ids=["map", "snake", "typed", "google's own type", "response dialect"],
)
def test_the_original_call_is_found_typed_or_as_a_map(carrying: FunctionCall | FunctionResponse) -> None:
    assert original_call_from(carrying) == FunctionCall(id="call-1", name="transfer_money", args={"amount": 100})


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (None, NO_ORIGINAL),
        ({}, NO_ORIGINAL),
        ({"originalFunctionCall": None}, NO_ORIGINAL),
        (
            {"originalFunctionCall": "transfer_money"},
            "originalFunctionCall must be a function call or a map, not str: send an object with id, name and args.",
        ),
        (
            {"originalFunctionCall": [CALL]},
            "originalFunctionCall must be a function call or a map, not list: send an object with id, name and args.",
        ),
        (
            {"originalFunctionCall": {"name": "transfer_money", "args": "amount=100"}},
            "originalFunctionCall is malformed at args: Input should be a valid dictionary.",
        ),
        (
            {"originalFunctionCall": {"name": 5}},
            "originalFunctionCall is malformed at name: Input should be a valid string.",
        ),
        ({"originalFunctionCall": {}}, "originalFunctionCall has no name: it does not say which tool it is about."),
    ],
)
def test_a_missing_or_malformed_original_call_is_an_error(args: Any, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        original_call_from(FunctionCall(name=NAME, args=args))
    assert str(caught.value) == sentence


# Answers in events


def response(id_: str | None, given: Any, name: str = NAME) -> dict[str, Any]:
    return {"functionResponse": {"id": id_, "name": name, "response": given}}


def test_an_event_of_a_user_has_its_answers_in_order() -> None:
    given = [response("r-2", {"confirmed": True}), response(None, {"confirmed": True}), response("x", {}, "deploy")]
    said = event(
        *given, response("r-1", {"toolConfirmation": {"confirmed": False}}), author="user", longRunningToolIds=[]
    )
    assert answers_in(said) == (Answer("r-2", True), Answer("r-1", False))
    assert answers_in(event({"text": "hello"}, author="user")) == ()


def test_what_an_agent_says_in_this_form_is_no_answer() -> None:
    assert answers_in(event(response("r-1", {"confirmed": True}))) == ()


def test_a_malformed_answer_in_an_event_is_an_error() -> None:
    with pytest.raises(Invalid, match="'confirmed' must be true or false"):
        answers_in(event(response("r-1", {"confirmed": "yes"}), author="user"))


# Requests in events, as each implementation sends them


def test_adk_rs_asks_with_a_response_of_the_calls_id() -> None:
    [found] = requests_in(event(request("response", "call-1")))
    assert (found.id, found.call.id, found.dialect) == ("call-1", "call-1", "response")
    nameless = {"originalFunctionCall": {"name": "transfer_money"}, "toolConfirmation": {"hint": "?"}}
    part = {"functionResponse": {"id": "call-7", "name": NAME, "response": nameless}}
    [found] = requests_in(event(part))
    assert found.call.id == "call-7", "there the request's id is the call's"


def test_several_requests_keep_their_order_between_other_parts() -> None:
    parts = [{"text": "I need"}, request(id_="r-1"), {"functionCall": {"id": "x", "name": "other"}}, request(id_="r-2")]
    assert [found.id for found in requests_in(event(*parts))] == ["r-1", "r-2"]


@pytest.mark.parametrize(
    "silent",
    [
        event(request(), partial=True),
        event(request(), author="user"),
        event(request(), longRunningToolIds=None),
        event(request("response", "call-1"), longRunningToolIds=["r-1"]),
        event(request(), {"functionCall": {"id": "r-1", "name": "report"}}),
        event({"functionCall": {"name": NAME, "args": ASKED}}),
        event({"functionCall": {"id": "r-1", "name": "transfer_money", "args": ASKED}}),
        event({"functionResponse": {"id": "call-1", "name": "transfer_money", "response": {"error": "confirm"}}}),
        Event(author="bank"),
        Event(author="bank", content=Content()),
    ],
    ids=[
        "partial",
        "the user's own",
        "a model's call",
        "a tool's result",
        "two with one id",
        "no id",
        "another name",
        "placeholder",
        "no content",
        "no parts",
    ],
)
def test_nothing_else_asks(silent: Event) -> None:
    assert list(requests_in(silent)) == []


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (
            {"originalFunctionCall": CALL},
            "The confirmation request r-1 is malformed at toolConfirmation: Field required.",
        ),
        (
            {"originalFunctionCall": CALL, "toolConfirmation": {"confirmed": "perhaps"}},
            "The confirmation request r-1 is malformed at toolConfirmation.confirmed: Input should be a valid boolean, "
            "unable to interpret input.",
        ),
        ({"toolConfirmation": {"hint": "?"}}, NO_ORIGINAL),
    ],
)
def test_a_malformed_request_is_an_error_not_a_silence(args: Any, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        list(requests_in(event({"functionCall": {"id": "r-1", "name": NAME, "args": args}})))
    assert str(caught.value) == sentence
