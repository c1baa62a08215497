"""A call that ran when its process died: only its tool can say that running it again is safe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from adk_confirm.runtime.calls.call import Call, CallEvent, CallState, Finish, GateKind, HeldRequest, Lose, Retry
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.run.execute import CallEnvironment, recover
from adk_confirm.runtime.tool import FunctionTool

PATIENCE = 60.0
SCENE = CallEnvironment(app="a", user_id="u", session_id="s", state={})
EFFECT: JsonObject = {"status": "It took effect before the process stopped; its own result is lost."}


def pay(amount: int) -> str:
    raise AssertionError("nothing runs here")


def left(gate: GateKind) -> Call:
    asked = (HeldRequest(request_id="r", hint=""),) if gate is not GateKind.NONE else ()
    return Call(
        id="c",
        tool="pay",
        args={"amount": 10},
        agent="a",
        invocation_id="e",
        turn=1,
        place=0,
        gate=gate,
        asked=asked,
        state=CallState.RUNNING,
        attempt=1,
    )


def says(answer: Json) -> Callable[[int], Json]:
    def verify(amount: int) -> Json:
        return answer

    return verify


def fails(amount: int) -> Json:
    raise ConnectionError("cannot look")


@pytest.mark.parametrize(
    ("verify", "idempotent", "becomes"),
    [
        (None, False, Lose()),
        (None, True, Retry()),
        (says(True), False, Finish(EFFECT)),
        (says(True), True, Finish(EFFECT)),
        (says({"paid": 10}), True, Finish({"paid": 10})),
        (says(False), False, Retry()),
        (says(False), True, Retry()),
        (says(None), False, Lose()),
        (says(None), True, Retry()),
        (fails, False, Lose()),
        (fails, True, Retry()),
    ],
)
async def test_what_its_tool_says_decides(
    verify: Callable[[int], Json] | None, idempotent: bool, becomes: CallEvent
) -> None:
    tool = FunctionTool(pay, require_confirmation=True, idempotent=idempotent, verify=verify)
    assert await recover(left(GateKind.STATIC), {"pay": tool}, SCENE, PATIENCE) == becomes


async def test_what_verify_does_to_its_task_is_its_own_failure() -> None:
    """It ends neither the process nor the run, and one that does not end holds nothing up."""
    ended = asyncio.Event()

    async def exits(amount: int) -> Json:
        raise SystemExit(3)

    async def stays(amount: int) -> Json:
        while not ended.is_set():
            with suppress(asyncio.CancelledError):
                await ended.wait()
        return True

    for verify, patience in ((exits, PATIENCE), (stays, 0.01)):
        tool = FunctionTool(pay, require_confirmation=True, verify=verify)
        assert await recover(left(GateKind.STATIC), {"pay": tool}, SCENE, patience) == Lose()
    ended.set()


async def test_of_a_tool_that_is_gone_nobody_knows() -> None:
    assert await recover(left(GateKind.STATIC), {}, SCENE, PATIENCE) == Lose()


async def test_a_call_that_nobody_was_asked_about_is_an_error_for_the_model() -> None:
    event = await recover(left(GateKind.NONE), {"pay": FunctionTool(pay)}, SCENE, PATIENCE)
    assert isinstance(event, Finish)
    assert "error" in event.result
