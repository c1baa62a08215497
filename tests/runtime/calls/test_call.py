"""The life of a call: every transition and every illegal event, and what holds for any order of events."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from adk_confirm.runtime.calls.call import (
    SETTLED,
    Approve,
    Begin,
    Call,
    CallEvent,
    CallState,
    Deny,
    Finish,
    GateKind,
    HeldRequest,
    Hold,
    IllegalStep,
    Lose,
    Refuse,
    Retry,
    RunAgain,
    already_answered,
    call_digest,
    step,
)
from adk_confirm.runtime.errors import Conflict
from adk_confirm.runtime.jsontypes import Json, JsonObject

ARGS: JsonObject = {"purpose": "trip", "amount": 1500}


def new_call(**changes: object) -> Call:
    call = Call("c1", "reimburse", ARGS, agent="hr", invocation_id="e-1", turn=1, place=0)
    return replace(call, **changes)  # type: ignore[arg-type]  # as each test gives them


def asked(request_id: str = "r1") -> HeldRequest:
    return HeldRequest(request_id, "Really?")


def lived(call: Call, *events: CallEvent) -> Call:
    for now, event in enumerate(events):
        call = step(call, event, float(now))
    return call


# Every state and every event


READY = new_call()
HELD = lived(READY, Hold(asked(), GateKind.STATIC))
APPROVED = lived(HELD, Approve())
RUNNING = lived(READY, Begin())
UNKNOWN = lived(RUNNING, Lose())
DONE = lived(RUNNING, Finish({"ok": True}))
REFUSED = lived(HELD, Deny())
STATES = {
    "ready": READY,
    "held": HELD,
    "approved": APPROVED,
    "running": RUNNING,
    "unknown": UNKNOWN,
    "done": DONE,
    "refused": REFUSED,
}
EVENTS: dict[str, CallEvent] = {
    "ask": Hold(asked("r2"), GateKind.DYNAMIC),
    "approve": Approve(),
    "deny": Deny("no money"),
    "begin": Begin(),
    "finish": Finish({"ok": 1}),
    "refuse": Refuse("The tool is gone."),
    "lose": Lose(),
    "retry": Retry(),
    "run again": RunAgain(),
}
LANDS = {
    ("ready", "ask"): CallState.HELD,
    ("ready", "begin"): CallState.RUNNING,
    ("ready", "refuse"): CallState.REFUSED,
    ("held", "approve"): CallState.READY,
    ("held", "deny"): CallState.REFUSED,
    ("held", "refuse"): CallState.REFUSED,
    ("approved", "ask"): CallState.HELD,
    ("approved", "begin"): CallState.RUNNING,
    ("approved", "refuse"): CallState.REFUSED,
    ("running", "ask"): CallState.HELD,
    ("running", "finish"): CallState.DONE,
    ("running", "lose"): CallState.UNKNOWN,
    ("running", "retry"): CallState.READY,
    ("unknown", "finish"): CallState.DONE,
    ("unknown", "run again"): CallState.READY,
}


@pytest.mark.parametrize("state", STATES)
def test_each_event_lands_or_is_illegal(state: str) -> None:
    before = STATES[state]
    for name, event in EVENTS.items():
        if (state, name) in LANDS:
            after = step(before, event, 99.0)
            assert (after.state, after.since) == (LANDS[state, name], 99.0)
            continue
        with pytest.raises(IllegalStep) as caught:
            step(before, event, 99.0)
        assert isinstance(caught.value, Conflict)
        assert str(caught.value) == f"Call c1 is {before.state}: {type(event).__name__.lower()} is not possible."
        assert (caught.value.call, caught.value.event) == (before, event)


# What the steps carry


@pytest.mark.parametrize("changed", [{"args": {"amount": 1500000}}, {"tool": "transfer"}, {"amended": {"amount": 2}}])
def test_what_was_not_approved_does_not_begin(changed: dict[str, object]) -> None:
    with pytest.raises(IllegalStep):
        step(replace(APPROVED, **changed), Begin(), 1.0)  # type: ignore[arg-type]  # as given above


def test_a_tool_that_asks_again_needs_a_new_approval() -> None:
    again = lived(APPROVED, Begin(), Hold(asked("r2"), GateKind.DYNAMIC, {"status": "pending"}))
    assert (again.state, again.approved, again.attempt) == (CallState.HELD, None, 0)
    assert [one.request_id for one in again.asked] == ["r1", "r2"]
    assert again.result == {"status": "pending"}
    assert lived(again, Approve(3)).asked[-1].answer == 3


def test_attempts_are_counted_by_their_effects() -> None:
    lost = lived(APPROVED, Begin(), Lose())
    assert lost.attempt == 1
    assert lived(APPROVED, Begin(), Retry(), Begin()).attempt == 1, "the same attempt, once more"
    second = lived(lost, RunAgain(), Begin())
    assert second.attempt == 2
    asking = lived(second, Hold(asked("r2"), GateKind.DYNAMIC))
    assert asking.attempt == 1, "asking is no attempt, and attempt 1 remains taken"
    assert lived(asking, Approve(), Begin()).attempt == 2


def test_when_it_began_is_remembered() -> None:
    assert READY.begun is None
    begun = step(READY, Begin(), 5.0)
    assert (begun.begun, step(begun, Lose(), 9.0).begun) == (5.0, 5.0)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}, True),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {}, False),
        ({"a": "é"}, {"a": "e\u0301"}, False),
        ({"a": 10**30}, {"a": 10**30 + 1}, False),
        ({"a": "\ud800"}, {"a": "\udfff"}, False),
    ],
)
def test_a_fingerprint_is_of_what_people_saw(one: JsonObject, other: JsonObject, same: bool) -> None:
    assert (call_digest("t", one) == call_digest("t", other)) is same
    assert call_digest("t", one) != call_digest("u", one)


# Whatever happens, in whatever order


payloads: st.SearchStrategy[Json] = st.sampled_from([None, {"amount": 1}, {"amount": 2}, 3])


class CallLife(RuleBasedStateMachine):
    """Tries every event at any time, and keeps its own books on what may be."""

    @initialize(gate=st.sampled_from([GateKind.NONE, GateKind.STATIC]))
    def comes_in(self, gate: GateKind) -> None:
        self.call = new_call()
        self.now = 0.0
        self.requests = 0
        self.answers: dict[str, tuple[bool, Json]] = {}
        self.shown: JsonObject | None = None  # the arguments of the standing approval
        self.gated = False
        self.effects: list[int] = []  # the attempts that began and neither asked nor were retried
        self.settled_as: Call | None = None
        if gate is not GateKind.NONE:
            self.ask(gate)

    def _try(self, event: CallEvent) -> bool:
        before, self.now = self.call, self.now + 1
        try:
            self.call = step(before, event, self.now)
        except IllegalStep:
            assert self.call is before
            return False
        assert self.call != before
        return True

    def ask(self, gate: GateKind) -> None:
        self.requests += 1
        running = self.call.state is CallState.RUNNING
        if self._try(Hold(asked(f"r{self.requests}"), gate)):
            self.gated, self.shown = True, None
            if running:
                self.effects.pop()
        else:
            self.requests -= 1

    @rule(gate=st.sampled_from([GateKind.STATIC, GateKind.DYNAMIC]))
    def asks(self, gate: GateKind) -> None:
        self.ask(gate)

    @rule(payload=payloads, amount=st.none() | st.integers(1, 3))
    def is_approved(self, payload: Json, amount: int | None) -> None:
        amended: JsonObject | None = None if amount is None else {**ARGS, "amount": amount}
        if self._try(Approve(payload, amended)):
            self.shown = self.call.run_args
            self.answers[f"r{self.requests}"] = (True, payload)

    @rule()
    def is_denied(self) -> None:
        if self._try(Deny()):
            self.answers[f"r{self.requests}"] = (False, None)

    @rule()
    def begins(self) -> None:
        if self._try(Begin()):
            assert not self.gated or self.shown is not None, "a gated call began without an approval"
            assert self.call.attempt not in self.effects, "an attempt began twice"
            self.effects.append(self.call.attempt)

    @rule()
    def is_retried(self) -> None:
        if self._try(Retry()):
            self.effects.pop()

    @rule(event=st.sampled_from([Finish({"ok": True}), Refuse("gone"), Lose(), RunAgain()]))
    def goes_on(self, event: CallEvent) -> None:
        self._try(event)

    @precondition(lambda self: self.requests)
    @rule(number=st.integers(1, 4), confirmed=st.booleans(), payload=payloads)
    def is_answered_again(self, number: int, confirmed: bool, payload: Json) -> None:
        request = f"r{min(number, self.requests)}"
        given = self.answers.get(request)
        if given is None:
            assert not already_answered(self.call, request, confirmed, payload)
        elif given[0] is confirmed and (not confirmed or given[1] == payload):
            assert already_answered(self.call, request, confirmed, payload)
        else:
            with pytest.raises(Conflict):
                already_answered(self.call, request, confirmed, payload)

    @invariant()
    def what_is_settled_stays(self) -> None:
        if self.settled_as is not None:
            assert self.call is self.settled_as
        elif self.call.state in SETTLED:
            assert self.call.result is not None
            self.settled_as = self.call

    @invariant()
    def what_runs_is_what_was_approved(self) -> None:
        if self.call.state is CallState.RUNNING and self.gated:
            assert self.call.run_args == self.shown
            assert self.call.approved == call_digest(self.call.tool, self.call.run_args)

    @invariant()
    def what_was_denied_never_begins(self) -> None:
        if any(not confirmed for confirmed, _ in self.answers.values()):
            assert self.call.state is CallState.REFUSED


TestCallLife = CallLife.TestCase
