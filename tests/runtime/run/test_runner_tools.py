"""Tools: what they return, raise and write to the state, and how long they take."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum
from typing import Annotated
from uuid import UUID

import pytest
from pydantic import AfterValidator, BaseModel

from adk_confirm import Agent, Answer, FunctionCall, FunctionTool, ScriptedModel, ToolContext, call
from adk_confirm.runtime.jsontypes import Json, JsonObject, canonical
from adk_confirm.runtime.tool import BadArguments, Bound, ToolOutcomeUnknown
from tests.runtime.conftest import MakeRunner
from tests.support.dialogue import Chat
from tests.support.waiting import until

GATED = pytest.mark.parametrize("gated", [False, True], ids=["ungated", "gated"])

log: list[object] = []


async def outcomes(run: MakeRunner, *functions: Callable[..., object], gated: bool) -> list[JsonObject]:
    """The responses of tools that are called at once, as the client gets them. The model has got the same, and the
    session goes on."""
    names = [f"tool_{number}" for number in range(len(functions))]
    made = zip(functions, names, strict=True)
    tools = [FunctionTool(function, name=name, require_confirmation=gated) for function, name in made]
    model = ScriptedModel([call(name) for name in names], "I see.", "Hello again.")
    chat = Chat(run(Agent("worker", model, tools=tools)))
    heard = await chat.say("Go")
    if gated:
        heard = await chat.answer(*(Answer(request.id, True) for request in heard.requests))
    assert heard.texts == ["I see."]
    results = [heard.result(name) for name in names]
    assert [seen.response for seen in model.requests[1][-1].responses()] == results
    assert (await chat.say("Hello")).texts == ["Hello again."]
    stored = {r.name: r.response for event in await chat.history() for r in event.responses()}
    assert [stored[name] for name in names] == results
    return results


def giving(value: object) -> Callable[[], object]:
    return lambda: value


# What they return


class Colour(Enum):
    RED = "red"


class Receipt(BaseModel):
    number: int
    when: date


@dataclass
class Point:
    x: int
    y: int


RETURNED: list[tuple[object, JsonObject]] = [
    (None, {"result": None}),
    ("text", {"result": "text"}),
    ("", {"result": ""}),
    ("zero \0 and emoji 🎉", {"result": "zero \0 and emoji 🎉"}),
    (7, {"result": 7}),
    (10**30, {"result": 10**30}),
    (True, {"result": True}),
    ([1, "a", None], {"result": [1, "a", None]}),
    ({"status": "ok"}, {"status": "ok"}),
    ({}, {}),
    (math.nan, {"result": None}),
    ({"rate": math.inf}, {"rate": None}),
    (b"bytes", {"result": "bytes"}),
    (Colour.RED, {"result": "red"}),
    (Receipt(number=3, when=date(2026, 1, 2)), {"result": {"number": 3, "when": "2026-01-02"}}),
    (Point(1, 2), {"result": {"x": 1, "y": 2}}),
    ({"receipts": [Receipt(number=3, when=date(2026, 1, 2))]}, {"receipts": [{"number": 3, "when": "2026-01-02"}]}),
    ({"error": "its own word for it"}, {"error": "its own word for it"}),
    (timedelta(hours=1), {"result": "PT1H"}),
    (UUID(int=1), {"result": "00000000-0000-0000-0000-000000000001"}),
    ({1: "a", Colour.RED: (1, {2})}, {"1": "a", "red": [1, [2]]}),
]


async def test_whatever_a_tool_returns_becomes_json(run: MakeRunner) -> None:
    values, results = zip(*RETURNED, strict=True)
    assert await outcomes(run, *map(giving, values), gated=True) == [*results]


def nested(depth: int) -> Json:
    value: Json = 0
    for _ in range(depth):
        value = [value]
    return value


def circle() -> object:
    ring: list[object] = []
    ring.append(ring)
    return ring


def counts() -> Iterator[int]:
    yield 1
    log.append(threading.current_thread().name)
    yield 2


async def counts_asynchronously() -> AsyncIterator[int]:
    yield 1
    yield 2


async def test_what_a_generator_yields_is_its_result(run: MakeRunner) -> None:
    assert await outcomes(run, counts, counts_asynchronously, gated=True) == [{"result": [1, 2]}] * 2
    assert threading.main_thread().name not in log


WITHOUT_JSON = [object(), ValueError("x"), "\ud800", b"\xff", {"a": {1, object()}}, circle(), nested(5000), nested(230)]


async def test_what_has_no_json_form_is_lost_and_the_model_knows_that_the_tool_ran(run: MakeRunner) -> None:
    """If it were an error, people would see that it failed, and the model would try again what took effect."""
    for number, result in enumerate(await outcomes(run, *map(giving, WITHOUT_JSON), gated=True)):
        assert list(result) == ["status"]
        lost = f"tool_{number} ran to its end. What it returned is lost: A value of type "
        assert str(result["status"]).startswith(lost)


async def test_a_deep_result_never_makes_a_session_unreadable(run: MakeRunner) -> None:
    await outcomes(run, *(giving(nested(depth)) for depth in range(180, 205, 4)), gated=False)


async def test_a_huge_result_is_stored_and_told_whole(run: MakeRunner) -> None:
    assert await outcomes(run, giving("long " * 1_000_000), gated=False) == [{"result": "long " * 1_000_000}]


# What they raise


class Unprintable(Exception):
    def __str__(self) -> str:
        return "half a pair \ud83d"


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Alarm(BaseException):
    pass


def raises(error: BaseException | type[BaseException], *, asynchronous: bool) -> Callable[..., object]:
    def raise_it() -> None:
        raise error

    async def raise_it_asynchronously() -> None:
        raise error

    return raise_it_asynchronously if asynchronous else raise_it


async def cancels_itself() -> None:
    raise asyncio.CancelledError


async def waits_for_what_was_cancelled() -> None:
    waiting = asyncio.create_task(asyncio.Event().wait())
    waiting.cancel()
    await waiting


async def runs_out_of_time() -> None:
    async with asyncio.timeout(0):
        await asyncio.Event().wait()


def recurses() -> None:
    recurses()


def ends_the_process() -> None:
    sys.exit("told to")


STOPPED: list[tuple[Callable[..., object], str]] = [
    (cancels_itself, "CancelledError"),
    (waits_for_what_was_cancelled, "CancelledError"),
    (runs_out_of_time, "TimeoutError"),
    (recurses, "RecursionError"),
    (ends_the_process, "SystemExit: told to"),
]
RAISED: list[tuple[BaseException | type[BaseException], str]] = [
    (ValueError, "ValueError"),
    (ConnectionError("the bank is closed"), "ConnectionError: the bank is closed"),
    (AssertionError("this was not meant to happen"), "AssertionError: this was not meant to happen"),
    (Unprintable, "Unprintable: half a pair ?"),
    (Speechless, "Speechless"),
    (Alarm("fire"), "Alarm: fire"),
    (KeyboardInterrupt, "KeyboardInterrupt"),
    (GeneratorExit, "GeneratorExit"),
    (StopIteration, "StopIteration"),
]


@GATED
@pytest.mark.parametrize("asynchronous", [False, True], ids=["at once", "async"])
async def test_what_a_tool_raises_is_its_result(run: MakeRunner, asynchronous: bool, gated: bool) -> None:
    """And no trouble of those beside it."""
    tools = [*STOPPED, *((raises(error, asynchronous=asynchronous), words) for error, words in RAISED)]
    fine, *results = await outcomes(run, giving("fine"), *(tool for tool, _ in tools), gated=gated)
    assert fine == {"result": "fine"}
    for result, (_, words) in zip(results, tools, strict=True):
        assert list(result) == ["error"]
        assert words in str(result["error"])


async def test_calls_that_the_model_got_wrong_are_reported_to_it(run: MakeRunner) -> None:
    def pay(amount: float) -> str:
        log.append(amount)
        return "paid"

    model = ScriptedModel(
        [call("play"), call("pay", amount="lots"), call("pay")], "I will ask.", call("pay", amount="7"), "Paid."
    )
    chat = Chat(run(Agent("worker", model, tools=[FunctionTool(pay, require_confirmation=True)])))
    heard = await chat.say("Pay")
    assert heard.requests == []
    assert heard.lines[3:] == [
        """worker got play: {"error":"There is no tool 'play'; there are: pay."}""",
        'worker got pay: {"error":"The arguments of pay do not fit: amount: Input should be a valid number, unable to '
        """parse string as a number, not 'lots'."}""",
        'worker got pay: {"error":"The arguments of pay do not fit: amount: is missing."}',
        "worker says I will ask.",
    ]
    assert log == []


