"""Stored rows are read back exactly, also those of older versions."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bot.audit.fingerprint import Fingerprints
from bot.confirmation.fingerprints import terms_are_sealed, vote_is_sealed
from bot.confirmation.model import Confirmation, OutcomeKind, Place, State, VoteKind, VoteState
from bot.confirmation.stored_json import VERSION, delivery_from_json, delivery_to_json, row_from_json, row_to_json
from bot.policy.approvers import Approver
from bot.policy.model import Policy
from bot.policy.versioned import NewerVersion, UnreadableRecord
from runtime.jsontypes import JsonObject, canonical
from tests.support.deciding import ANNA, BEN, FINGERPRINTS, Desk, make_asked, make_policy

ODD: JsonObject = {
    "half": "\ud800",
    "nul": "\x00",
    "one": 1,
    "also": 1.0,
    "yes": True,
    "big": 2**80,
    "deep": [{"": None}],
}

WRITTEN_BY_VERSION_1 = """{"v":1,"id":"k1","asked":{"session":{"app":"oncall","user":"u","id":"s"},"request_id":"r1",
"call_id":"c1","tool":"deploy","arguments":{"version":"2.4.1"},"agent":"oncall","asked_by":{"team":"T1","user":"U1"},
"team":"T1","channel":"C1","enterprise":null,"invocation_id":"e-1","hint":"Deploy?","wants_payload":false,"payload":null,
"payload_schema":null,"tool_schema":null,"speakers":[{"team":"T1","user":"U1"}]},"policy":{"v":1,"tools":["deploy*"],
"when":null,"team":null,"approvers":["user:U2"],"quorum":1,"allow_requester":false,"channel":null,"remind_after":null,
"escalate_after":null,"escalate_to":[],"expires_after":"1d","start_within":"1h","edit":true,"deny_reason":"optional",
"confirm_dialog":false,"redact":[],"max_denials":null,"barred":[],"shared_channels":false,"grant":null,"grant_on":null},
"asked_at":"2030-01-01T12:00:00Z","revisions":[{"number":1,"arguments":{"version":"2.4.1"},"payload":null,
"fingerprint":"ab","author":null,"at":"2030-01-01T12:00:00Z"}],"deadline":"2030-01-02T12:00:00Z","votes":[{"id":"v1",
"kind":"approve","voter":{"team":"T1","user":"U2"},"revision":1,"stored_at":"2030-01-01T12:00:01Z","reason":null,
"edit":{"arguments":{"version":"3"},"payload":null},"grant":false,"way":"button","state":"pending","stands_on":null}],
"state":"waiting","decision":null,"outcome":null,"attempt":1,"remind_at":null,"escalate_at":null,"escalated":false,
"start_by":null,"handed_at":null,"unknown_until":null,"outside":null,"places":[{"channel":"C1","thread_ts":"1.1",
"ts":"1.2","drawn_version":1,"person":null}],"version":2,"face":1,"changed_at":"2030-01-01T12:00:00Z"}"""


def well_travelled() -> Confirmation:
    """A row with something in every field."""
    policy = make_policy(
        quorum=2, escalate_after="1m", escalate_to=["group:S1"], remind_after="1m", redact=["token"], grant="session"
    )
    desk = Desk(policy, asked=make_asked(arguments=ODD, payload_schema={"type": "object"}, enterprise="E1"))
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
    return row_from_json(f"{text} ")


def test_a_row_comes_back_exactly() -> None:
    row = well_travelled()
    text = row_to_json(row)
    again = read_anew(text)
    assert again == row
    assert row_to_json(again) == text
    assert canonical(again.asked.arguments) == canonical(ODD), "1, 1.0 and true are equal to Python, not to us"
    assert text.isascii()
    assert "\\u0000" in text


def test_its_fingerprint_still_fits() -> None:
    row = read_anew(row_to_json(well_travelled()))
    for revision in row.revisions:
        call = revision.arguments, revision.payload, min(revision.number, 2)  # the third is the second once more
        assert revision.fingerprint == row.asked.fingerprint(FINGERPRINTS, *call)
        assert revision.fingerprint != row.asked.fingerprint(Fingerprints("another secret", "call"), *call)


def test_its_seals_still_fit() -> None:
    row = read_anew(row_to_json(well_travelled()))
    assert terms_are_sealed(row, FINGERPRINTS)
    in_play = [vote for vote in row.votes if vote.state is not VoteState.FALLEN]
    assert len(in_play) == 4
    assert all(vote_is_sealed(row, vote, FINGERPRINTS) for vote in in_play)


def test_what_goes_into_the_mailbox_comes_out_of_it() -> None:
    desk = Desk(make_policy(), asked=make_asked(arguments=ODD))
    desk.edit(ANNA, one=1.0)
    desk.begin()
    desk.host_says(OutcomeKind.UNKNOWN)
    desk.vote(VoteKind.DID_NOT, ANNA)
    assert len(desk.deliveries) == 2
    for delivery in desk.deliveries:
        assert delivery_from_json(delivery_to_json(delivery)) == delivery
    assert canonical(desk.answer.payload) == '{"one":1.0}'


def test_what_version_1_wrote_is_read() -> None:
    row = row_from_json(WRITTEN_BY_VERSION_1)
    assert (row.state, row.pending_votes[0].voter.user, row.places[0].ts) == (State.WAITING, "U2", "1.2")
    assert row.policy == Policy(tools=("deploy*",), approvers=(Approver.parse("user:U2"),))
    assert read_anew(row_to_json(row)) == row


def test_a_newer_row_is_left_alone() -> None:
    with pytest.raises(NewerVersion):
        row_from_json(f'{{"v":{VERSION + 1},"something":"else"}}')
    newer_policy = json.loads(WRITTEN_BY_VERSION_1)
    newer_policy["policy"] = {"v": Policy.VERSION + 1}
    with pytest.raises(NewerVersion):
        row_from_json(json.dumps(newer_policy))


@pytest.mark.parametrize("stored", ["", "[]", "null", '{"v":1}', '{"id":"k1"}', '{"v":1,"id":7}'])
def test_a_text_that_is_not_a_row_is_refused(stored: str) -> None:
    with pytest.raises(UnreadableRecord, match="stored confirmation"):
        row_from_json(stored)
