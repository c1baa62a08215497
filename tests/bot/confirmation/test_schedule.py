"""When a confirmation needs attention next. This is computed from its row."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation.model import OutcomeKind, Place, VoteKind
from adk_confirm.bot.confirmation.outcome import DueWork, due_work, next_due
from tests.support.deciding import ANNA, BEN, NOON, Desk, make_policy


def drawn(desk: Desk) -> None:
    """What a worker writes back once the cards show the row."""
    places = tuple(replace(place, drawn_version=desk.row.face) for place in desk.row.places)
    desk.row = replace(desk.row, places=places)


def waiting(**keys: object) -> Desk:
    desk = Desk(make_policy(**keys))
    desk.row = replace(desk.row, places=(Place(channel="C1"), Place(channel="D1", person=ANNA)))
    return desk


def test_new_cards_are_due_at_once_and_then_nothing_until_the_first_timer() -> None:
    desk = waiting(remind_after="10m", escalate_after="20m", escalate_to=["user:U0LEAD"], expires_after="1h")
    assert due_work(desk.row, NOON) == (DueWork.DRAW,)
    drawn(desk)
    assert due_work(desk.row, NOON) == ()
    assert next_due(desk.row) == NOON + timedelta(minutes=10)
    desk.wait(minutes=10)
    drawn(desk)
    assert next_due(desk.row) == NOON + timedelta(minutes=20)
    desk.wait(minutes=10)
    drawn(desk)
    assert next_due(desk.row) == NOON + timedelta(hours=1)


def test_one_outdated_place_makes_drawing_due() -> None:
    desk = waiting()
    drawn(desk)
    first, second = desk.row.places
    desk.row = replace(desk.row, places=(first, replace(second, drawn_version=0)))
    assert due_work(desk.row, NOON) == (DueWork.DRAW,)


def test_counting_a_stored_vote_comes_first() -> None:
    desk = waiting(expires_after="1h", quorum=2)
    desk.wait(minutes=30)
    desk.store(VoteKind.APPROVE, ANNA)
    desk.wait(minutes=40)
    assert due_work(desk.row, desk.now) == (DueWork.COUNT, DueWork.DRAW)
    assert next_due(desk.row) == NOON + timedelta(minutes=30), "that its card is not drawn yet makes it no earlier"
    desk.count()
    assert due_work(desk.row, desk.now) == (DueWork.EXPIRE, DueWork.DRAW)


def test_an_approved_call_is_due_at_its_deadline_until_the_host_has_it() -> None:
    desk = waiting(start_within="15m")
    desk.approve(ANNA)
    drawn(desk)
    assert next_due(desk.row) == NOON + timedelta(minutes=15)
    desk.begin()
    assert next_due(desk.row) is None


def test_nobody_is_reminded_after_the_decision() -> None:
    desk = waiting(remind_after="10m", escalate_after="20m", escalate_to=["user:U0LEAD"], start_within="1h")
    desk.approve(BEN)
    desk.wait(minutes=30)
    assert desk.kinds == [LineKind.ASKED, LineKind.APPROVAL, LineKind.APPROVED]


def test_an_unknown_outcome_is_due_after_a_day() -> None:
    desk = waiting()
    desk.approve(ANNA)
    desk.begin()
    desk.host_says(OutcomeKind.UNKNOWN)
    drawn(desk)
    assert next_due(desk.row) == NOON + timedelta(hours=24)
    desk.vote(VoteKind.DID_NOT, BEN)
    drawn(desk)
    assert next_due(desk.row) is None
