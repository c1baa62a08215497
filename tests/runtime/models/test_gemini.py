"""GeminiModel with the installed google-genai, against a strict Gemini server on this machine."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from google.genai.types import HttpRetryOptions

from adk_confirm import Agent, FunctionTool, Runner
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.models.by_name import Models, UnknownModel
from adk_confirm.runtime.models.gemini import GeminiModel
from adk_confirm.runtime.models.protocol import ModelFailure, ModelRequest, ModelResponse
from adk_confirm.runtime.models.scripted import ScriptedModel
from adk_confirm.runtime.run.ask_model import ask_model
from adk_confirm.runtime.tool import Declaration
from adk_confirm.runtime.wire import Blob, Content, FileData, FunctionCall, FunctionResponse, Part
from tests.support.dialogue import Chat
from tests.support.gemini import (
    CUT,
    HANG,
    Answer,
    Chunks,
    FakeGemini,
    Refusal,
    asked_by_default,
    blocked,
    call,
    finish,
    piece,
    refuse,
    retry_after,
    say,
)

pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

# The SDK's own sessions: aiohttp discourages deriving from its class, and the SDK does.

MODEL = "gemini-2.5-flash"
HELLO = Content.of_text("Hello?")
LOOKUP = Declaration("lookup", "Looks a city up.", {"type": "object", "properties": {"city": {"type": "string"}}})


@pytest.fixture
async def gemini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeGemini]:
    async with asked_by_default(tmp_path, monkeypatch) as server:
        yield server


@pytest.fixture
async def model(gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GeminiModel]:
    """Asks again with hardly a pause."""
    hardly = HttpRetryOptions(attempts=3, initial_delay=0.01, jitter=0.01)
    monkeypatch.setattr("adk_confirm.runtime.models.gemini.RETRIES", hardly)
    made = GeminiModel()
    yield made
    await made.close()


async def ask(
    model: GeminiModel,
    *contents: Content,
    name: str = MODEL,
    instruction: str = "",
    tools: Sequence[Declaration] = (),
    config: JsonObject | None = None,
    streaming: bool = False,
) -> list[ModelResponse]:
    request = ModelRequest(name, contents or (HELLO,), instruction, tools, config or {}, streaming)
    return [response async for response in model.generate(request)]


async def failure(model: GeminiModel, **asked: object) -> ModelFailure:
    with pytest.raises(ModelFailure) as caught:
        await ask(model, **asked)  # type: ignore[arg-type]  # each test names what it asks
    return caught.value


def text(response: ModelResponse) -> str:
    return response.content.text if response.content else ""


# What is asked, and what is answered


@pytest.mark.parametrize("name", [MODEL, f"models/{MODEL}"])
async def test_a_text_is_answered_with_a_text(gemini: FakeGemini, model: GeminiModel, name: str) -> None:
    gemini.will(say("Hello to you."))
    [whole] = await ask(model, name=name, instruction="Be kind.", config={"temperature": 0.25, "maxOutputTokens": 100})
    assert text(whole) == "Hello to you."
    assert not whole.partial
    assert whole.finish_reason == "STOP"
    assert whole.model_version == "gemini-2.5-flash-001"
    assert whole.usage == {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}
    heard = gemini.heard[0]
    assert heard["contents"] == [{"role": "user", "parts": [{"text": "Hello?"}]}]
    assert [part["text"] for part in heard["systemInstruction"]["parts"]] == ["Be kind."]
    assert heard["generationConfig"] == {"temperature": 0.25, "maxOutputTokens": 100}
    assert gemini.paths == [f"/v1beta/models/{MODEL}:generateContent"]


async def test_an_answer_that_gemini_interrupts_is_continued(gemini: FakeGemini, model: GeminiModel) -> None:
    begun = piece({"text": "Hello "}, finish="CONTINUATION")
    begun["candidates"][0]["continuationToken"] = "+/8="
    gemini.will(Chunks([begun]), say("to you."))
    [whole] = await ask(model)
    assert (text(whole), whole.finish_reason) == ("Hello to you.", "STOP")
    first, second = gemini.heard
    assert second == {**first, "continuationToken": "-_8="}


async def test_the_tools_are_sent_with_their_schema_as_it_is(gemini: FakeGemini, model: GeminiModel) -> None:
    gemini.will(call("lookup", city="Oslo"))
    config: JsonObject = {"tools": [{"googleSearch": {}}]}
    [whole] = await ask(model, tools=[LOOKUP], config=config)
    assert whole.content is not None
    [asked] = whole.content.calls()
    assert (asked.name, asked.args) == ("lookup", {"city": "Oslo"})
    search, functions = gemini.heard[0]["tools"]
    assert search == {"googleSearch": {}}
    [declared] = functions["functionDeclarations"]
    assert (declared["name"], declared["description"]) == ("lookup", "Looks a city up.")
    assert LOOKUP.schema in declared.values()


async def test_a_history_arrives_whole_without_the_ids_that_we_made(gemini: FakeGemini, model: GeminiModel) -> None:
    signature = b"\xfb\xff\x00signed"
    history = [
        Content(
            role="user",
            parts=[
                Part(text="Look:"),
                Part(inline_data=Blob(mime_type="image/png", data=b"\x89PNG\xff\xfe", display_name="cat.png")),
                Part(file_data=FileData(mime_type="application/pdf", file_uri="https://example.com/a.pdf")),
            ],
        ),
        Content(
            role="model",
            parts=[
                Part(text="Which one?", thought=True),
                Part(
                    function_call=FunctionCall(id="adk-1", name="lookup", args={"city": "Oslo", "n": 10**30}),
                    thought_signature=signature,
                ),
                Part(function_call=FunctionCall(id="theirs", name="lookup", args={"deep": {"none": None}})),
            ],
        ),
        Content(
            role="user",
            parts=[
                Part(function_response=FunctionResponse(id="adk-1", name="lookup", response={"rain": None})),
                Part(function_response=FunctionResponse(id="theirs", name="lookup", response={"rain": [0.5]})),
            ],
        ),
        Content(role="model", parts=[]),
    ]
    gemini.will(say("It rains."))
    await ask(model, *history)
    heard = gemini.heard[0]["contents"]
    picture = heard[0]["parts"][1]["inlineData"]
    assert picture["mimeType"] == "image/png"
    assert base64.urlsafe_b64decode(picture["data"]) == b"\x89PNG\xff\xfe"
    assert heard[0]["parts"][2] == {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.com/a.pdf"}}
    thought, first, second = heard[1]["parts"]
    assert thought == {"text": "Which one?", "thought": True}
    assert first["functionCall"] == {"name": "lookup", "args": {"city": "Oslo", "n": 10**30}}
    assert base64.urlsafe_b64decode(first["thoughtSignature"]) == signature
    assert second == {"functionCall": {"id": "theirs", "name": "lookup", "args": {"deep": {"none": None}}}}
    assert [part["functionResponse"] for part in heard[2]["parts"]] == [
        {"name": "lookup", "response": {"rain": None}},
        {"id": "theirs", "name": "lookup", "response": {"rain": [0.5]}},
    ]
    assert len(heard) == 3
    assert history[1].parts is not None
    assert history[1].parts[1].function_call is not None
    assert history[1].parts[1].function_call.id == "adk-1", "the history was only lent"


async def test_a_streamed_answer_comes_in_pieces_and_once_as_a_whole(gemini: FakeGemini, model: GeminiModel) -> None:
    gemini.will(say("Hel", "lo ", "you."))
    *pieces, whole = await ask(model, streaming=True)
    assert [(text(piece), piece.partial) for piece in pieces] == [("Hel", True), ("lo ", True), ("you.", True)]
    assert (text(whole), whole.partial, whole.finish_reason) == ("Hello you.", False, "STOP")
    assert whole.content is not None
    assert len(whole.content.parts or ()) == 1
    assert gemini.paths == [f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"]


async def test_thoughts_signatures_and_calls_keep_their_places(gemini: FakeGemini, model: GeminiModel) -> None:
    signature = base64.b64encode(b"sig").decode()
    gemini.will(
        Chunks(
            [
                piece({"text": "Let me ", "thought": True}),
                piece({"text": "think.", "thought": True}),
                piece({"text": "I "}),
                piece({"text": "look."}, {"text": "", "thoughtSignature": signature}),
                piece({"functionCall": {"name": "lookup", "args": {}}, "thoughtSignature": signature}),
                piece({"functionCall": {"name": "lookup", "id": "theirs"}}),
                piece({"text": ""}, finish="STOP"),
            ]
        )
    )
    *pieces, whole = await ask(model, streaming=True)
    assert not any(list(piece.content.calls()) for piece in pieces if piece.content), "calls come in the whole only"
    assert [part.text for piece in pieces if piece.content for part in piece.content.parts or ()] == [
        "Let me ",
        "think.",
        "I ",
        "look.",
    ]
    assert whole.content is not None
    assert whole.content.parts == [
        Part(text="Let me think.", thought=True),
        Part(text="I look."),
        Part(text="", thought_signature=b"sig"),
        Part(function_call=FunctionCall(name="lookup", args={}), thought_signature=b"sig"),
        Part(function_call=FunctionCall(name="lookup", id="theirs")),
    ]
    assert text(whole) == "I look."


async def test_vertex_is_asked_where_the_environment_says_so(
    gemini: FakeGemini, model: GeminiModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", gemini.url)
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    picture = Blob(mime_type="image/png", data=b"x", display_name="cat.png")
    gemini.will(say("A cat."))
    [whole] = await ask(model, Content(role="user", parts=[Part(inline_data=picture)]))
    assert text(whole) == "A cat."
    assert gemini.paths == [f"/v1beta1/publishers/google/models/{MODEL}:generateContent"]
    assert gemini.heard[0]["contents"][0]["parts"][0]["inlineData"]["displayName"] == "cat.png"


# A server in trouble is asked again, within bounds


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    "trouble",
    [
        refuse(429, "RESOURCE_EXHAUSTED"),
        refuse(500, "INTERNAL"),
        refuse(503),
        Refusal(502, "<html>Bad gateway</html>", content_type="text/html"),
    ],
    ids=["429", "500", "503", "html"],
)
async def test_trouble_that_passes_is_not_noticed(
    gemini: FakeGemini, model: GeminiModel, trouble: Refusal, streaming: bool
) -> None:
    gemini.will(trouble, trouble, say("Back again."))
    responses = await ask(model, streaming=streaming)
    assert text(responses[-1]) == "Back again."
    assert len(gemini.heard) == 3
    assert gemini.heard[0] == gemini.heard[2]


async def test_a_connection_that_breaks_before_the_answer_is_not_noticed(
    gemini: FakeGemini, model: GeminiModel
) -> None:
    gemini.will(CUT, CUT, say("Back again."))
    assert text((await ask(model))[-1]) == "Back again."


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_server_that_says_nothing_is_left_in_time(
    gemini: FakeGemini, model: GeminiModel, streaming: bool
) -> None:
    gemini.will(HANG)
    with pytest.raises(ModelFailure, match=r"did not answer within 0\.3 s") as caught:
        await ask_model(model, ModelRequest(MODEL, [HELLO], streaming=streaming), 0.3, print)
    assert caught.value.code == "MODEL_TIMEOUT"
    assert len(gemini.heard) == 1


async def test_a_server_that_is_not_there_is_left_in_time(
    gemini: FakeGemini, model: GeminiModel, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", f"http://127.0.0.1:{unused_tcp_port}")
    failed = await failure(model)
    assert failed.code == "UNREACHABLE"
    assert str(failed) == "The server of gemini-2.5-flash can't be reached: nothing answers there. Try again later."


# A stream that has begun is not begun again


@pytest.mark.parametrize(
    ("end", "code"), [("cut", "INTERRUPTED"), ("hang", "MODEL_TIMEOUT"), ("garbage", "BAD_RESPONSE")]
)
async def test_what_was_streamed_is_never_streamed_again(
    gemini: FakeGemini, model: GeminiModel, end: str, code: str
) -> None:
    gemini.will(Chunks([piece({"text": "So far"})], then=end))
    shown, patience = list[ModelResponse](), 2.0 if end == "hang" else 60.0
    with pytest.raises(ModelFailure) as caught:
        await ask_model(model, ModelRequest(MODEL, [HELLO], streaming=True), patience, shown.append)
    assert [text(one) for one in shown] == ["So far"]
    assert caught.value.code == code
    assert len(gemini.heard) == 1


async def test_a_caller_that_stops_listening_leaves_the_model_usable(gemini: FakeGemini, model: GeminiModel) -> None:
    gemini.will(Chunks([piece({"text": "So far"})], then="hang"), say("Here."))
    async with aclosing(model.generate(ModelRequest(MODEL, [HELLO], streaming=True))) as answer:
        assert text(await anext(answer)) == "So far"
    [whole] = await ask(model)
    assert text(whole) == "Here."


async def test_a_caller_that_cancels_waits_no_longer(gemini: FakeGemini, model: GeminiModel) -> None:
    gemini.will(HANG)
    asking = asyncio.create_task(ask(model))
    await gemini.hanging.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


# A request that will never work is not repeated


OVERLOADED = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
QUOTA = (
    "The server of gemini-2.5-flash allows no more requests for now (429: Quota exceeded). It asks to wait 3600 s. "
    "Try again later."
)
IN_PIECES: tuple[dict[str, Any], ...] = (
    {"functionCall": {"name": "wipe", "willContinue": True}},
    {"functionCall": {"partialArgs": [{"jsonPath": "$.disk", "stringValue": "sda"}]}},
    {"functionCall": {}},
)
NONSENSE = "The server of gemini-2.5-flash sent something that is not an answer from Gemini."
UNFIT = "generate_content_config does not fit Gemini: "


def out_of_quota(**asking: Any) -> Refusal:
    return refuse(429, "RESOURCE_EXHAUSTED", "Quota exceeded.", **asking)


@pytest.mark.parametrize(
    ("answers", "asked", "code", "sentence"),
    [
        (
            [refuse(503)] * 3,
            {},
            "UNAVAILABLE",
            "The server of gemini-2.5-flash is out of order for now (503: The model is overloaded). Try again later.",
        ),
        ([out_of_quota(details=[retry_after("3600s")])] * 3, {}, "RESOURCE_EXHAUSTED", QUOTA),
        ([out_of_quota(headers={"Retry-After": "3600"})] * 3, {}, "RESOURCE_EXHAUSTED", QUOTA),
        ([Chunks([piece({"text": "So far"}), OVERLOADED])], {"streaming": True}, "UNAVAILABLE", "The server of gemini"),
        (
            [refuse(403, "PERMISSION_DENIED", "Not for you.")],
            {},
            "PERMISSION_DENIED",
            "The API key may not use gemini-2.5-flash: Not for you.",
        ),
        (
            [],
            {"name": "gemini-0.1"},
            "NOT_FOUND",
            "Gemini has no model 'gemini-0.1': check its name (models/gemini-0.1 is not found",
        ),
        ([], {"config": {"temprature": 1}}, "BAD_CONFIG", f"{UNFIT}it has no 'temprature'."),
        (
            [],
            {"config": {"temperature": "hot"}},
            "BAD_CONFIG",
            f"{UNFIT}temperature: Input should be a valid number, unable to parse string as a number.",
        ),
        (
            [Chunks([piece(one) for one in IN_PIECES])],
            {"streaming": True},
            "BAD_CONFIG",
            f"{UNFIT}stream_function_call_arguments is not supported",
        ),
        *(
            ([Refusal(200, body)], {}, "BAD_RESPONSE", NONSENSE)
            for body in ('{"candidates": [5]}', '{"candidates": [{"content": 5}]}', "hello")
        ),
    ],
    ids=[
        *("three times out of order", "quota in the body", "quota in a header", "in the middle of a stream"),
        *("forbidden", "unknown model", "unknown setting", "wrong setting", "a call in pieces"),
        *("odd candidates", "odd content", "no JSON"),
    ],
)
async def test_what_does_not_pass_is_asked_no_more_and_said(
    gemini: FakeGemini, model: GeminiModel, answers: list[Answer], asked: dict[str, Any], code: str, sentence: str
) -> None:
    gemini.will(*answers)
    failed = await failure(model, **asked)
    assert failed.code == code
    assert str(failed).startswith(sentence)
    assert len(gemini.heard) <= max(1, len(answers))


async def test_a_bad_request_is_reported(gemini: FakeGemini, model: GeminiModel) -> None:
    with pytest.raises(ModelFailure) as caught:
        await ask(model, Content(role="assistant", parts=[Part(text="Hm")]))
    assert caught.value.code == "INVALID_ARGUMENT"
    assert "Please use a valid role: user, model." in str(caught.value)
    assert len(gemini.heard) == 1


async def test_a_wrong_key_is_reported(gemini: FakeGemini, model: GeminiModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "wrong")
    failed = await failure(model)
    assert failed.code == "API_KEY_INVALID"
    assert str(failed).startswith("Gemini does not accept the API key: check GOOGLE_API_KEY or GEMINI_API_KEY")
    assert len(gemini.heard) == 1


async def test_a_missing_key_is_reported(
    gemini: FakeGemini, model: GeminiModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    failed = await failure(model)
    assert failed.code == "API_KEY_MISSING"
    assert str(failed) == "There is no key for Gemini: set GOOGLE_API_KEY or GEMINI_API_KEY."
    monkeypatch.setenv("GOOGLE_API_KEY", gemini.key)
    gemini.will(say("Now it works."))
    assert text((await ask(model))[0]) == "Now it works."


# Answers that are none


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("answer", "code", "sentence"),
    [
        (
            blocked("PROHIBITED_CONTENT"),
            "PROHIBITED_CONTENT",
            "The request was blocked before the model answered (PROHIBITED_CONTENT): put it differently.",
        ),
        (
            finish("SAFETY", {"text": "Take a"}),
            "SAFETY",
            "The model stopped before its answer was complete (SAFETY): put the request differently.",
        ),
        (
            finish("MALFORMED_FUNCTION_CALL"),
            "MALFORMED_FUNCTION_CALL",
            "The model tried to call a tool in a way that nobody can read: ask again.",
        ),
        (finish("STOP"), "EMPTY_RESPONSE", "The model answered with nothing. Try again."),
        (
            finish("STOP", {"text": "Hm.", "thought": True}),
            "EMPTY_RESPONSE",
            "The model answered with nothing. Try again.",
        ),
        (Chunks([{}]), "EMPTY_RESPONSE", "The model answered with nothing. Try again."),
        (
            finish("MAX_TOKENS"),
            "MAX_TOKENS",
            "The answer reached its limit of tokens before it was complete: raise max_output_tokens, or ask for less.",
        ),
    ],
    ids=["blocked", "safety", "malformed", "empty", "thought only", "nothing", "no room"],
)
async def test_no_answer_is_an_error_that_says_why(
    gemini: FakeGemini, model: GeminiModel, answer: Chunks, code: str, sentence: str, streaming: bool
) -> None:
    gemini.will(answer)
    with pytest.raises(ModelFailure) as caught:
        await ask_model(model, ModelRequest(MODEL, [HELLO], streaming=streaming), 20.0, print)
    assert (caught.value.code, str(caught.value), caught.value.said) == (code, sentence, None)


async def test_a_text_that_was_cut_short_is_kept_but_none_of_its_calls(gemini: FakeGemini, model: GeminiModel) -> None:
    gemini.will(finish("MAX_TOKENS", {"text": "First I"}, {"functionCall": {"name": "lookup", "args": {}}}))
    [whole] = await ask(model)
    assert (whole.error_code, whole.finish_reason) == ("MAX_TOKENS", "MAX_TOKENS")
    assert whole.content == Content.of_text("First I", "model")


# From a name to a model


async def test_gemini_is_known_by_its_names() -> None:
    models = Models()
    known = [models.resolve(name) for name in ("gemini-2.5-flash", "models/gemini-2.5-pro", "projects/p/locations/x")]
    assert isinstance(known[0], GeminiModel)
    assert known[0] is known[1] is known[2]
    await models.close()


def test_an_object_is_its_own_model() -> None:
    script = ScriptedModel("Hello.")
    assert Models().resolve(script) is script


@pytest.mark.parametrize("name", ["gpt-5", "gemini", "", "Gemini-2.5"])
def test_other_names_are_not_known(name: str) -> None:
    with pytest.raises(UnknownModel, match=r"known are gemini-… \(also models/…"):
        Models().resolve(name)
    with pytest.raises(UnknownModel, match=r"is not a model: pass a name"):
        Models().resolve(42)  # type: ignore[arg-type]  # what a user may do by mistake


# In a run


def reimburse(purpose: str, amount: float) -> JsonObject:
    """Reimburses an employee."""
    return {"paid": amount}


def lookup(city: str) -> str:
    """Looks a city up."""
    return f"{city} is fine"


@pytest.fixture
async def chat(gemini: FakeGemini) -> AsyncIterator[Chat]:
    held = FunctionTool(reimburse, require_confirmation=True)
    async with Runner(Agent("hr", MODEL, instruction="Be kind.", tools=[held, lookup])) as runner:
        yield Chat(runner)


@pytest.mark.parametrize("streaming", [False, True])
async def test_parallel_calls_and_chat_in_between(gemini: FakeGemini, chat: Chat, streaming: bool) -> None:
    calls = [
        {"functionCall": {"name": "reimburse", "args": {"purpose": "a", "amount": 1}}},
        {"functionCall": {"name": "lookup", "args": {"city": "Oslo"}, "id": "theirs"}},
        {"functionCall": {"name": "reimburse", "args": {"purpose": "b", "amount": 2}}},
    ]
    pieces = [piece(one) for one in calls] if streaming else [piece(*calls)]
    gemini.will(Chunks([*pieces, piece(finish="STOP")]), say("Still waiting."), say("All done."))
    asked = await chat.say("Two trips", streaming=streaming)
    assert asked.result("lookup") == {"result": "Oslo is fine"}
    assert (await chat.say("And?", streaming=streaming)).texts == ["Still waiting."]
    await chat.deny(asked.request_for("reimburse", purpose="a"), "no money")
    heard = await chat.approve(asked.request_for("reimburse", purpose="b"))
    assert heard.texts == ["All done."]
    results = [part["functionResponse"] for part in gemini.heard[-1]["contents"][-1]["parts"]]
    assert [result["response"] for result in results] == [
        {"error": "tool call was rejected by the user", "reason": "no money"},
        {"result": "Oslo is fine"},
        {"paid": 2},
    ]
    assert [result.get("id") for result in results] == [None, "theirs", None]
