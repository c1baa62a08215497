"""Stored rows are read back exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adk_confirm.bot.confirmation.effects import Delivery
from adk_confirm.bot.confirmation.model import Confirmation, OutcomeKind, Place, VoteKind
from adk_confirm.bot.confirmation.stored_json import UnreadableRecord, from_json, to_json
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from tests.support.deciding import ANNA, BEN, Desk, make_asked, make_policy

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