@GATED
async def test_a_call_whose_connection_broke_is_lost_or_for_people_to_settle(run: MakeRunner, gated: bool) -> None:
    def wire() -> str:
        log.append("sent")
        raise ToolOutcomeUnknown("The line broke: nobody knows whether it took effect.")

    model = ScriptedModel(call("wire"), "It broke.")
    chat = Chat(run(Agent("worker", model, tools=[FunctionTool(wire, require_confirmation=gated)])))
    heard = await chat.say("Wire")
    if gated:
        assert (await chat.approve(heard.request)).errors == ["OUTCOME_UNKNOWN"]
    else:
        assert heard.result("wire") == {"error": "The line broke: nobody knows whether it took effect."}
        assert heard.texts == ["It broke."]
    assert log == ["sent"]


@GATED
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_tool_that_hangs_is_let_go_if_it_has_a_time(run: MakeRunner, asynchronous: bool, gated: bool) -> None:
    ended = threading.Event()

    def hang() -> None:
        ended.wait(60)

    async def hang_asynchronously() -> None:
        await asyncio.Event().wait()

    tool = FunctionTool(hang_asynchronously if asynchronous else hang, require_confirmation=gated, timeout=0.05)
    chat = Chat(run(Agent("worker", ScriptedModel(call(tool.name), "It hung."), tools=[tool])))
    heard = await chat.say("Go")
    if gated:
        assert (await chat.approve(heard.request)).errors == ["OUTCOME_UNKNOWN"]
    else:
        error = f"{tool.name} did not end within 0.05 s: nobody knows whether it took effect."
        assert heard.result(tool.name) == {"error": error}
    ended.set()


