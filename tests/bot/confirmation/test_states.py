"""The tables of states: an event that is not in them is illegal and changes nothing."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from adk_confirm.bot.confirmation.confirmation import Confirmation, Outcome, OutcomeKind, Place, State, VoteKind
from adk_confirm.bot.confirmation.decision import approve, deny, withdraw
from adk_confirm.bot.confirmation.outcome import next_due
from adk_confirm.bot.confirmation.states import (
    DECISIONS,
    OUTCOMES,
    Delivery,
    Illegal,
    begin_next_attempt,
    change_decision,
    change_outcome,
)
from adk_confirm.bot.confirmation.stored_json import UnreadableRecord, from_json, to_json
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from tests.support.deciding import ANNA, ASKER, BEN, NOON, Desk, make_asked, make_policy

MOVES = {
    (State.WAITING, State.APPROVED),
    (State.WAITING, State.DENIED),
    (State.WAITING, State.EXPIRED),
    (State.WAITING, State.WITHDRAWN),
    (State.WAITING, State.ELSEWHERE),
    (State.APPROVED, State.LAPSED),
}
"""Written out, and not taken from the table that is tested: whoever changes that one has to change this one too."""

FROM_HOSTS = (OutcomeKind.RUNNING, OutcomeKind.DONE, OutcomeKind.FAILED, OutcomeKind.REFUSED, OutcomeKind.UNKNOWN)
ENDS = {
    *((None, after) for after in FROM_HOSTS),
    (OutcomeKind.RUNNING, OutcomeKind.RUNNING),  # it waits for something on the way
    (OutcomeKind.RUNNING, OutcomeKind.DONE),
    (OutcomeKind.RUNNING, OutcomeKind.FAILED),
    (OutcomeKind.RUNNING, OutcomeKind.REFUSED),
    (OutcomeKind.RUNNING, OutcomeKind.UNKNOWN),
    (OutcomeKind.UNKNOWN, OutcomeKind.DONE),  # late, and still true
    (OutcomeKind.UNKNOWN, OutcomeKind.FAILED),
    (OutcomeKind.UNKNOWN, OutcomeKind.HAPPENED),
    (OutcomeKind.UNKNOWN, OutcomeKind.DID_NOT),
    (OutcomeKind.UNKNOWN, OutcomeKind.NOBODY_KNOWS),
}


def in_state(state: State) -> Confirmation:
    desk = Desk(make_policy(start_within="1h", expires_after="2h"))
    match state:
        case State.WAITING:
            pass
        case State.APPROVED | State.LAPSED:
            desk.approve(ANNA)
            desk.wait(hours=1 if state is State.LAPSED else 0)
        case State.DENIED:
            desk.deny(ANNA)
        case State.EXPIRED:
            desk.wait(hours=2)
        case State.WITHDRAWN:
            desk.took(withdraw(desk.row, desk.now, ASKER))
        case State.ELSEWHERE:
            desk.answered_elsewhere()
    assert desk.row.state is state
    return desk.row


def with_outcome(kind: OutcomeKind | None) -> Confirmation:
    desk = Desk(make_policy())
    desk.approve(ANNA)
    desk.begin()
    row = desk.row
    if kind is not None and kind not in FROM_HOSTS:
        row = change_outcome(row, Outcome(kind=OutcomeKind.UNKNOWN, attempt=1, at=NOON), NOON)
    return row if kind is None else change_outcome(row, Outcome(kind=kind, attempt=1, at=NOON), NOON)


def test_every_state_and_every_outcome_is_in_its_table() -> None:
    assert set(DECISIONS) == set(State)
    assert set(OUTCOMES) == {None, *OutcomeKind}


@pytest.mark.parametrize("state", State)
def test_a_decision_moves_as_the_table_says_or_not_at_all(state: State) -> None:
    row = in_state(state)
    before = copy.deepcopy(row)
    for after in State:
        if (state, after) in MOVES:
            assert change_decision(row, after, NOON).state is after
        else:
            with pytest.raises(Illegal) as refused:
                change_decision(row, after, NOON)
            assert str(refused.value) == f'Confirmation k1 is {state}: "{after}" is not possible.'
        assert row == before


@pytest.mark.parametrize("before", [None, *OutcomeKind])
def test_an_outcome_moves_as_the_table_says_or_not_at_all(before: OutcomeKind | None) -> None:
    row = with_outcome(before)
    kept = copy.deepcopy(row)
    for after in OutcomeKind:
        outcome = Outcome(kind=after, attempt=1, at=NOON)
        if (before, after) in ENDS:
            moved = change_outcome(row, outcome, NOON)
            assert moved.outcome == outcome
            assert moved.version > row.version
        else:
            with pytest.raises(Illegal):
                change_outcome(row, outcome, NOON)
        assert row == kept


@pytest.mark.parametrize("state", [state for state in State if state not in (State.APPROVED, State.ELSEWHERE)])
def test_no_outcome_without_an_answer(state: State) -> None:
    with pytest.raises(Illegal):
        change_outcome(in_state(state), Outcome(kind=OutcomeKind.DONE, attempt=1, at=NOON), NOON)


@pytest.mark.parametrize("kind", [None, *(kind for kind in OutcomeKind if kind is not OutcomeKind.UNKNOWN)])
def test_only_what_is_unknown_runs_again(kind: OutcomeKind | None) -> None:
    with pytest.raises(Illegal):
        begin_next_attempt(with_outcome(kind), NOON, ANNA)


@pytest.mark.parametrize("state", State)
def test_no_approval_without_votes(state: State) -> None:
    with pytest.raises(Illegal):
        approve(in_state(state), NOON)


@pytest.mark.parametrize("state", [state for state in State if state is not State.WAITING])
def test_what_is_decided_stays_decided(state: State) -> None:
    row = in_state(state)
    with pytest.raises(Illegal):
        deny(row, NOON, ANNA, None)
    with pytest.raises(Illegal):
        withdraw(row, NOON, ASKER)


@pytest.mark.parametrize("state", [State.DENIED, State.EXPIRED, State.WITHDRAWN, State.LAPSED, State.ELSEWHERE])
def test_what_is_settled_needs_nobodys_attention(state: State) -> None:
    assert next_due(in_state(state)) is None


ODD: JsonObject = {
    "half": "\ud800",
    "nul": "\x00",
    "one": 1,
    "also": 1.0,
    "yes": True,
    "big": 2**80,
    "deep": [{"": None}],
}


def well_travelled() -> Confirmation:
    """A row with something in every field."""
    policy = make_policy(
        quorum=2, escalate_after="1m", escalate_to=["group:S1"], remind_after="1m", redact=["token"], grant="session"
    )
    desk = Desk(policy, asked=make_asked(arguments=ODD, payload_schema={"type": "object"}))
    desk.row = replace(desk.row, places=(Place(channel="D1", person=ANNA, ts="1.1", drawn_version=3),))
    desk.wait(minutes=2)
    desk.edit(ANNA, one=2)
    desk.approve(BEN)
    desk.begin()
    desk.host_says(OutcomeKind.UNKNOWN, "lost")
    desk.vote(VoteKind.RUN_AGAIN, ANNA)
    desk.store(VoteKind.HAPPENED, BEN, reason="seen")
    desk.answered_elsewhere()
    return desk.row


def read_anew(text: str) -> Confirmation:
    """Not the row that is remembered for this text."""
    return from_json(Confirmation, f"{text} ")


def test_a_row_comes_back_exactly() -> None:
    row = well_travelled()
    text = to_json(row)
    again = read_anew(text)
    assert replace(again, places=row.places) == row
    assert from_json(tuple[Place, ...], to_json(row.places)) == row.places
    assert to_json(again) == text
    assert canonical(again.asked.arguments) == canonical(ODD), "1, 1.0 and true are equal to Python, not to us"
    assert text.isascii()
    assert "\\u0000" in text


def test_what_goes_into_the_mailbox_comes_out_of_it() -> None:
    desk = Desk(make_policy(), asked=make_asked(arguments=ODD))
    desk.edit(ANNA, one=1.0)
    desk.begin()
    desk.host_says(OutcomeKind.UNKNOWN)
    desk.vote(VoteKind.DID_NOT, ANNA)
    assert len(desk.deliveries) == 2
    for delivery in desk.deliveries:
        assert from_json(Delivery, to_json(delivery)) == delivery
    assert canonical(desk.answer.payload) == '{"one":1.0}'


@pytest.mark.parametrize("stored", ["", "[]", "null", "{}", '{"id":"k1"}', '{"id":7}'])
def test_a_text_that_is_not_a_row_is_refused(stored: str) -> None:
    with pytest.raises(UnreadableRecord, match="stored confirmation"):
        from_json(Confirmation, stored)
