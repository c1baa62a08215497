"""A confirmation in every state and with every outcome that the enums have, including unlikely ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from adk_confirm.bot.confirmation.model import (
    Confirmation,
    Decision,
    Outcome,
    OutcomeKind,
    OutsideAnswer,
    State,
    Vote,
    VoteKind,
    VoteState,
)
from tests.support.deciding import ANNA, BEN


def every_state(row: Confirmation) -> Iterator[Confirmation]:
    """One confirmation for each. Each has a version of its own, so that a card is drawn for it."""
    version = row.version
    for state in State:
        for kind in (None, *OutcomeKind):
            version += 1
            yield replace(in_state(row, state, kind), version=version, face=version)


def in_state(row: Confirmation, state: State, kind: OutcomeKind | None) -> Confirmation:
    at = row.asked_at + timedelta(minutes=5)
    decision = Decision(state=state, at=at, revision=1, by=ANNA, reason="because")
    vote = Vote(
        id="v1", kind=VoteKind.APPROVE, voter=BEN, revision=1, stored_at=at, state=VoteState.STANDING, stands_on=1
    )
    ended, text = at + timedelta(seconds=42), '{"status": "deployed"}'
    outcome = Outcome(kind=kind, attempt=1, at=ended, begun_at=at, text=text, by=ANNA) if kind else None
    return replace(
        row,
        state=state,
        votes=(vote,),
        decision=None if state is State.WAITING else decision,
        outcome=outcome,
        start_by=at + timedelta(hours=1) if state in (State.APPROVED, State.LAPSED) else None,
        outside=OutsideAnswer(at=at, confirmed=True) if state is State.ELSEWHERE else None,
    )
