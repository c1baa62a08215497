"""Gates: who is asked before a tool runs, in which words, and what an answer does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from pydantic import BaseModel

from adk_confirm import (
    Agent,
    Conflict,
    FunctionTool,
    Invalid,
    Request,
    ScriptedModel,
    ToolConfirmation,
    ToolContext,
    call,
)
from adk_confirm.runtime.jsontypes import Json, JsonObject
from tests.runtime.conftest import MakeRunner
from tests.support.dialogue import Chat, shown

log: list[object] = []


def reimburse(purpose: str, amount: float) -> JsonObject:
    """Pays an employee back."""
    log.append((purpose, amount))
    return {"status": "ok", "amount": amount}


async def areimburse(purpose: str, amount: float) -> JsonObject:
    """Pays an employee back."""
    return reimburse(purpose, amount)


def request_time_off(days: int, tool_context: ToolContext) -> JsonObject:
    """Asks for days off."""
    confirmation = tool_context.tool_confirmation
    if not confirmation:
        tool_context.request_confirmation(hint="How many days?", payload={"approved_days": 0})
        return {"status": "Manager approval is required."}
    assert isinstance(confirmation.payload, dict)
    approved = confirmation.payload["approved_days"]
    assert isinstance(approved, int)
    log.append((days, approved))
    return {"approved_days": min(approved, days)}


def clerk(*tools: object, script: tuple[object, ...]) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(*script)  # type: ignore[arg-type]  # lines of any kind
    return Agent("clerk", model, tools=tools), model  # type: ignore[arg-type]  # tools of any kind


TRIP = call("reimburse", purpose="trip", amount=1500)


async def held(run: MakeRunner, tool: object, *script: object) -> tuple[Chat, Request, ScriptedModel]:
    """A chat with one call that waits."""
    agent, model = clerk(tool, script=script)
    chat = Chat(run(agent))
    return chat, (await chat.say("Go")).request, model


async def trip(run: MakeRunner, said: str = "Paid.") -> tuple[Chat, Request, ScriptedModel]:
    return await held(run, FunctionTool(reimburse, require_confirmation=True), TRIP, said)


async def test_a_gated_tool_waits_for_a_person_and_then_runs_once(run: MakeRunner) -> None:
    agent, model = clerk(FunctionTool(reimburse, require_confirmation=True), script=(TRIP, "Paid."))
    chat = Chat(run(agent))

    heard = await chat.say("The trip was 1500")
    assert heard.lines == [
        'clerk calls reimburse {"amount":1500,"purpose":"trip"}',
        "clerk asks reimburse: Approve execution of tool reimburse?",
        'clerk got reimburse: {"error":"This tool call requires confirmation, please approve or reject."}',
    ]
    assert log == []
    request = heard.request
    assert request.call.arguments == {"purpose": "trip", "amount": 1500}
    assert request.id != request.call.id
    asking = heard.events[1]
    assert asking.long_running_tool_ids == [request.id]
    assert heard.events[2].actions.skip_summarization is True
    assert list(heard.events[2].actions.requested_tool_confirmations) == [request.call.id]
    assert len({event.invocation_id for event in heard.events}) == 1

    heard = await chat.approve(request)
    assert heard.lines == ['clerk got reimburse: {"amount":1500,"status":"ok"}', "clerk says Paid."]
    assert {event.invocation_id for event in heard.events} == {asking.invocation_id}
    assert log == [("trip", 1500)]
    assert shown(model.requests[-1]) == [
        "user: The trip was 1500",
        'model calls reimburse {"amount":1500,"purpose":"trip"}',
        'user got reimburse: {"amount":1500,"status":"ok"}',
    ]


@pytest.mark.parametrize("reason", [None, "Too much"])
async def test_a_denied_call_never_runs_and_the_model_is_told_why(run: MakeRunner, reason: str | None) -> None:
    chat, request, model = await trip(run, "Sorry.")
    heard = await chat.deny(request, reason)
    refusal = {"error": "tool call was rejected by the user"} | ({"reason": reason} if reason else {})
    assert heard.result("reimburse") == refusal
    assert heard.texts == ["Sorry."]
    assert model.requests[-1][-1].parts is not None
    (response,) = model.requests[-1][-1].responses()
    assert response.response == refusal
    assert log == []


# Predicates


def over_1000(amount: float) -> bool:
    log.append("asked")
    return amount > 1000


async def aover_1000(amount: float, tool_context: ToolContext) -> bool:
    log.append(f"asked for {tool_context.user_id}")
    return amount > 1000


def anything_goes(**args: object) -> bool:
    log.append(f"asked with {sorted(args)}")
    return args["amount"] != 10


@pytest.mark.parametrize("predicate", [over_1000, aover_1000, anything_goes])
@pytest.mark.parametrize("tool", [reimburse, areimburse])
async def test_a_predicate_decides_once_who_is_asked(run: MakeRunner, predicate: object, tool: object) -> None:
    gated = FunctionTool(tool, require_confirmation=predicate, hint="Approve this?")  # type: ignore[arg-type]
    name = gated.name
    agent, _ = clerk(
        gated, script=([call(name, purpose="tea", amount=10), call(name, purpose="trip", amount=1500)], "Paid.")
    )
    chat = Chat(run(agent))

    heard = await chat.say("Tea and a trip")
    assert [request.hint for request in heard.requests] == ["Approve this?"]
    assert heard.request.call.arguments["purpose"] == "trip"
    assert log[-1] == ("tea", 10)
    asked = len(log) - 1
    assert asked == 2

    await chat.approve(heard.request)
    assert log[asked:] == [("tea", 10), ("trip", 1500)]


async def test_a_denied_call_stays_denied_though_the_predicate_would_let_it_through_by_now(run: MakeRunner) -> None:
    strict = [True]

    def predicate(amount: float) -> bool:
        return strict[0]

    chat, request, _ = await held(run, FunctionTool(reimburse, require_confirmation=predicate), TRIP, "Sorry.")
    strict[0] = False
    await chat.deny(request)
    assert log == []


def raises(amount: float) -> bool:
    raise LookupError("the rate table is away")


def ends_the_process(amount: float) -> bool:
    raise SystemExit(3)


def finds_nothing(amount: float) -> bool:
    return bool(next(iter(())))


@pytest.mark.parametrize(
    ("predicate", "why"),
    [
        (raises, "LookupError: the rate table is away"),
        (ends_the_process, "SystemExit: 3"),
        (finds_nothing, "StopIteration"),
    ],
)
async def test_a_predicate_that_fails_lets_nothing_through(run: MakeRunner, predicate: object, why: str) -> None:
    gated = FunctionTool(reimburse, require_confirmation=predicate)  # type: ignore[arg-type]
    agent, model = clerk(gated, script=(TRIP, "I could not ask."))
    heard = await Chat(run(agent)).say("The trip was 1500")
    assert heard.requests == []
    assert heard.texts == ["I could not ask."]
    assert "The gate of reimburse failed, so nothing ran: " in str(heard.result("reimburse")["error"])
    assert why in shown(model.requests[-1])[-1]
    assert log == []


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_predicate_that_hangs_lets_nothing_through(run: MakeRunner, kind: str) -> None:
    may_end = threading.Event()

    async def hangs(amount: float) -> bool:
        await asyncio.Event().wait()
        return False

    def stands_still(amount: float) -> bool:
        may_end.wait()
        return False

    gated = FunctionTool(reimburse, require_confirmation=hangs if kind == "async" else stands_still)
    agent, _ = clerk(gated, script=(TRIP, "I could not ask."))
    heard = await Chat(run(agent, model_patience=0.1)).say("The trip was 1500")
    may_end.set()
    assert "The gate of reimburse failed, so nothing ran: TimeoutError" in str(heard.result("reimburse"))
    assert heard.texts == ["I could not ask."]
    assert log == []


@pytest.mark.parametrize("gate", ["static", "dynamic", "payload"])
async def test_a_hint_that_cannot_be_stored_harms_nobody(run: MakeRunner, gate: str) -> None:
    def pay(tool_context: ToolContext) -> str:
        if gate == "dynamic":
            tool_context.request_confirmation(hint="half a pair \ud800")
        if gate == "payload":
            tool_context.request_confirmation(payload=object())
        return "asked"

    agent, _ = clerk(
        FunctionTool(pay, require_confirmation=gate == "static", hint="half a pair \ud800"),
        script=(call("pay"), "Well."),
    )
    chat = Chat(run(agent))
    heard = await chat.say("Pay")
    if gate == "static":
        assert heard.request.hint == "half a pair ?"
        assert (await chat.approve(heard.request)).texts == ["Well."]
    else:
        assert list(heard.result("pay")) == ["error"]
        assert heard.texts == ["Well."]


# Amended arguments


@pytest.mark.parametrize(
    ("payload", "ran"),
    [
        ({"amount": 1200}, ("trip", 1200)),
        ({"amount": 1200, "purpose": "train"}, ("train", 1200)),
        ({"purpose": "trip", "amount": 1500}, ("trip", 1500)),  # the call's own, as ADK's web page sends them
        ({}, ("trip", 1500)),
        (None, ("trip", 1500)),
    ],
)
async def test_who_approves_may_amend_the_arguments(
    run: MakeRunner, payload: JsonObject | None, ran: tuple[str, float]
) -> None:
    chat, request, _ = await trip(run)
    assert (await chat.approve(request, payload)).texts == ["Paid."]
    assert log == [ran]

    (recorded,) = await chat.calls()
    assert recorded.args == {"purpose": "trip", "amount": 1500}
    assert recorded.run_args == {"purpose": ran[0], "amount": ran[1]}


@pytest.mark.parametrize(
    ("payload", "field", "problem"),
    [
        ({"sum": 5}, "sum", "is not an argument (there are: amount, purpose)"),
        ({"amount": "1200"}, "amount", "valid number"),
        ("1200", "payload", "must be an object"),
    ],
)
async def test_an_amendment_that_does_not_fit_is_refused_and_the_request_still_waits(
    run: MakeRunner, payload: JsonObject, field: str, problem: str
) -> None:
    chat, request, _ = await trip(run)
    before = await chat.history()

    with pytest.raises(Invalid, match=field) as refused:
        await chat.approve(request, payload)
    assert problem in str(refused.value)
    assert await chat.history() == before
    assert log == []

    await chat.approve(request)
    assert log == [("trip", 1500)]


@pytest.mark.parametrize(
    ("proposed", "edited"), [({"dry_run": True}, {"dry_run": 1}), ({"dry_run": 1}, {"dry_run": True})]
)
async def test_true_is_not_one_for_who_edits_it(run: MakeRunner, proposed: JsonObject, edited: JsonObject) -> None:
    async def sweep(options: dict[str, bool | int]) -> None:
        """Removes what is old."""
        log.append(repr(options))

    tool = FunctionTool(sweep, require_confirmation=True)
    chat, request, _ = await held(run, tool, call("sweep", options=proposed), "Swept.")
    await chat.approve(request, {"options": edited})
    assert log == [repr(edited)]


async def test_an_argument_called_reason_is_no_reason_for_a_denial(run: MakeRunner) -> None:
    def take_leave(days: int, reason: str) -> str:
        log.append(reason)
        return "done"

    tool = FunctionTool(take_leave, require_confirmation=True)
    chat, request, _ = await held(run, tool, call("take_leave", days=2, reason="a wedding"), "Sorry.")
    heard = await chat.respond(request.id, {"confirmed": False, "payload": request.call.arguments})
    assert heard.result("take_leave") == {"error": "tool call was rejected by the user"}
    assert log == []


# Dynamic gates


async def test_a_denied_dynamic_gate_does_not_run_the_body_again(run: MakeRunner) -> None:
    chat, request, _ = await held(run, request_time_off, call("request_time_off", days=5), "Sorry.")
    heard = await chat.deny(request, "Release week")
    assert heard.result("request_time_off") == {"error": "tool call was rejected by the user", "reason": "Release week"}
    assert log == []


def asks_again(context: ToolContext) -> None:
    context.request_confirmation(hint="Please?")


ANSWERS: dict[str, tuple[Callable[[ToolContext], object], Json]] = {
    "results": (lambda _: {"status": "stays"}, {"status": "stays"}),
    "fails": (lambda _: 1 / 0, {"error": "ZeroDivisionError: division by zero"}),
    "asks again": (asks_again, {"result": None}),
}


@pytest.mark.parametrize("what", ANSWERS)
async def test_a_function_may_ask_to_be_called_with_the_denial(run: MakeRunner, what: str) -> None:
    """As google-adk does it. The call stays denied, whatever the function does then."""
    returned, expected = ANSWERS[what]

    def leave(days: int, tool_context: ToolContext) -> object:
        confirmation = tool_context.tool_confirmation
        if confirmation is None:
            tool_context.request_confirmation(payload={"approved_days": 0})
            return None
        log.append((days, confirmation.confirmed, confirmation.payload))
        return returned(tool_context)

    tool = FunctionTool(leave, on_denied="call")
    chat, request, model = await held(run, tool, call("leave", days=5), "Sorry.", "It was denied.")
    heard = await chat.deny(request, "Release week")
    assert heard.result("leave") == expected
    assert heard.lines[-1] == "clerk says Sorry."
    again = await chat.deny(request, "Release week")
    assert again.lines == []
    with pytest.raises(Conflict):
        await chat.approve(request)
    assert log == [(5, False, {"approved_days": 0, "reason": "Release week"})]
    assert len(model.requests) == 2


async def test_a_gated_function_is_not_called_with_a_denial(run: MakeRunner) -> None:
    """Nor is it by google-adk: it did not ask by itself."""
    tool = FunctionTool(reimburse, require_confirmation=True, on_denied="call")
    chat, request, _ = await held(run, tool, TRIP, "Sorry.")
    heard = await chat.deny(request)
    assert heard.result("reimburse") == {"error": "tool call was rejected by the user"}
    assert log == []


class Leave(BaseModel):
    approved_days: int = 0
    comment: str = ""


@pytest.mark.parametrize("payload", [Leave(approved_days=1), Leave])
async def test_a_payload_may_be_a_pydantic_model_and_its_schema_is_kept(run: MakeRunner, payload: object) -> None:
    def leave(days: int, tool_context: ToolContext) -> JsonObject:
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(payload=payload)
            return {"status": "waiting"}
        return {"payload": tool_context.tool_confirmation.payload}

    chat, request, _ = await held(run, leave, call("leave", days=5), "Done.")
    assert request.hint == "Approve execution of tool leave?"
    assert request.payload == ({"approved_days": 1, "comment": ""} if payload is not Leave else None)
    (waiting,) = await chat.calls()
    assert waiting.request is not None
    assert waiting.request.payload_schema == Leave.model_json_schema()
    heard = await chat.approve(request, {"approved_days": 2, "comment": "ok"})
    assert heard.result("leave") == {"payload": {"approved_days": 2, "comment": "ok"}}


async def test_a_statically_gated_tool_may_look_at_its_approval(run: MakeRunner) -> None:
    def deploy(version: str, tool_context: ToolContext) -> str:
        log.append(tool_context.tool_confirmation)
        return "deployed"

    gated = FunctionTool(deploy, require_confirmation=True, hint="Deploy?")
    chat, request, _ = await held(run, gated, call("deploy", version="1"), "Done.")
    await chat.approve(request, {"version": "2"})
    assert log == [ToolConfirmation(hint="Deploy?", confirmed=True, payload={"version": "2"})]


# A tool that writes into its arguments


class Greedy(FunctionTool):
    """Puts other values into the arguments that it is given, as careless code does."""

    async def gated(self, args: JsonObject, context: ToolContext) -> bool:
        args["amount"] = 99_999
        return await super().gated(args, context)

    async def run(self, args: JsonObject, context: ToolContext) -> Json:
        args["amount"] = 99_999
        return await super().run(args, context)


async def test_a_gate_that_changes_the_arguments_changes_neither_what_is_shown_nor_what_runs(run: MakeRunner) -> None:
    def pay(amount: int) -> str:
        log.append(f"paid {amount}")
        return "paid"

    class Gate(Greedy):
        async def run(self, args: JsonObject, context: ToolContext) -> Json:
            return await FunctionTool.run(self, args, context)

    chat, request, _ = await held(run, Gate(pay, require_confirmation=True), call("pay", amount=10), "Paid.")
    assert request.call.arguments == {"amount": 10}
    await chat.approve(request)
    assert log == ["paid 10"]


async def test_a_tool_that_changes_its_arguments_does_not_change_what_was_approved(run: MakeRunner) -> None:
    def pay(amount: int, tool_context: ToolContext) -> str:
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="Pay it?")
            return "waits"
        return "paid"

    chat, request, _ = await held(run, Greedy(pay), call("pay", amount=10), "Paid.")
    (waiting,) = await chat.calls()
    assert (request.call.arguments, waiting.args) == ({"amount": 10}, {"amount": 10})
    await chat.approve(request)
    (done,) = await chat.calls()
    assert (done.args, done.run_args) == ({"amount": 10}, {"amount": 10})
