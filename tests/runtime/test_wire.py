"""ADK's JSON, read and written, compared with ADK's own models and the examples of its documentation."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.adk.events.event import Event as AdkEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from adk_confirm.runtime.jsontypes import canonical
from adk_confirm.runtime.wire import Blob, Content, Event, EventActions, FunctionCall, FunctionResponse, Part, json_text

Dict = dict[str, Any]

REQUEST: Dict = {
    "author": "hr_agent",
    "invocationId": "e-c628",
    "longRunningToolIds": ["adk-9c29"],
    "content": {
        "role": "model",
        "parts": [
            {
                "functionCall": {
                    "id": "adk-9c29",
                    "name": "adk_request_confirmation",
                    "args": {
                        "originalFunctionCall": {
                            "id": "adk-3441",
                            "name": "reimburse",
                            "args": {"purpose": "trip", "amount": 1500},
                        },
                        "toolConfirmation": {"hint": "Please approve.", "confirmed": False},
                    },
                }
            }
        ],
    },
    "actions": {"stateDelta": {}, "artifactDelta": {}, "requestedAuthConfigs": {}, "requestedToolConfirmations": {}},
    "nodeInfo": {"path": "hr_agent@1"},
    "id": "49b9",
    "timestamp": 1795224227.59,
}
PLACEHOLDER: Dict = {
    "author": "hr_agent",
    "invocationId": "e-c628",
    "content": {
        "role": "user",
        "parts": [
            {
                "functionResponse": {
                    "id": "adk-3441",
                    "name": "reimburse",
                    "response": {"error": "This tool call requires confirmation, please approve or reject."},
                }
            }
        ],
    },
    "actions": {
        "skipSummarization": True,
        "stateDelta": {"spent": None, "list": [1, {"a": None}]},
        "artifactDelta": {"report.pdf": 2},
        "requestedAuthConfigs": {},
        "requestedToolConfirmations": {"adk-3441": {"hint": "Please approve.", "confirmed": False}},
    },
    "nodeInfo": {"path": "hr_agent@1"},
    "id": "50c0",
    "timestamp": 1795224227.6,
}
RICH: Dict = {
    "author": "painter",
    "invocationId": "e-1",
    "partial": True,
    "turnComplete": False,
    "finishReason": "STOP",
    "errorCode": "SAFETY",
    "errorMessage": "Blocked.",
    "interrupted": True,
    "customMetadata": {"a": {"b": None}},
    "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12},
    "modelVersion": "gemini-2.5-flash",
    "branch": "root.painter",
    "longRunningToolIds": [],
    "content": {
        "role": "model",
        "parts": [
            {"text": "Hm.", "thought": True, "thoughtSignature": "-_8A"},
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo=", "displayName": "a.png"}},
            {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://x/y.pdf", "displayName": "y"}},
            {"executableCode": {"language": "PYTHON", "code": "1+1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
            {"text": "", "partMetadata": {"k": [1]}},
            {"functionCall": {"id": "c", "name": "f", "args": {}}},
            {"functionResponse": {"id": "c", "name": "f", "response": {"x": None}, "willContinue": True}},
        ],
    },
    "actions": {
        "stateDelta": {"k": 1},
        "artifactDelta": {},
        "transferToAgent": "poet",
        "escalate": True,
        "requestedAuthConfigs": {},
        "requestedToolConfirmations": {},
        "endOfAgent": True,
        "agentState": {"step": 2},
    },
    "nodeInfo": {"path": "root@1/painter@1"},
    "id": "51",
    "timestamp": 1.5,
}
SAMPLES = [pytest.param(sample, id=name) for name, sample in {"a": REQUEST, "b": PLACEHOLDER, "c": RICH}.items()]


def snake(value: Any) -> Any:
    """The other spelling: of the wire's own keys, not of what people put into maps."""
    maps = {
        "args",
        "response",
        "stateDelta",
        "customMetadata",
        "agentState",
        "partMetadata",
        "artifactDelta",
        "usageMetadata",
    }
    if isinstance(value, dict):
        return {_snaked(k): v if k in maps else snake(v) for k, v in value.items()}
    if isinstance(value, list):
        return [snake(one) for one in value]
    return value


def _snaked(key: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in key)


# Exactly ADK's JSON


@pytest.mark.parametrize("sample", SAMPLES)
def test_an_event_is_written_as_it_was_read(sample: Dict) -> None:
    assert json.loads(Event.model_validate_json(json.dumps(sample)).to_json()) == sample
    assert Event.model_validate(sample).to_dict() == sample


@pytest.mark.parametrize("sample", SAMPLES)
def test_both_spellings_are_read(sample: Dict) -> None:
    assert Event.model_validate_json(json.dumps(snake(sample))) == Event.model_validate(sample)