# State


def remember(tool_context: ToolContext) -> JsonObject:
    state = tool_context.state
    seen = state.to_dict()
    state["count"] = int(str(state.get("count", 0))) + 1
    state["user:name"] = "Ann"
    state["app:motto"] = "carefully"
    state["temp:scratch"] = "gone tomorrow"
    return {"saw": seen}


async def test_state_is_kept_where_it_belongs(run: MakeRunner) -> None:
    model = ScriptedModel(call("remember"), call("remember"), "Noted.", reply=lambda _: call("remember"))
    agent = Agent("worker", model, tools=[remember])
    runner = run(agent)
    chat = Chat(runner)
    heard = await chat.say("Remember", state={"count": 40, "temp:given": 1})
    assert [r.response for e in heard.events for r in e.responses()] == [
        {"saw": {"count": 40, "temp:given": 1}},
        {
            "saw": {
                "app:motto": "carefully",
                "count": 41,
                "temp:given": 1,
                "temp:scratch": "gone tomorrow",
                "user:name": "Ann",
            }
        },
    ]
    assert heard.events[1].actions.state_delta == {"count": 41, "user:name": "Ann", "app:motto": "carefully"}
    assert await chat.state() == {"count": 42, "user:name": "Ann", "app:motto": "carefully"}
    assert all("temp:" not in event.to_json() or any(event.responses()) for event in await chat.history())

    other = Chat(runner, user=chat.user)
    await runner.create_session(user_id=other.user, session_id=other.session)
    assert await other.state() == {"user:name": "Ann", "app:motto": "carefully"}
    stranger = Chat(runner, user="bob")
    await runner.create_session(user_id=stranger.user, session_id=stranger.session, state={"own": 1})
    assert await stranger.state() == {"own": 1, "app:motto": "carefully"}


