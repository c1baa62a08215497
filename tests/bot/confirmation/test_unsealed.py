"""Parts of a confirmation that somebody wrote into the database do not count."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.audit.fingerprint import Fingerprints
from bot.audit.ledger import LineKind
from bot.config.rules import Rules
from bot.confirmation.authorise import Reason
from bot.confirmation.decision import approve
from bot.confirmation.fingerprints import vote_is_sealed, with_fingerprint
from bot.confirmation.model import (
    Decision,
    Edit,
    OutcomeKind,
    State,
    Vote,
    VoteKind,
    VoteState,
)
from bot.confirmation.outcome import begin, run_again
from bot.confirmation.states import Illegal
from bot.confirmation.unsealed import without_unsealed
from bot.policy.model import Policies
from tests.support.deciding import ANNA, ASKER, BEN, FINGERPRINTS, LEAD, MALLORY, NOON, Desk, make_asked, make_policy


def forged(**more: object) -> Vote:
    vote = Vote(id="f1", kind=VoteKind.APPROVE, voter=ANNA, revision=1, stored_at=NOON, sealed="")
    return replace(vote, **more)  # type: ignore[arg-type]  # the fields of Vote, named by the test


def stands(**more: object) -> Vote:
    return forged(**{"state": VoteState.STANDING, "stands_on": 1, **more})


def writes(desk: Desk, *votes: Vote) -> None:
    """As an SQL client does."""
    desk.row = replace(desk.row, votes=(*desk.row.votes, *votes))


def is_said(desk: Desk, what: str) -> None:
    step = next(step for step in desk.steps if step.kind is LineKind.UNSEALED)
    assert step.text == what
    assert desk.row.unsealed


def halfway() -> Desk:
    """Two have to approve, and Anna has."""
    desk = Desk(make_policy(quorum=2, approvers=["user:U0ANNA", "user:U0BEN", "user:U0LEAD"]))
    desk.approve(ANNA)
    return desk


class TestVotes:
    def test_one_that_stands_and_was_never_given(self) -> None:
        desk = Desk(make_policy(quorum=2))
        writes(desk, stands(of=desk.row.revision.fingerprint))
        desk.approve(BEN)
        assert desk.state() is State.WAITING
        assert [vote.voter for vote in desk.row.approvals] == [BEN]
        is_said(desk, "votes")
        assert desk.approve(ANNA) is None, "she may vote herself"
        assert desk.state() is State.APPROVED

    @pytest.mark.parametrize("kind", VoteKind)
    def test_one_that_waits_and_was_never_given(self, kind: VoteKind) -> None:
        desk = Desk(make_policy())
        if kind in (VoteKind.HAPPENED, VoteKind.DID_NOT, VoteKind.RUN_AGAIN):
            desk.approve(BEN)
            desk.begin()
            desk.host_says(OutcomeKind.UNKNOWN)
        before = desk.row
        writes(desk, forged(kind=kind, revision=desk.row.revision.number, voter=ASKER if kind == "withdraw" else ANNA))
        refusal = desk.count()
        assert refusal is not None
        assert refusal.reason is Reason.UNSEALED
        assert (desk.row.state, desk.row.outcome, desk.row.attempt) == (before.state, before.outcome, before.attempt)
        is_said(desk, "votes")

    @pytest.mark.parametrize(
        "change",
        [
            {"id": "v9"},
            {"voter": LEAD},
            {"revision": 2},
            {"stands_on": 2},
            {"kind": VoteKind.RUN_AGAIN},
            {"stored_at": NOON - timedelta(hours=1)},
            {"reason": "I said so"},
            {"grant": True},
            {"edit": Edit({"version": "6.6.6"})},
            {"way": "command"},
            {"of": "ab" * 32},
            {"sealed": "ab" * 32},
            {"sealed": "½ no digest"},
        ],
    )
    def test_one_that_was_changed(self, change: dict[str, object]) -> None:
        desk = halfway()
        (vote,) = desk.row.votes
        assert vote_is_sealed(desk.row, vote, FINGERPRINTS)
        other = replace(vote, **change)  # type: ignore[arg-type]  # the fields of Vote
        assert not vote_is_sealed(desk.row, other, FINGERPRINTS)
        desk.row = replace(desk.row, votes=(other,))
        desk.approve(BEN)
        assert desk.state() is State.WAITING

    def test_one_that_was_given_on_another_confirmation(self) -> None:
        desk, here = halfway(), Desk(make_policy(quorum=2))
        here.row = replace(here.row, id="k2")
        assert not vote_is_sealed(here.row, desk.row.votes[0], FINGERPRINTS)

    def test_one_that_was_given_on_an_earlier_revision(self) -> None:
        desk = halfway()
        desk.edit(BEN, version="3")
        first = desk.row.votes[0]
        assert (first.voter, first.state) == (ANNA, VoteState.FALLEN)
        raised = tuple(
            replace(vote, state=VoteState.STANDING, stands_on=2) if vote.id == first.id else vote
            for vote in desk.row.votes
        )
        desk.row = replace(desk.row, votes=raised)
        desk.approve(LEAD)
        assert desk.state() is State.APPROVED, "Ben and Lead did approve it"
        assert ANNA not in desk.row.givers
        is_said(desk, "votes")

    def test_an_edit_counts_only_for_the_revision_that_it_made(self) -> None:
        desk = Desk(make_policy(quorum=2))
        desk.edit(BEN, version="3")
        (vote,) = desk.row.approvals
        assert vote_is_sealed(desk.row, vote, FINGERPRINTS)
        assert not vote_is_sealed(desk.row, replace(vote, stands_on=1), FINGERPRINTS)
        other = replace(desk.row.revision, arguments={"version": "6.6.6", "replicas": 3})
        assert not vote_is_sealed(replace(desk.row, revisions=(desk.row.revisions[0], other)), vote, FINGERPRINTS)
        assert not vote_is_sealed(replace(desk.row, revisions=desk.row.revisions[:1]), vote, FINGERPRINTS)

    def test_a_seal_for_something_else_does_not_count(self) -> None:
        desk = Desk(make_policy(quorum=2))
        for fingerprints in (
            Fingerprints("a guess", "call"),
            Fingerprints("a secret that only tests know", "ledger"),
            FINGERPRINTS.within("grant"),
        ):
            writes(desk, with_fingerprint(stands(), desk.row, fingerprints))
        assert without_unsealed(desk.row, NOON, Rules(Policies.of(desk.policy), FINGERPRINTS)).row.votes == ()
        plain = replace(with_fingerprint(stands(), desk.row, FINGERPRINTS), sealed=desk.row.sealed)
        assert not vote_is_sealed(desk.row, plain, FINGERPRINTS)

    def test_no_decision_is_made_of_them_even_if_nobody_checked(self) -> None:
        desk = Desk(make_policy())
        writes(desk, stands(of=desk.row.revision.fingerprint))
        with pytest.raises(Illegal, match="with 0 of 1 votes"):
            approve(desk.row, NOON, FINGERPRINTS)
        desk.row = replace(desk.row, votes=())
        desk.approve(ANNA)
        desk.begin()
        desk.host_says(OutcomeKind.UNKNOWN)
        writes(desk, stands(kind=VoteKind.RUN_AGAIN, revision=2, stands_on=2, of=desk.row.revision.fingerprint))
        with pytest.raises(Illegal, match="with 0 of 1 votes"):
            run_again(desk.row, NOON, FINGERPRINTS)


class TestTerms:
    """The policy, who asked, the times, and the call itself."""

    def check(self, desk: Desk) -> None:
        desk.took(without_unsealed(desk.row, desk.now, Rules(Policies.of(desk.policy), FINGERPRINTS)))

    def test_another_policy_gives_way_to_the_files(self) -> None:
        desk = halfway()
        lax = make_policy(quorum=1, approvers=["user:U0MALLORY"])
        desk.row = replace(desk.row, policy=lax)
        desk.vote(VoteKind.APPROVE, MALLORY)
        assert desk.state() is State.WAITING
        assert desk.row.policy == desk.policy
        is_said(desk, "votes")  # Anna's fell with it
        desk.approve(LEAD)
        desk.approve(BEN)
        assert desk.state() is State.APPROVED

    @pytest.mark.parametrize(
        "change",
        [
            {"asked_at": NOON + timedelta(hours=20)},
            {"deadline": NOON + timedelta(days=9)},
            {"escalate_at": NOON},
            {"asked": make_asked(asked_by=MALLORY)},
            {"asked": make_asked(speakers=frozenset())},
            {"asked": make_asked(can_edit=False)},
            {"asked": make_asked(team="T0OTHER")},
            {"id": "k2"},
            {"sealed": "ab" * 32},
        ],
    )
    def test_the_facts_around_the_call_were_changed(self, change: dict[str, object]) -> None:
        desk = Desk(make_policy(approvers=["user:U0ANNA"], escalate_after="1h", escalate_to=["user:U0MALLORY"]))
        desk.row = replace(desk.row, **change)  # type: ignore[arg-type]  # the fields of Confirmation
        self.check(desk)
        is_said(desk, "terms")
        assert desk.row.deadline == desk.row.asked_at + timedelta(hours=24)
        assert desk.row.escalate_at == desk.row.asked_at + timedelta(hours=1)

    def test_another_call_does_not_run(self) -> None:
        desk = halfway()
        other = replace(desk.row.revision, arguments={"version": "6.6.6", "replicas": 3})
        desk.row = replace(desk.row, revisions=(other,))
        desk.approve(BEN)
        assert desk.state() is State.DENIED
        assert not desk.answer.confirmed
        is_said(desk, "call")

    def test_an_earlier_revision_does_not_pass_for_the_current_one(self) -> None:
        desk = halfway()
        desk.edit(BEN, version="3")
        first, second = desk.row.revisions
        desk.row = replace(desk.row, revisions=(first, replace(first, number=2, author=second.author)))
        desk.approve(LEAD)
        assert desk.state() is State.DENIED
        is_said(desk, "call")

    def test_without_a_policy_in_the_file_nobody_decides(self) -> None:
        desk = halfway()
        desk.row = replace(desk.row, policy=make_policy())
        desk.took(without_unsealed(desk.row, NOON, Rules(Policies(), FINGERPRINTS)))
        assert desk.state() is State.DENIED

        lost = Desk(make_policy())
        lost.approve(ANNA)
        lost.begin()
        lost.host_says(OutcomeKind.UNKNOWN)
        lost.row = replace(lost.row, sealed="")
        lost.took(without_unsealed(lost.row, NOON, Rules(Policies(), FINGERPRINTS)))
        assert lost.vote(VoteKind.DID_NOT, ANNA) is not None
        assert lost.row.unknown

    def test_another_call_is_not_run_again_either(self) -> None:
        """Its terms' seal is taken away as well, so that it looks like an older version's."""
        desk = Desk(make_policy())
        desk.approve(ANNA)
        desk.begin()
        desk.host_says(OutcomeKind.UNKNOWN)
        other = replace(desk.row.revision, arguments={"version": "6.6.6", "replicas": 3})
        desk.row = replace(desk.row, sealed="", revisions=(desk.row.revisions[0], other))
        desk.vote(VoteKind.RUN_AGAIN, ANNA)
        change = begin(desk.row, desk.deliveries[-1], desk.now, FINGERPRINTS)
        assert change.row.handed_at is None
        assert LineKind.ALTERED in [step.kind for step in change.steps]

    def test_an_alarm_stays_on_the_card(self) -> None:
        desk = halfway()
        writes(desk, stands(voter=LEAD))
        self.check(desk)
        assert desk.row.unsealed
        desk.row = replace(desk.row, sealed="", votes=())
        self.check(desk)
        assert desk.row.unsealed

    def test_checking_again_changes_nothing(self) -> None:
        for change in ({"sealed": ""}, {"votes": (stands(), forged(id="f2"))}, {"deadline": NOON}):
            for file in (Policies.of(make_policy()), Policies.of(make_policy(quorum=3)), Policies()):
                desk = halfway()
                row = replace(desk.row, **change)
                once = without_unsealed(row, NOON, Rules(file, FINGERPRINTS)).row
                assert once is not row
                assert without_unsealed(once, NOON, Rules(file, FINGERPRINTS)).row is once


class TestDecisions:
    def test_one_that_nobody_made(self) -> None:
        desk = Desk(make_policy())
        call = desk.row.revision
        made = Decision(state=State.APPROVED, at=NOON, revision=1, fingerprint=call.fingerprint, by=ANNA)
        honest = Desk(make_policy())
        honest.approve(ANNA)
        desk.row = replace(
            desk.row,
            state=State.APPROVED,
            decision=made,
            start_by=NOON + timedelta(hours=1),
            votes=(stands(),),
        )
        change = begin(desk.row, honest.answer, NOON, FINGERPRINTS)
        assert change.row.handed_at is None
        assert [step.kind for step in change.steps] == [LineKind.ALTERED]

    @pytest.mark.parametrize("what", ["a day later", "another attempt", "another person", "a grant", "copied"])
    def test_one_that_was_changed(self, what: str) -> None:
        desk = Desk(make_policy())
        desk.approve(ANNA)
        row, answer = desk.row, desk.answer
        assert row.decision is not None
        assert row.start_by is not None
        assert begin(row, answer, NOON, FINGERPRINTS).row.handed_at == NOON
        other = {
            "a day later": replace(row, start_by=row.start_by + timedelta(days=1)),
            "another attempt": replace(row, attempt=2),
            "another person": replace(row, decision=replace(row.decision, by=BEN)),
            "a grant": replace(row, by_grant="g1"),
            "copied": replace(row, id="k2"),
        }[what]
        change = begin(other, replace(answer, attempt=other.attempt), NOON, FINGERPRINTS)
        assert change.row.handed_at is None
        assert LineKind.ALTERED in [step.kind for step in change.steps]


class TestRowsPutBack:
    """Every part has a seal that fits; the ledger says that more has happened since."""

    def looked_at(self, desk: Desk, *happened: LineKind) -> None:
        row = replace(desk.row, doubt=frozenset({LineKind.ASKED, *happened}))
        desk.took(without_unsealed(row, desk.now, desk.rules))
        assert desk.row.doubt is None

    @pytest.mark.parametrize("decided", [LineKind.DENIED, LineKind.APPROVED, LineKind.WITHDRAWN, LineKind.GRANT_USED])
    def test_what_was_decided_does_not_wait_again(self, decided: LineKind) -> None:
        desk = halfway()
        self.looked_at(desk, decided)
        assert desk.state() is State.DENIED
        is_said(desk, "call")

    @pytest.mark.parametrize("gone", [LineKind.VOTE_FELL, LineKind.VOTE_REFUSED])
    def test_a_removed_vote_does_not_count(self, gone: LineKind) -> None:
        desk = halfway()
        self.looked_at(desk, gone)
        assert desk.row.votes == ()
        is_said(desk, "votes")

    def test_other_votes_stay_and_it_is_reported(self) -> None:
        """Somebody changed in it what decides nothing."""
        desk = halfway()
        self.looked_at(desk, LineKind.APPROVAL)
        assert [vote.voter for vote in desk.row.approvals] == [ANNA]
        is_said(desk, "row")

    def test_a_policy_that_was_replaced_decides_no_more(self) -> None:
        desk = Desk(make_policy(quorum=1))
        desk.policies = Policies.of(make_policy(quorum=2))
        self.looked_at(desk, LineKind.REAPPLIED)
        assert desk.row.policy.quorum == 2
        is_said(desk, "terms")

    def test_an_approval_that_was_used_up(self) -> None:
        desk = Desk(make_policy())
        desk.approve(ANNA)
        self.looked_at(desk, LineKind.APPROVED, LineKind.DONE)
        assert desk.row.outcome is not None
        assert desk.row.outcome.kind is OutcomeKind.REFUSED

    def test_votes_on_running_it_again(self) -> None:
        desk = Desk(make_policy(quorum=2))
        desk.approve(ANNA)
        desk.approve(BEN)
        desk.begin()
        desk.host_says(OutcomeKind.UNKNOWN)
        desk.vote(VoteKind.RUN_AGAIN, ANNA)
        self.looked_at(desk, LineKind.RUN_AGAIN)
        assert desk.row.unknown
        assert desk.row.standing_votes(VoteKind.RUN_AGAIN) == ()