@pytest.mark.parametrize("sample", SAMPLES)
def test_adk_reads_ours_and_we_read_adks(sample: Dict) -> None:
    ours = Event.model_validate(sample)
    theirs = AdkEvent.model_validate_json(ours.to_json())
    back = theirs.model_dump_json(by_alias=True, exclude_none=True)
    assert Event.model_validate_json(back) == ours


def test_what_adk_says_beyond_is_ignored() -> None:
    sample = {**REQUEST, "groundingMetadata": {"x": 1}, "brandNew": [1]}
    assert Event.model_validate(sample).to_dict() == REQUEST


def test_an_events_least_form_is_adks() -> None:
    least = Event(author="a", id="1", timestamp=2.0).to_dict()
    assert least == AdkEvent(author="a", id="1", timestamp=2.0).model_dump(
        by_alias=True, exclude_none=True, mode="json"
    )


# Values


@pytest.mark.parametrize("spelled", ["-_8A", "+/8A", "-_8A=="[:4]])
def test_binary_data_comes_in_either_alphabet(spelled: str) -> None:
    part = Part.model_validate_json(json.dumps({"inlineData": {"data": spelled}}))
    assert part.inline_data == Blob(data=b"\xfb\xff\x00")
    assert Part.model_validate({"inlineData": {"data": spelled}}) == part


@given(st.binary())
def test_binary_data_survives(data: bytes) -> None:
    part = Part(inline_data=Blob(mime_type="x/y", data=data), thought_signature=data)
    written = part.to_dict()
    assert base64.urlsafe_b64decode(written["inlineData"]["data"]) == data
    assert Part.model_validate_json(part.to_json()) == part == Part.model_validate(written)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), json_values))
def test_arguments_and_results_survive_nulls_included(value: dict[str, Any]) -> None:
    event = Event(
        author="a",
        content=Content(
            role="model",
            parts=[
                Part(function_call=FunctionCall(name="f", args=value)),
                Part(function_response=FunctionResponse(name="f", response=value)),
            ],
        ),
        actions=EventActions(state_delta=value),
    )
    read = Event.model_validate_json(event.to_json())
    for one in (read, Event.model_validate(event.to_dict())):
        [asked], [response] = one.calls(), one.responses()
        assert canonical(asked.arguments) == canonical(response.response) == canonical(value)
        assert canonical(one.actions.state_delta) == canonical(value)
    assert json.loads(json_text(value)) == value


@pytest.mark.parametrize("wrong", [{"args": [1]}, {"args": "x"}, {"name": 5}, {"id": {}}])
def test_a_wrong_type_is_an_error(wrong: Dict) -> None:
    with pytest.raises(ValidationError):
        FunctionCall.model_validate(wrong)


# Reading


def test_what_a_person_reads_leaves_thoughts_out() -> None:
    content = Content(parts=[Part(text="Hm. ", thought=True), Part(text="One "), Part(text="two.")])
    assert content.text == "One two."
    assert Content().text == Event().text == ""
    assert Content.of_text("Hi").to_dict() == {"role": "user", "parts": [{"text": "Hi"}]}


CALL = Part(function_call=FunctionCall(name="f"))
RESPONSE = Part(function_response=FunctionResponse(name="f", response={}))


@pytest.mark.parametrize(
    ("event", "final"),
    [
        (Event(content=Content.of_text("Bye.")), True),
        (Event(content=Content.of_text("By"), partial=True), False),
        (Event(content=Content(parts=[CALL])), False),
        (Event(content=Content(parts=[RESPONSE])), False),
        (Event(content=Content(parts=[CALL]), long_running_tool_ids=["c"]), True),
        (Event(content=Content(parts=[RESPONSE]), actions=EventActions(skip_summarization=True)), True),
        (Event(error_code="SAFETY"), True),
        (Event(), True),
    ],
)
def test_what_nothing_follows_is_final_as_in_adk(event: Event, final: bool) -> None:
    assert event.is_final_response() is final
    assert AdkEvent.model_validate({"author": "a", **event.to_dict()}).is_final_response() is final


# The two dialects


@pytest.mark.parametrize(
    "part",
    [
        {"text": "Hm.", "audioTranscription": {"text": "Hm.", "finished": True}},
        {"text": "Hm.", "speechMetadata": {"transcript": "Hm."}},
        {"fileData": {"fileUri": "gs://a/b"}, "mediaProcessing": "MEDIA_PROCESSING_UNSPECIFIED"},
        {"text": "Hm.", "partMetadata": {"a": 1}, "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}},
    ],
)
def test_what_a_newer_gemini_says_of_a_part_is_kept(part: Dict) -> None:
    assert Part.model_validate(part).to_dict() == part
