"""Functions as tools: gates, checks, runs and what they return."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from adk_confirm import Agent, ScriptedModel, call
from adk_confirm.runtime.calls.call import CallState, default_hint
from adk_confirm.runtime.context import SessionState, ToolContext
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.titles import title_after_edit
from adk_confirm.runtime.tool import (
    BadArguments,
    BadTool,
    ConfirmationPolicy,
    Declaration,
    FunctionTool,
    Tool,
    ToolOutcomeUnknown,
    as_tool,
)
from tests.runtime.conftest import MakeRunner
from tests.support.dialogue import Chat


def context(state: JsonObject | None = None, **changes: Any) -> ToolContext:
    known: dict[str, Any] = {
        "agent_name": "hr",
        "invocation_id": "e-1",
        "user_id": "u",
        "session_id": "s",
        "state": state or {},
        "function_call_id": "c-1",
        "idempotency_key": "key",
        "request_id": "r-1",
    }
    return ToolContext(**{**known, **changes})


def reimburse(purpose: str, amount: float = 100) -> JsonObject:
    """Reimburses."""
    return {"paid": amount, "for": purpose}


def tool(function: Callable[..., object] = reimburse, **options: Any) -> FunctionTool:
    return FunctionTool(function, **options)


# What it is


def test_a_function_is_a_tool() -> None:
    made = as_tool(reimburse)
    assert isinstance(made, Tool)
    assert (made.name, made.declaration.name, made.declaration.description) == ("reimburse", "reimburse", "Reimburses.")
    assert (made.hint, made.idempotent) == (None, False)
    assert as_tool(made) is made
    assert default_hint("reimburse") == "Approve execution of tool reimburse?"


@pytest.mark.parametrize("thing", ["reimburse", 5, None, object()])
def test_other_things_are_none(thing: Any) -> None:
    with pytest.raises(BadTool, match="is not a tool: give a function, a FunctionTool or a toolset"):
        as_tool(thing)


def test_a_function_without_a_name_of_its_own_is_refused_where_it_is_given() -> None:
    with pytest.raises(BadTool, match="A tool cannot be called <lambda>: give it a name="):
        tool(lambda amount: amount)
    assert tool(lambda amount: amount, name="pay", description="Pays.").declaration == Declaration(
        "pay", "Pays.", {"properties": {"amount": {}}, "required": ["amount"], "type": "object"}
    )


MONEY: JsonObject = {
    "type": "object",
    "properties": {"amount": {"type": "number"}, "currency": {"type": "string", "default": "EUR"}},
    "required": ["amount"],
}


async def test_a_function_of_any_arguments_has_a_schema_of_its_own() -> None:
    made = FunctionTool(
        lambda **given: {"transferred": given},
        name="transfer",
        schema=MONEY,
        require_confirmation=lambda amount: amount > 100,
    )
    assert made.declaration.schema == MONEY
    bound = made.bind({"amount": 1500})
    assert (bound.args, bound.defaults) == ({"amount": 1500, "currency": "EUR"}, ("currency",))
    assert await made.gated(bound.args, context()) is True
    assert await made.run(bound.args, context()) == {"transferred": {"amount": 1500, "currency": "EUR"}}
    with pytest.raises(BadArguments, match=r"to: is not an argument .*; amount: must be of type number"):
        made.bind({"amount": "1500", "to": "bob"})


def test_a_schema_beside_a_signature_is_refused_and_so_is_one_that_is_none() -> None:
    with pytest.raises(BadTool, match="reimburse has a signature, so its schema comes from there"):
        tool(schema=MONEY)
    with pytest.raises(BadTool, match="The schema of pay is no valid JSON Schema"):
        tool(lambda **given: given, name="pay", schema={"type": "money"})


class Transfer(Tool):
    name, description, schema = "transfer", "Moves money.", MONEY

    def requires_confirmation(self, args: JsonObject) -> bool:
        return args["currency"] != "EUR"

    async def run(self, args: JsonObject, context: ToolContext) -> Json:  # noqa: ARG002  (as the base has it)
        return {"transferred": args["amount"]}


async def test_a_tool_of_ones_own_says_only_what_is_special_to_it(run: MakeRunner) -> None:
    euros, francs = call("transfer", amount=5), call("transfer", amount=7, currency="CHF")
    chat = Chat(run(Agent("clerk", ScriptedModel([euros, francs], "Done."), tools=[Transfer()])))
    heard = await chat.say("Move it")
    assert heard.request.call.arguments == {"amount": 7, "currency": "CHF"}
    first, _ = await chat.calls()
    assert (first.state, first.result) == (CallState.DONE, {"transferred": 5})
    assert (await chat.approve(heard.request)).result("transfer") == {"transferred": 7}


def test_a_tool_of_ones_own_asks_nobody_unless_it_says_so() -> None:
    class Lookup(Tool):
        name = "lookup"

    made = as_tool(Lookup())
    assert (made.hint, made.idempotent, made.requires_confirmation({})) == (None, False, False)
    assert made.bind({}).args == {}
    with pytest.raises(BadArguments, match="x: is not an argument"):
        made.bind({"x": 1})


def test_what_cannot_be_called_makes_no_tool() -> None:
    def pay() -> None: ...

    for wrong in ({"func": FunctionTool(pay)}, {"func": pay, "verify": True}):
        with pytest.raises(BadTool, match="cannot be called: a tool is made of functions"):
            FunctionTool(**wrong)


# The gate


async def over_1000(amount: float, tool_context: ToolContext) -> bool:
    return amount > 1000 and tool_context.session_id == "s"


def over_1000_sync(amount: float) -> bool:
    return amount > 1000


def everything(**arguments: Any) -> bool:
    return arguments == {"purpose": "trip", "amount": 1500}


class Threshold:
    def __init__(self, limit: float) -> None:
        self.limit = limit

    async def __call__(self, amount: float) -> bool:
        return amount > self.limit


@pytest.mark.parametrize(
    ("gate", "amount", "held"),
    [
        (False, 5, False),
        (True, 5, True),
        (over_1000, 1500, True),
        (over_1000, 500, False),
        (over_1000_sync, 1500, True),
        (over_1000_sync, "1500", True),
        (lambda amount: amount > 1000, 1500, True),
        (functools.partial(Threshold.__call__, Threshold(2000)), 1500, False),
        (Threshold(1000), 1500, True),
        (everything, 1500, True),
        (lambda purpose, tool_context: purpose == tool_context.state["key"], 1, True),
        (lambda: True, 1, True),
        (lambda amount, at_night=True: at_night and amount == 1, 1, True),
    ],
)
async def test_a_gate_is_a_bool_or_a_predicate_sync_or_async(gate: Any, amount: Json, held: bool) -> None:
    made = tool(require_confirmation=gate)
    assert await made.gated({"purpose": "trip", "amount": amount}, context({"key": "trip"})) is held


async def test_a_predicate_sees_what_the_tool_will_see() -> None:
    seen: list[object] = []

    def predicate(purpose: str, amount: float) -> bool:
        seen.append((purpose, amount))
        return True

    assert await tool(require_confirmation=predicate).gated({"purpose": "trip"}, context())
    assert seen == [("trip", 100)], "the default is what runs"


async def test_a_predicate_that_says_nothing_lets_nothing_through() -> None:
    def forgetful(amount: float) -> None:
        _ = amount > 1000

    with pytest.raises(BadTool, match="forgetful returned nothing: a predicate says True or False"):
        await tool(require_confirmation=forgetful).gated({"purpose": "p"}, context())


@pytest.mark.parametrize("role", ["require_confirmation", "verify"])
def test_a_predicate_of_other_arguments_is_refused_where_it_is_given(role: str) -> None:
    def misspelled(amuont: float) -> bool:
        return amuont > 1000

    with pytest.raises(BadTool) as caught:
        tool(**{role: misspelled})
    assert str(caught.value) == (
        f"{role} of reimburse takes amuont, which is not an argument of it (there are: amount, purpose)."
    )


# Runs


async def test_a_slow_function_stops_nobody_and_keeps_its_context_variables() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who")
    both_run = threading.Barrier(2, timeout=20)

    def slow() -> str:
        both_run.wait()
        return f"{who.get()} {threading.current_thread() is threading.main_thread()}"

    who.set("me")
    made = tool(slow)
    first, second = await asyncio.gather(made.run({}, context()), made.run({}, context()))
    assert first == second == "me False"


async def test_tools_that_hang_hold_up_neither_gates_nor_other_tools() -> None:
    released = threading.Event()

    def hang() -> None:
        released.wait(60)

    try:
        runs = (tool(hang, timeout=0.01).run({}, context()) for _ in range(70))
        ended = await asyncio.gather(*runs, return_exceptions=True)
        assert {type(one) for one in ended} == {ToolOutcomeUnknown}
        async with asyncio.timeout(20):
            made = tool(require_confirmation=over_1000_sync)
            assert await made.gated({"purpose": "trip", "amount": 1500}, context())
            assert await made.run({"purpose": "trip", "amount": 1500}, context())
    finally:
        released.set()


async def test_what_a_sync_function_hands_back_to_await_is_awaited() -> None:
    async def inner() -> str:
        return "done"

    def outer() -> Any:
        return inner()

    assert await tool(outer).run({}, context()) == "done"


# After a crash


async def test_only_verify_says_whether_it_happened() -> None:
    async def happened(purpose: str, tool_context: ToolContext) -> JsonObject:
        return {"paid": tool_context.idempotency_key, "for": purpose}

    assert await tool().verify({"purpose": "trip"}, context()) is None
    made = tool(verify=happened, idempotent=True)
    assert made.idempotent
    assert await made.verify({"purpose": "trip"}, context()) == {"paid": "key", "for": "trip"}
    assert await tool(verify=lambda amount: amount == 100).verify({"purpose": "trip"}, context()) is True
    assert await tool(verify=lambda: False).verify({"purpose": "trip"}, context()) is False


# The context


def test_state_reads_through_and_writes_a_delta() -> None:
    delta: JsonObject = {}
    base: JsonObject = {"a": 1, "b": {"c": 2}}
    state = SessionState(base, delta)
    state["x"] = 5
    state["a"] = (1, 2)  # type: ignore[assignment]  # JSON by the time it is there
    del state["b"]
    assert delta == {"x": 5, "a": [1, 2], "b": None}
    assert base == {"a": [1, 2], "x": 5}, "other tools see it"
    assert state.get("nothing", "else") == "else"
    assert dict(state) == state.to_dict() == {"a": [1, 2], "x": 5}
    assert ("b" in state, len(state), state.pop("x"), state.get("x")) == (False, 2, 5, None)
    for gone in ("nothing", "b", "x"):
        with pytest.raises(KeyError):
            state.pop(gone)
    state["b"] = None
    assert "b" in state
    with pytest.raises(Invalid):
        state["bad"] = object()  # type: ignore[assignment]  # what a tool may try


# Policies


def test_a_policy_holds_none_all_or_the_named() -> None:
    assert not ConfirmationPolicy.none().holds("a")
    assert ConfirmationPolicy.all().holds("a")
    named = ConfirmationPolicy.named(["a", "b", "a"])
    assert (named.holds("a"), named.holds("c"), named.names) == (True, False, frozenset("ab"))
    assert named == ConfirmationPolicy.named({"b", "a"})
    with pytest.raises(BadTool, match=r"takes a set of names: \{'delete_file'\}, not 'delete_file'"):
        ConfirmationPolicy.named("delete_file")


# A tool's title: which templates are valid, and how it is announced


def deploy(service: str, env: str = "prod") -> str:
    return f"{service} {env}"


async def title_of(title: object) -> str | None:
    tool = FunctionTool(deploy, title=title)  # type: ignore[arg-type]  # wrong ones are among them
    return await tool.title({"service": "checkout"}, ToolContext.__new__(ToolContext))


async def test_a_title_is_announced_with_the_call_and_the_model_does_not_see_it() -> None:
    assert await title_of("Deploy {service}") == "Deploy {service}"
    assert "title" not in FunctionTool(deploy, title="Deploy {service}").declaration.schema
    assert await title_of(None) is None


async def test_a_function_is_asked_with_the_defaults_and_holds_for_these_arguments_only() -> None:
    said = await title_of(lambda service, env: f"Deploy {service} to {env} {{now}}")
    assert said == "Deploy checkout to prod {{now}}"
    assert title_after_edit(said) is None
    assert title_after_edit("Deploy {service}") == "Deploy {service}"
    assert title_after_edit("Deploy {service!r}") is None


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("Deploy {service", "lone brace"),
        ("Deploy {region}", "names region, which is not an argument"),
        ("Deploy {service!r}", "can only name arguments"),
        ("", "must not be empty"),
        (lambda region: region, "title of deploy takes region"),
    ],
)
def test_a_wrong_title_is_reported_where_the_tool_is_made(title: object, said: str) -> None:
    with pytest.raises(BadTool, match=said):
        FunctionTool(deploy, title=title)  # type: ignore[arg-type]  # as somebody may write it