async def test_sessions_of_one_user_lose_no_shared_state_to_each_other(run: MakeRunner) -> None:
    def note(key: str, tool_context: ToolContext) -> str:
        tool_context.state[f"user:{key}"] = key
        tool_context.state[f"app:{key}"] = key
        return "noted"

    keys = [f"key{n}" for n in range(12)]

    def reply(request: object) -> object:
        contents = request.contents  # type: ignore[attr-defined]
        return "Noted." if any(contents[-1].responses()) else call("note", key=contents[-1].text)

    agent = Agent("worker", ScriptedModel(reply=reply), tools=[note])  # type: ignore[arg-type]  # a line of any kind
    runner = run(agent)
    await asyncio.gather(*(Chat(runner).say(key) for key in keys))
    fresh = Chat(runner)
    await runner.create_session(user_id=fresh.user, session_id=fresh.session)
    assert sorted(await fresh.state()) == sorted([f"{scope}:{key}" for key in keys for scope in ("user", "app")])


async def test_the_state_of_parallel_tools_is_merged_in_the_order_of_their_calls(run: MakeRunner) -> None:
    first, second = asyncio.Event(), asyncio.Event()

    async def one(tool_context: ToolContext) -> str:
        await second.wait()
        tool_context.state.update({"winner": "one", "one": 1})
        first.set()
        return "one"

    async def two(tool_context: ToolContext) -> str:
        tool_context.state.update({"winner": "two", "two": 2})
        second.set()
        await first.wait()
        return "two"

    model = ScriptedModel([call("one"), call("two")], "Both.")
    chat = Chat(run(Agent("worker", model, tools=[one, two])))
    await chat.say("Go")
    assert await chat.state() == {"winner": "two", "one": 1, "two": 2}


@pytest.mark.parametrize("value", [object(), math.nan, "\ud800", {"deep": {1, 2}}])
async def test_state_that_cannot_be_stored_is_lost_with_the_result(run: MakeRunner, value: object) -> None:
    async def smuggle(tool_context: ToolContext) -> str:
        tool_context.actions.state_delta["x"] = value  # type: ignore[assignment]  # past the check of `state[...]`
        return "done"

    [result] = await outcomes(run, smuggle, gated=False)
    lost = isinstance(value, str) or type(value) is object
    assert ("ran to its end." in str(result.get("status"))) is lost


async def test_state_and_instruction_see_each_other(run: MakeRunner) -> None:
    seen: list[str] = []

    def instruct(context: object) -> str:
        seen.append(str(context.state.get("temp:mood")))  # type: ignore[attr-defined]
        return "Be kind."

    def set_mood(tool_context: ToolContext) -> str:
        tool_context.state["temp:mood"] = "calm"
        return "set"

    model = ScriptedModel(call("set_mood"), "Calm.", "Later.")
    chat = Chat(run(Agent("worker", model, instruction=instruct, tools=[set_mood])))
    await chat.say("Hello")
    await chat.say("Hello again")
    assert seen == ["None", "calm", "None"]


async def test_a_value_changed_in_place_is_not_changed_behind_the_sessions_back(run: MakeRunner) -> None:
    def forget(tool_context: ToolContext) -> None:
        notes = tool_context.state["notes"]
        assert isinstance(notes, list)
        notes.append("never set")

    def keep(tool_context: ToolContext) -> None:
        notes = tool_context.state["notes"]
        assert isinstance(notes, list)
        tool_context.state["notes"] = [*notes, "set"]

    model = ScriptedModel(call("forget"), "Done.", call("keep"), "Done.")
    chat = Chat(run(Agent("worker", model, tools=[forget, keep])))
    await chat.say("Go", state={"notes": ["first"]})
    await chat.say("Go")
    assert await chat.state() == {"notes": ["first", "set"]}


# Context


