"""Requests and answers that ADK Go's and adk-rs's own packages make are read here, and ours by them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.requests_and_answers import Answer, original_call_from, read_answer, requests_in
from adk_confirm.runtime.wire import (
    REQUEST_CONFIRMATION,
    ConfirmationRequest,
    Event,
    FunctionCall,
    FunctionResponse,
    ToolConfirmation,
)
from tests.support.foreign.kinds import KINDS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CALL: JsonObject = {"id": "c1", "name": "reimburse", "args": {"amount": 1500}}
PAYLOADS: Sequence[Json] = (None, 3, "x", [1, {"a": None}], {"days": 0})


def told(program: str, line: JsonObject) -> Any:
    (kind,) = [kind for kind in KINDS if kind.name == program]
    written = json.dumps(line) + "\n"
    ran = subprocess.run([*kind.command(), "vectors"], input=written, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


def carried(payload: Json) -> JsonObject:
    """What our own runtime puts into a request, in either dialect."""
    call, asks = FunctionCall.model_validate(CALL), ToolConfirmation(hint="May it?", payload=payload)
    made = ConfirmationRequest(original_function_call=call, tool_confirmation=asks, defaults={"currency": "EUR"})
    return made.to_dict()


@pytest.mark.parametrize("payload", PAYLOADS, ids=json.dumps)
@pytest.mark.parametrize("program", ["go", "rust"])
def test_a_request_is_read_alike_on_both_sides(program: str, payload: Json) -> None:
    ours = carried(payload)
    if program == "go":
        found = told("go", {"id": "r1", "name": REQUEST_CONFIRMATION, "args": ours})
        assert (found["call"], found["same"]) == (CALL, True), "as a map and as a typed value"
        part, asks = {"functionCall": found["request"]}, "r1"
    else:
        made = told("rust", ours)["request"]
        response = {"id": "c1", "name": REQUEST_CONFIRMATION, "response": made, "willContinue": True}
        part, asks = {"functionResponse": response}, "c1"
    event = {"author": "clerk", "invocationId": "e", "longRunningToolIds": [asks], "content": {"parts": [part]}}
    (request,) = requests_in(Event.model_validate(event))
    assert (request.id, request.hint, request.payload) == (asks, "May it?", payload)
    assert (request.call.id, request.call.name, request.call.args) == ("c1", "reimburse", {"amount": 1500})


@pytest.mark.parametrize("payload", PAYLOADS, ids=json.dumps)
@pytest.mark.parametrize("confirmed", [True, False])
@pytest.mark.parametrize("program", ["go", "rust"])
def test_an_answer_that_they_make_is_read_here(program: str, confirmed: bool, payload: Json) -> None:
    said: JsonObject = {"hint": "May it?", "confirmed": confirmed, "payload": payload}
    if program == "go":
        arguments: JsonObject = {"originalFunctionCall": CALL, "toolConfirmation": said}
        made = told("go", {"id": "r1", "name": REQUEST_CONFIRMATION, "args": arguments})["confirmation"]
    else:
        part: JsonObject = {"functionResponse": {"id": "r1", "name": REQUEST_CONFIRMATION, "response": said}}
        ((_, made),) = told("rust", {"parts": [part]})["answers"]
    read = read_answer(FunctionResponse(id="r1", name=REQUEST_CONFIRMATION, response=made))
    assert (read.confirmed, read.payload) == (confirmed, payload if confirmed else None)


@pytest.mark.parametrize(
    ("arguments", "theirs", "ours"),
    [
        (None, "cannot be nil", "carries no originalFunctionCall"),
        ({"x": 1}, "is missing", "carries no originalFunctionCall"),
        ({"originalFunctionCall": "text"}, "got string", "not str"),
        ({"originalFunctionCall": None}, "got <nil>", "carries no originalFunctionCall"),
        ({"originalFunctionCall": {"name": 7}}, "failed to decode", "malformed at name"),
    ],
)
def test_what_original_call_from_refuses_there_is_refused_here(
    arguments: JsonObject | None, theirs: str, ours: str
) -> None:
    line: JsonObject = {"id": "r1", "name": REQUEST_CONFIRMATION, **({} if arguments is None else {"args": arguments})}
    assert theirs in str(told("go", line)["error"])
    with pytest.raises(Invalid, match=ours):
        original_call_from(FunctionCall.model_validate(line))


@pytest.mark.parametrize(
    "malformed",
    [{}, {"originalFunctionCall": "text"}, {"originalFunctionCall": {"name": 7}}, {"toolConfirmation": "yes"}],
    ids=json.dumps,
)
def test_a_request_that_is_malformed_asks_nothing_on_either_side(malformed: JsonObject) -> None:
    """The whole request of adk-rs's dialect. One without a part is none, and neither is one with a wrong part."""
    carries = {**carried(None), **malformed} if malformed else {}
    assert "error" in told("rust", carries)
    response = {"id": "c1", "name": REQUEST_CONFIRMATION, "response": carries, "willContinue": True}
    content = {"parts": [{"functionResponse": response}]}
    event = {"author": "clerk", "invocationId": "e", "longRunningToolIds": ["c1"], "content": content}
    with pytest.raises(Invalid, match=r"originalFunctionCall|toolConfirmation|tool_confirmation"):
        list(requests_in(Event.model_validate(event)))


@pytest.mark.parametrize("payload", PAYLOADS, ids=json.dumps)
@pytest.mark.parametrize("confirmed", [True, False])
@pytest.mark.parametrize("wrapper", [None, "toolConfirmation", "response"])
def test_an_answer_is_read_alike_on_both_sides(wrapper: str | None, confirmed: bool, payload: Json) -> None:
    part = Answer("c1", confirmed, payload).as_part().model_dump(by_alias=True, exclude_none=True)
    if wrapper:
        part["functionResponse"]["response"] = {wrapper: part["functionResponse"]["response"]}
    ((id_, theirs),) = told("rust", {"parts": [part]})["answers"]
    assert (id_, theirs["confirmed"], theirs.get("payload")) == ("c1", confirmed, payload)
    ours = read_answer(FunctionResponse.model_validate(part["functionResponse"]))
    assert (ours.id, ours.confirmed, ours.payload) == ("c1", confirmed, payload if confirmed else None)


@pytest.mark.parametrize(("id_", "response"), [("c1", {"confirmed": "yes"}), (None, {"confirmed": True})])
def test_an_answer_that_is_malformed_decides_nothing_on_either_side(id_: str | None, response: JsonObject) -> None:
    given: JsonObject = {"name": REQUEST_CONFIRMATION, "response": response, **({"id": id_} if id_ else {})}
    assert told("rust", {"parts": [{"functionResponse": given}]})["answers"] == []
    with pytest.raises(Invalid):
        read_answer(FunctionResponse.model_validate(given))
