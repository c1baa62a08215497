"""The next step for the calls of one turn, and the events about their states."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from runtime.adk.signing import Announcement, announcement_about
from runtime.calls.call import SETTLED, Call, CallState, GateKind, HeldRequest
from runtime.calls.turn import (
    OUTCOME_UNKNOWN,
    PLACEHOLDER,
    AddEvents,
    Recover,
    RunTools,
    events_for,
    next_step,
)
from runtime.confirming import requests_in
from runtime.jsontypes import JsonObject
from runtime.wire import Dialect, Event, EventActions, NodeInfo

TEMPLATE = Event(invocation_id="e-1", author="agent", node_info=NodeInfo(path="agent@1"), timestamp=7.0)


def made(place: int, state: CallState, *, told: bool = False, gate: GateKind = GateKind.STATIC) -> Call:
    held = state is CallState.HELD
    result: JsonObject | None = None
    if state in SETTLED:
        result = {"result": place}
    elif held and gate is GateKind.DYNAMIC:
        result = {"status": "asked"}
    return Call(
        id=f"c{place}",
        tool="tool",
        args={"n": place},
        agent="agent",
        invocation_id="e-1",
        turn=1,
        place=place,
        gate=gate,
        state=state,
        asked=(HeldRequest(f"r{place}", "Sure?"),) if held else (),
        result=result,
        told=told,
    )


states = st.builds(
    lambda place, state, told, gate: made(place, state, told=told, gate=gate),
    st.integers(0, 9),
    st.sampled_from(CallState),
    st.booleans(),
    st.sampled_from([GateKind.STATIC, GateKind.DYNAMIC]),
)
turns = st.lists(states, max_size=6, unique_by=lambda call: call.place)


@given(turns)
def test_first_the_dead_are_recovered_then_what_is_ready_runs_then_events_follow(calls: list[Call]) -> None:
    step = next_step(calls)
    running = {c.id for c in calls if c.state is CallState.RUNNING}
    ready = {c.id for c in calls if c.state is CallState.READY}
    untold = {c.id for c in calls if not c.told}
    match step:
        case Recover(found):
            assert {c.id for c in found} == running != set()
        case RunTools(found):
            assert not running
            assert {c.id for c in found} == ready != set()
        case AddEvents(found):
            assert not running | ready
            assert {c.id for c in found} == untold != set()
        case "wait":
            assert not running | ready | untold
            assert {c.state for c in calls} & {CallState.HELD, CallState.UNKNOWN}
        case "ask the model":
            assert all(c.settled and c.told for c in calls)


@given(turns, st.randoms())
def test_the_order_in_which_calls_are_read_does_not_matter(calls: list[Call], dice: object) -> None:
    shuffled = calls[:]
    dice.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis' own random.Random
    step = next_step(calls)
    assert next_step(shuffled) == step
    if isinstance(step, Recover | RunTools | AddEvents):
        assert list(step.calls) == sorted(step.calls, key=lambda call: call.place)


def test_a_turn_without_calls_owes_the_models_answer() -> None:
    assert next_step([]) == "ask the model"


@given(turns)
def test_each_step_taken_brings_a_turn_to_waiting_or_to_the_model(calls: list[Call]) -> None:
    for _ in range(10):
        step = next_step(calls)
        match step:
            case Recover(found):
                done = [replace(call, state=CallState.UNKNOWN, told=False) for call in found]
            case RunTools(found):
                done = [replace(call, state=CallState.DONE, result={}, told=False) for call in found]
            case AddEvents(found):
                done = [replace(call, told=True) for call in found]
            case _:
                return
        by_place = {call.place: call for call in [*calls, *done]}
        calls = list(by_place.values())
    raise AssertionError(f"this turn never comes to rest: {calls}")


tellable = st.lists(
    st.builds(
        made,
        st.integers(0, 9),
        st.sampled_from([CallState.HELD, CallState.DONE, CallState.REFUSED, CallState.UNKNOWN]),
        gate=st.sampled_from([GateKind.STATIC, GateKind.DYNAMIC]),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda call: call.place,
)


@given(tellable, st.sampled_from(["call", "response"]))
def test_every_call_is_reported_once_and_every_held_one_asked_about(calls: list[Call], dialect: Dialect) -> None:
    events = events_for(calls, TEMPLATE, EventActions(), dialect)
    held = [call for call in calls if call.state is CallState.HELD]
    unknown = [call for call in calls if call.state is CallState.UNKNOWN]

    asked = [request for event in events for request in requests_in(event)]
    assert [request.call.id for request in asked] == [call.id for call in held]
    assert [request.id for request in asked] == [call.request.request_id for call in held if call.request]
    assert [request.dialect for request in asked] == [dialect] * len(held)

    found = {c.id: one for event in events for c in held if (one := announcement_about(event.custom_metadata, c.id))}
    static = {call.id: call.gate is GateKind.STATIC for call in held}
    assert found == {id_: Announcement(gated=gate, edits=gate) for id_, gate in static.items()}

    responses = [one for event in events for one in event.responses() if one.name == "tool"]
    answered = [call for call in calls if call not in unknown and (dialect == "call" or call not in held)]
    assert [one.id for one in responses] == [call.id for call in answered]
    assert [one.response for one in responses] == [
        PLACEHOLDER if call.result is None else call.result for call in answered
    ]

    failures = [event for event in events if event.error_code]
    assert [event.error_code for event in failures] == [OUTCOME_UNKNOWN] * len(unknown)
    assert [event.custom_metadata for event in failures] == [{"callId": c.id, "attempt": c.attempt} for c in unknown]

    marked = [one for event in events for one in event.actions.requested_tool_confirmations]
    assert marked == [call.id for call in held]
    waiting = [one for event in events for one in event.long_running_tool_ids or ()]
    assert waiting == sorted(request.id for request in asked)
    for event in events:
        assert (event.author, event.invocation_id, event.timestamp) == ("agent", "e-1", 7.0)
        assert event.node_info.path == "agent@1"