async def test_a_tool_knows_who_asks_and_which_call_it_is(run: MakeRunner) -> None:
    def who(tool_context: ToolContext) -> JsonObject:
        return {
            "user": tool_context.user_id,
            "session": tool_context.session_id,
            "agent": tool_context.agent_name,
            "call": tool_context.function_call_id,
            "invocation": tool_context.invocation_id,
            "attempt": tool_context.attempt,
        }

    model = ScriptedModel(call("who"), "You.")
    chat = Chat(run(Agent("worker", model, tools=[who])))
    heard = await chat.say("Who am I?")
    (asked,) = heard.events[0].calls()
    assert heard.result("who") == {
        "user": chat.user,
        "session": chat.session,
        "agent": "worker",
        "call": asked.id,
        "invocation": heard.events[0].invocation_id,
        "attempt": 1,
    }


async def test_two_calls_never_share_a_key_whatever_their_names(run: MakeRunner) -> None:
    """A model may call both "call_1". Names over REST may have any separator in them."""
    keys: list[str] = []

    def pay(tool_context: ToolContext) -> None:
        keys.append(tool_context.idempotency_key)

    asks = FunctionCall(id="call_1", name="pay", args={})
    runner = run(Agent("payer", ScriptedModel(asks, "Paid.", asks, "Paid.", asks, "Paid."), tools=[pay]))
    for user, session in (("eu", "team/1"), ("eu/team", "1"), ("eu", "team/1")):
        await Chat(runner, session, user).say("Pay")
        await runner.delete_session(user_id=user, session_id=session)
    assert len({*keys}) == 3


# Time


async def test_a_check_of_arguments_holds_up_nobody_else(run: MakeRunner) -> None:
    """Its answer comes only after something else was done on the event loop."""
    asked, answered = threading.Event(), threading.Event()

    class Checked(FunctionTool):
        def bind(self, args: JsonObject, *, strict: bool = False) -> Bound:
            asked.set()
            assert answered.wait(30)
            return super().bind(args, strict=strict)

    def pay(amount: int) -> str:
        return f"paid {amount}"

    model = ScriptedModel(call("pay", amount=1), "I see.")
    chat = Chat(run(Agent("worker", model, tools=[Checked(pay, require_confirmation=True)])))
    saying = asyncio.ensure_future(chat.say("Go"))
    await until(asked.is_set)
    answered.set()
    heard = await chat.approve((await saying).request, {"amount": 2})
    assert heard.result("pay") == {"result": "paid 2"}


stuck, let_go = set[int](), threading.Event()
"""The amounts whose check does not end before it is let go."""


def check_amount(amount: int) -> int:
    if amount in stuck:
        let_go.wait(10)
    return amount


async def test_a_check_that_does_not_end_is_a_no(run: MakeRunner) -> None:
    def pay(amount: Annotated[int, AfterValidator(check_amount)]) -> str:
        raise AssertionError(amount)

    model = ScriptedModel(call("pay", amount=1), "I see.", "So be it.")
    tools = [FunctionTool(pay, require_confirmation=True)]
    chat = Chat(run(Agent("worker", model, tools=tools), model_patience=0.2))
    request = (await chat.say("Go")).request
    stuck.update((1, 2))
    let_go.clear()
    with pytest.raises(BadArguments, match=r"the tool did not check them within 0\.2 s"):
        await chat.approve(request, {"amount": 2})
    heard = await chat.approve(request)
    assert "did not check them within 0.2 s. Nothing ran." in canonical(heard.result("pay"))
    stuck.clear()
    let_go.set()


async def test_arguments_of_any_size_are_not_taken(run: MakeRunner) -> None:
    def add(numbers: list[int]) -> int:
        raise AssertionError(numbers)

    chat = Chat(run(Agent("worker", ScriptedModel(call("add", numbers=[1] * 50_001), "I see."), tools=[add])))
    refused = (await chat.say("Go")).result("add")
    assert "they have more than 50,000 values or 1,000,000 characters" in canonical(refused)
