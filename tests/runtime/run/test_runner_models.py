"""Models that fail: an event says so each time, and the session goes on."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from adk_confirm import (
    Agent,
    Content,
    FunctionCall,
    FunctionTool,
    ModelFailure,
    ModelRequest,
    ModelResponse,
    Part,
    ScriptedModel,
    call,
)
from adk_confirm.runtime.models.scripted import ScriptLine
from tests.runtime.conftest import MakeRunner
from tests.support.dialogue import Chat, shown

log: list[str] = []


def deploy(version: str) -> str:
    log.append(f"deployed {version}")
    return "live"


HANG = object()


class Odd:
    """Says this or raises it, step by step; hangs at HANG."""

    def __init__(self, *steps: object) -> None:
        self.steps = steps
        self.closed = 0

    async def generate(self, _: ModelRequest) -> AsyncIterator[object]:
        try:
            for step in self.steps:
                if isinstance(step, BaseException):
                    raise step
                if step is HANG:
                    await asyncio.Event().wait()
                yield step
        finally:
            self.closed += 1


class NeverLetsGo:
    """Hangs, and hangs again when it is told to stop."""

    async def generate(self, _: ModelRequest) -> AsyncIterator[ModelResponse]:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()
        yield ModelResponse()


class Cancelled:
    async def generate(self, _: ModelRequest) -> AsyncIterator[ModelResponse]:
        waiting = asyncio.create_task(asyncio.Event().wait())
        waiting.cancel()
        await waiting
        yield ModelResponse()


class Alarm(BaseException):
    pass


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class NoGenerator:
    async def generate(self, _: ModelRequest) -> ModelResponse:
        return ModelResponse()


class BareIterator:
    """An async iterator that is no generator."""

    def __init__(self) -> None:
        self.left = [ModelResponse(Content.of_text("Hello.", "model"))]

    def generate(self, _: ModelRequest) -> AsyncIterator[ModelResponse]:
        return self

    def __aiter__(self) -> AsyncIterator[ModelResponse]:
        return self

    async def __anext__(self) -> ModelResponse:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop()


class Switch:
    """The model under test first, then one that works."""

    def __init__(self, first: object, then: object = None) -> None:
        self.models = [first, then or ScriptedModel(reply=lambda _: "Hello again.")]

    def generate(self, asked: ModelRequest) -> AsyncIterator[ModelResponse]:
        answering = self.models[0].generate(asked)  # type: ignore[attr-defined]  # one of these here
        if len(self.models) > 1:
            self.models.pop(0)
        return answering  # type: ignore[no-any-return]


def always(line: ScriptLine) -> ScriptedModel:
    return ScriptedModel(reply=lambda _: line)


@pytest.mark.parametrize(
    ("model", "code", "words"),
    [
        (always(ModelFailure("BLOCKED", "It was blocked: ask otherwise.")), "BLOCKED", "ask otherwise"),
        (always(ConnectionError("no network")), "ConnectionError", "no network"),
        (always(ValueError()), "ValueError", "The model failed."),
        (always(TimeoutError("the model's own")), "TimeoutError", "the model's own"),
        (always(Content(role="model", parts=[])), "EMPTY_RESPONSE", "nothing"),
        (always("bad \ud800 text"), "PydanticSerializationError", "surrogates"),
        (always(42), "BAD_SCRIPT", "42 is not a line"),  # type: ignore[arg-type]  # that is the point
        (Odd(ModelResponse()), "EMPTY_RESPONSE", "nothing"),
        (Odd(ModelResponse(error_code="SAFETY", error_message="Not this.")), "SAFETY", "Not this."),
        (Odd(ModelResponse(error_code="SAFETY", content=Content.of_text("half"))), "SAFETY", "nothing"),
        (Odd(), "EMPTY_RESPONSE", "nothing"),
        (Cancelled(), "MODEL_FAILED", "gave up"),
        (Odd(SystemExit("told to")), "SystemExit", "told to"),
        (Odd(KeyboardInterrupt()), "KeyboardInterrupt", "The model failed."),
        (Odd(Alarm("fire")), "Alarm", "fire"),
        (Odd(Speechless()), "Speechless", "The model failed."),
        (Odd(ValueError("half \ud800")), "ValueError", "half ?"),
        pytest.param(
            NoGenerator(),
            "BAD_MODEL",
            "returned coroutine: it must be an async generator",
            marks=pytest.mark.filterwarnings("ignore:coroutine 'NoGenerator.generate' was never awaited"),
        ),
        (Odd(None, HANG), "BAD_MODEL", "yielded NoneType"),
        (Odd("hello", HANG), "BAD_MODEL", "yielded str: it must be an async generator"),
        (Odd(HANG), "MODEL_TIMEOUT", "2 s"),
        (NeverLetsGo(), "MODEL_TIMEOUT", "2 s"),
        (Odd(ModelResponse(Content.of_text("Well, ", "model"), partial=True), HANG), "MODEL_TIMEOUT", "2 s"),
    ],
)
async def test_a_model_that_fails_is_reported_and_the_session_goes_on(
    run: MakeRunner, model: object, code: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(
        logging.CRITICAL, "adk_confirm.runtime.run.ask_model"
    )  # pytest's workers can't hand over half a letter
    agent = Agent("helper", Switch(model))
    chat = Chat(run(agent, model_patience=2) if code == "MODEL_TIMEOUT" else run(agent))
    heard = await chat.say("Hello")
    assert heard.errors == [code]
    assert words in str(heard.events[-1].error_message)
    assert heard.events[-1].author == "helper"
    assert not isinstance(model, Odd) or model.closed == 1
    assert (await chat.say("Hello?")).texts == ["Hello again."]
    assert [event.error_code for event in await chat.history() if event.error_code] == [code]


async def test_what_was_said_before_a_failure_is_kept_and_no_call_of_it_is_made(
    run: MakeRunner, caplog: pytest.LogCaptureFixture
) -> None:
    half = Content(
        role="model",
        parts=[
            Part(text="Hm.", thought=True),
            Part(text="First I will"),
            Part(function_call=FunctionCall(name="deploy", args={})),
        ],
    )
    following = ScriptedModel("Go on.")
    model = Switch(Odd(ModelResponse(half, error_code="MAX_TOKENS", error_message="No room is left.")), following)
    chat = Chat(run(Agent("helper", model, tools=[deploy])))
    (event,) = (await chat.say("Ship it")).events
    assert (event.error_code, event.error_message) == ("MAX_TOKENS", "No room is left.")
    assert event.content == Content.of_text("First I will", "model")
    assert "the model of helper failed: MAX_TOKENS" in caplog.text
    assert "No room" not in caplog.text, "a model's words may quote what was said"
    assert log == []
    await chat.say("And then?")
    assert shown(following.requests[0]) == ["user: Ship it", "model: First I will", "user: And then?"]


async def test_any_async_iterator_will_do(run: MakeRunner) -> None:
    assert (await Chat(run(Agent("helper", BareIterator()))).say("Hello")).texts == ["Hello."]


async def test_a_model_that_fails_after_the_tool_does_not_undo_it(run: MakeRunner) -> None:
    model = ScriptedModel(call("deploy", version="a"), ConnectionError("no network"), "a is live.")
    chat = Chat(run(Agent("helper", model, tools=[FunctionTool(deploy, require_confirmation=True)])))
    request = (await chat.say("Ship a")).request
    heard = await chat.approve(request)
    assert heard.lines == ['helper got deploy: {"result":"live"}', "helper fails ConnectionError: no network"]
    assert (await chat.approve(request)).events == []
    assert log == ["deployed a"]
    assert (await chat.say("And?")).texts == ["a is live."]
    assert shown(model.requests[-1])[-2:] == ['user got deploy: {"result":"live"}', "user: And?"]


async def test_an_instruction_that_fails_is_reported_as_the_models_failure(run: MakeRunner) -> None:
    def instruct(context: object) -> str:
        raise LookupError("no handbook")

    agent = Agent("helper", ScriptedModel("Never said."), instruction=instruct)
    heard = await Chat(run(agent)).say("Hello")
    assert heard.lines == ["helper fails LookupError: no handbook"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_instruction_that_can_not_be_cancelled_holds_nobody_up(run: MakeRunner, is_async: bool) -> None:
    """Not even others on the same event loop, if it blocks."""
    let_go, released, ended = threading.Event(), asyncio.Event(), asyncio.Event()

    async def deaf(context: object) -> str:
        for _ in range(10):
            with suppress(asyncio.CancelledError, TimeoutError):
                async with asyncio.timeout(1):
                    await released.wait()
                    break
        ended.set()
        return "Too late."

    def blocks(context: object) -> str:
        return str(let_go.wait(10))

    agent = Agent("helper", ScriptedModel("Never said."), instruction=deaf if is_async else blocks)
    async with asyncio.timeout(5):
        assert (await Chat(run(agent, model_patience=0.1)).say("Hello")).errors == ["TimeoutError"]
    let_go.set()
    released.set()
    if is_async:
        await ended.wait()


async def test_a_model_nobody_knows_is_reported_in_a_sentence(run: MakeRunner) -> None:
    heard = await Chat(run(Agent("helper", "oracle-9"))).say("Hello")
    assert heard.errors == ["UnknownModel"]
    assert "No model is called 'oracle-9'" in str(heard.events[0].error_message)


async def test_a_model_that_never_stops_calling_is_stopped(run: MakeRunner) -> None:
    model = ScriptedModel(reply=lambda _: call("deploy", version="again"))
    chat = Chat(run(Agent("helper", model, tools=[deploy]), most_model_calls=20))
    heard = await chat.say("Go")
    assert heard.errors == ["TOO_MANY_MODEL_CALLS"]
    assert len(log) == len(model.requests) == 20
    assert heard.lines.count('helper got deploy: {"result":"live"}') == 20


# Streaming
