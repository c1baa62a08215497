"""From votes to a decision: who clicked, what they were told, and which answer the session got."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation.authorise import Reason
from adk_confirm.bot.confirmation.confirmation import Edit, OutcomeKind, Place, State, Vote, VoteKind, VoteState
from adk_confirm.bot.confirmation.decision_texts import ungoverned, ungoverned_to_model
from adk_confirm.bot.confirmation.outcome import DueWork, due_work, next_due
from adk_confirm.bot.confirmation.shown import notes_in
from adk_confirm.bot.confirmation.states import Illegal
from adk_confirm.bot.confirmation.votes import completing_votes, count, needs_asking, store_vote, take_preview
from adk_confirm.bot.ops.reapply import put_under
from adk_confirm.bot.policy.approvers import Person, Unresolved, parse_approver
from adk_confirm.bot.policy.policies import CallRefusal, CallRefusalReason, Policies
from adk_confirm.bot.policy.redaction import own_words
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject
from tests.support.deciding import (
    ANNA,
    ASKER,
    BEN,
    LEAD,
    MALLORY,
    NOON,
    Desk,
    full_member,
    make_asked,
    make_policy,
    why,
)


class TestApproving:
    def test_each_approval_tells_how_many_there_are(self) -> None:
        desk = Desk(make_policy(quorum=2))
        desk.approve(ANNA)
        desk.approve(BEN)
        counted = [step for step in desk.steps if step.kind is LineKind.APPROVAL]
        assert [(step.who, step.votes, step.quorum, step.entries) for step in counted] == [
            (ANNA, 1, 2, ("user:U0ANNA",)),
            (BEN, 2, 2, ("user:U0BEN",)),
        ]

    def test_an_outsider_gets_a_refusal_and_the_cards_do_not_change(self) -> None:
        desk = Desk(make_policy())
        drawn = desk.row.face
        assert why(desk.approve(MALLORY)) is Reason.NOT_APPROVER
        assert desk.row.face == drawn
        assert desk.row.votes == ()
        assert desk.kinds == [LineKind.ASKED, LineKind.VOTE_REFUSED]


class TestDenying:
    def test_who_approved_may_still_deny(self) -> None:
        desk = Desk(make_policy(quorum=2))
        desk.approve(ANNA)
        assert desk.deny(ANNA) is None
        assert desk.state() is State.DENIED

    def test_a_policy_may_ask_for_a_reason(self) -> None:
        desk = Desk(make_policy(deny_reason="required"))
        assert why(desk.deny(ANNA, "   ")) is Reason.REASON_WANTED
        assert desk.state() is State.WAITING
        assert desk.deny(ANNA, "no") is None


class TestWithdrawing:
    def test_it_works_from_an_older_card_too(self) -> None:
        desk = Desk(make_policy(quorum=2))
        desk.edit(ANNA, version="2.4.2")
        assert desk.vote(VoteKind.WITHDRAW, ASKER, revision=1) is None

    def test_it_needs_nobody_to_be_asked(self) -> None:
        desk = Desk(make_policy())
        vote = desk.store(VoteKind.WITHDRAW, ASKER)
        assert not needs_asking(desk.row, vote)
        assert count(desk.row, vote.id, None, desk.now, desk.in_force).row.state is State.WITHDRAWN


class TestEditing:
    def test_an_edit_is_an_approval_of_something_else(self) -> None:
        desk = Desk(make_policy(quorum=2))
        desk.approve(ANNA)
        assert desk.edit(BEN, version="2.4.2") is None
        assert desk.row.revision.number == 2
        assert desk.row.revision.author == BEN
        assert [vote.voter for vote in desk.row.approvals] == [BEN]
        assert desk.kinds[-2:] == [LineKind.EDITED, LineKind.VOTE_FELL]
        step = desk.steps[-2]
        assert (step.before, step.after) == ({"version": "2.4.1"}, {"version": "2.4.2"})
        assert desk.approve(ANNA) is None
        assert desk.state() is State.APPROVED
        assert desk.answer.payload == {"version": "2.4.2"}
        assert desk.answer.arguments == {"version": "2.4.2", "replicas": 3}
        assert desk.row.revisions[0].arguments == {"version": "2.4.1", "replicas": 3}

    def test_an_edit_that_changes_nothing_is_a_plain_approval(self) -> None:
        desk = Desk(make_policy(quorum=2))
        desk.approve(ANNA)
        assert desk.edit(BEN, version="2.4.1") is None
        assert desk.state() is State.APPROVED
        assert len(desk.row.revisions) == 1

    def test_an_edit_may_not_choose_its_policy(self) -> None:
        strict, easy = make_policy(when="args.env == 'prod'", quorum=2), make_policy()
        prod = make_asked(arguments={"env": "prod"})
        desk = Desk(strict, asked=prod, policies=Policies.of(strict, easy))
        refusal = desk.edit(ANNA, env="stage")
        assert refusal is not None
        assert (refusal.reason, refusal.fields) == (Reason.OTHER_POLICY, ("env",))
        assert desk.row.revision.number == 1
        assert not desk.row.approvals, "an edit that is refused is no approval"

    def test_a_value_that_is_not_json_is_refused_at_once(self) -> None:
        desk = Desk(make_policy())
        with pytest.raises(Invalid, match="not JSON"):
            desk.store(VoteKind.APPROVE, ANNA, edit=Edit({"replicas": float("nan")}))


class TestPayloads:
    def test_approving_means_filling_in_the_form(self) -> None:
        asked = make_asked("request_time_off", {"days": 5}, wants_payload=True, payload={"approved_days": 0})
        desk = Desk(make_policy(quorum=2), asked=asked)
        assert why(desk.approve(ANNA)) is Reason.PAYLOAD_WANTED
        assert desk.fill_in(ANNA, {"approved_days": 3}) is None
        assert desk.approve(BEN) is None, "Ben agrees to what Anna wrote"
        assert desk.answer.payload == {"approved_days": 3}
        assert desk.answer.arguments == {"days": 5}

    def test_the_template_as_it_is_is_an_answer_too(self) -> None:
        asked = make_asked(wants_payload=True, payload={"approved_days": 0})
        desk = Desk(make_policy(), asked=asked)
        assert desk.fill_in(ANNA, {"approved_days": 0}) is None
        assert desk.answer.payload == {"approved_days": 0}
        assert len(desk.row.revisions) == 1


@pytest.mark.parametrize("may", [Reason.NO_PREVIEW, None])
def test_a_call_whose_preview_failed_is_approved_only_if_the_policy_says_so(may: Reason | None) -> None:
    policy = make_policy() if may else make_policy(preview="optional")
    desk = Desk(policy, asked=make_asked(preview={"failed": "no route"}))
    assert why(desk.approve(ANNA)) is may
    desk = Desk(policy, asked=make_asked(preview={"shows": "a plan"}))
    assert desk.approve(ANNA) is None


class TestAnEditThatIsPreviewed:
    """Its host can say what an edited call would do."""

    def desk(self, quorum: int = 1) -> Desk:
        return Desk(make_policy(quorum=quorum), asked=make_asked(preview={"shows": "a plan"}, previews_edits=True))

    def made(self, desk: Desk, preview: JsonObject) -> None:
        desk.row = take_preview(desk.row, preview, desk.now).row

    def test_the_approvals_before_it_fall(self) -> None:
        desk = self.desk(quorum=2)
        desk.approve(ANNA)
        desk.edit(BEN, version="2.4.2")
        self.made(desk, {"shows": "another plan"})
        assert desk.approve(BEN) is None
        assert desk.state() is State.WAITING
        desk.approve(ANNA)
        assert desk.state() is State.APPROVED

    def test_it_can_be_denied_and_edited_at_any_time(self) -> None:
        desk = self.desk()
        desk.edit(ANNA, version="2.4.2")
        desk.edit(BEN, version="2.4.3")
        self.made(desk, {"failed": "no route"})
        assert why(desk.approve(ANNA)) is Reason.NO_PREVIEW
        assert desk.edit(ANNA, version="2.4.4") is None
        desk.deny(ANNA)
        assert (desk.state(), desk.row.awaits_preview) == (State.DENIED, False)

    def test_back_to_what_was_asked_it_is_looked_up_too(self) -> None:
        """Whoever sees the card now has seen only what the edited call would do."""
        desk = self.desk()
        version = desk.row.revision.arguments["version"]
        desk.edit(ANNA, version="2.4.2")
        self.made(desk, {"shows": "another plan"})
        desk.edit(BEN, version=version)
        assert desk.row.awaits_preview


class TestTheClock:
    def test_a_click_after_the_deadline_is_too_late_however_late_the_clock_is(self) -> None:
        desk = Desk(make_policy(expires_after="1h"))
        desk.now += timedelta(hours=1)
        refusal = desk.approve(ANNA)
        assert refusal is not None
        assert (refusal.reason, refusal.state) == (Reason.TOO_LATE, "expired")

    def test_a_stored_vote_that_does_not_count_saves_nothing(self) -> None:
        desk = Desk(make_policy(expires_after="1h"))
        desk.wait(minutes=59)
        desk.store(VoteKind.APPROVE, MALLORY)
        desk.wait(minutes=5)
        assert why(desk.count()) is Reason.NOT_APPROVER
        desk.wait(seconds=1)
        assert desk.state() is State.EXPIRED


class TestBarred:
    def test_a_bar_takes_it_also_with_a_vote_that_does_not_count(self) -> None:
        desk = Desk(make_policy(quorum=2))
        desk.approve(ANNA)
        desk.barred = (parse_approver("user:U0ANNA"),)
        assert desk.approve(ASKER) is not None
        assert desk.row.approvals == ()
        assert LineKind.VOTE_FELL in desk.kinds

    def test_a_bar_that_cannot_be_looked_up_lets_nobody_through(self) -> None:
        desk = Desk(make_policy(barred=["group:S0GONE"]))
        assert why(desk.approve(ANNA)) is Reason.CANNOT_ASK
        assert why(desk.deny(ANNA)) is Reason.CANNOT_ASK


class TestTheVotesBefore:
    """A vote that stands was right when it was given. Before it makes a quorum it has to be right still."""

    ONCALL = parse_approver("group:S0ONCALL")

    def half(self) -> Desk:
        desk = Desk(make_policy(approvers=["group:S0ONCALL"], quorum=2))
        desk.members = {self.ONCALL: frozenset({ANNA, BEN, LEAD})}
        desk.approve(ANNA)
        return desk

    def test_while_slack_does_not_say_nothing_is_decided_and_nothing_is_lost(self) -> None:
        desk = self.half()
        facts = desk.facts(BEN)
        desk.store(VoteKind.APPROVE, BEN)
        silent = replace(facts, others={ANNA: Unresolved("U0ANNA", "Slack did not answer")})
        assert why(desk.count(silent)) is Reason.CANNOT_ASK
        desk.store(VoteKind.APPROVE, BEN)
        assert why(desk.count(replace(facts, others={}))) is Reason.CANNOT_ASK, "whom nobody asked about"
        assert [vote.voter for vote in desk.row.approvals] == [ANNA]
        desk.approve(BEN)
        assert desk.state() is State.APPROVED

    def test_votes_to_run_again_likewise(self) -> None:
        desk = self.half()
        desk.approve(BEN)
        desk.begin()
        desk.host_says(OutcomeKind.UNKNOWN)
        desk.vote(VoteKind.RUN_AGAIN, ANNA)
        desk.accounts[ANNA] = replace(full_member(ANNA), deleted=True)
        desk.vote(VoteKind.RUN_AGAIN, BEN)
        assert desk.row.attempt == 1
        assert [vote.voter for vote in desk.row.standing_votes(VoteKind.RUN_AGAIN)] == [BEN]

    def test_nobody_is_asked_about_before_it_matters(self) -> None:
        desk = Desk(make_policy(quorum=3))
        desk.approve(ANNA)
        vote = desk.store(VoteKind.APPROVE, BEN)
        assert completing_votes(desk.row, vote) == ()
        assert desk.count(replace(desk.facts(BEN), others={})) is None

    def test_one_account_is_one_vote_from_whichever_workspace(self) -> None:
        south = Person("T0SOUTH", ANNA.user)
        oncall = {self.ONCALL: frozenset({ANNA, south})}
        desk = Desk(make_policy(approvers=["group:S0ONCALL"], quorum=2), members=oncall)
        desk.accounts[south] = replace(full_member(ANNA), person=south)
        desk.approve(ANNA)
        assert why(desk.approve(south)) is Reason.ALREADY_VOTED
        assert desk.state() is State.WAITING

    def test_whose_vote_decided_hears_that_it_counts_and_everybody_else_that_they_are_late(self) -> None:
        desk = Desk(make_policy())
        desk.approve(ANNA)
        shown = desk.row.version
        assert why(desk.approve(ANNA)) is Reason.ALREADY_VOTED
        assert desk.row.version > shown, "the card that they saw is drawn again"
        assert why(desk.approve(BEN)) is Reason.TOO_LATE
        assert why(desk.vote(VoteKind.DENY, ANNA)) is Reason.TOO_LATE


class TestReapply:
    def test_a_vote_of_whom_nothing_is_known_falls(self) -> None:
        desk = Desk(make_policy(quorum=2))
        desk.approve(ANNA)
        policies = Policies.of(make_policy(quorum=2, deny_reason="required"))
        found = policies.resolve(desk.row.asked.facts(desk.row.revision.arguments))
        desk.took(put_under(desk.row, found, {}, desk.now, policies))
        assert not desk.row.approvals

    def test_a_smaller_quorum_may_be_there_already(self) -> None:
        desk = Desk(make_policy(quorum=2))
        desk.approve(ANNA)
        desk.reapply(make_policy(quorum=1))
        assert desk.state() is State.APPROVED
        assert desk.answer.word == "approved"

    def test_but_not_once_the_new_policy_says_it_is_too_late(self) -> None:
        desk = Desk(make_policy(quorum=2))
        desk.approve(ANNA)
        desk.wait(hours=1)
        desk.reapply(make_policy(quorum=1, expires_after="1h"))
        desk.wait(seconds=1)
        assert desk.state() is State.EXPIRED

    def test_without_a_policy_it_is_denied(self) -> None:
        desk = Desk(make_policy())
        desk.reapply()
        assert desk.state() is State.DENIED
        assert desk.answer.reason == "no policy covers this call, so nobody may approve it"

    @pytest.mark.parametrize("now", [{"grant": "session"}, {"grant": "30m", "grant_on": []}])
    def test_a_grant_that_went_with_a_vote_was_for_what_was_offered_then(self, now: dict[str, object]) -> None:
        """Anna allowed calls like it for half an hour, and not for a day or with other arguments."""
        desk = Desk(make_policy(quorum=2, grant="30m"))
        desk.approve(ANNA, grant=True)
        desk.reapply(make_policy(quorum=2, grant="30m", dm=True))
        assert desk.row.approvals[0].grant
        desk.reapply(make_policy(quorum=2, **now))
        desk.approve(BEN, grant=True)
        assert (desk.row.state, desk.row.grant) == (State.APPROVED, None)

    def test_a_vote_that_would_be_refused_now_falls(self) -> None:
        """A note is wanted now, and there is none: `reapply` decides nothing that a click could not."""
        desk = Desk(make_policy(quorum=2))
        desk.approve(ANNA)
        desk.reapply(make_policy(quorum=1, approve_note="required"))
        assert (desk.state(), desk.row.approvals) == (State.WAITING, ())
        assert desk.approve(BEN) is not None
        assert desk.vote(VoteKind.APPROVE, BEN, reason="checked") is None
        assert desk.state() is State.APPROVED

    def test_a_failed_preview_is_approved_by_no_earlier_vote_where_it_is_required(self) -> None:
        desk = Desk(make_policy(quorum=2, preview="optional"), make_asked(preview={"failed": "no plan"}))
        assert desk.approve(ANNA) is None
        desk.reapply(make_policy(quorum=1, preview="required"))
        assert (desk.state(), desk.row.approvals) == (State.WAITING, ())

    def test_who_was_reminded_is_not_reminded_again(self) -> None:
        desk = Desk(make_policy(remind_after="10m"))
        desk.wait(minutes=10)
        assert desk.kinds.count(LineKind.REMINDED) == 1
        desk.reapply(make_policy(remind_after="15m"))
        desk.wait(minutes=10)
        assert desk.kinds.count(LineKind.REMINDED) == 1

    def test_who_was_not_reminded_before_is_now(self) -> None:
        desk = Desk(make_policy())
        desk.wait(minutes=10)
        desk.reapply(make_policy(remind_after="5m"))
        desk.wait(seconds=1)
        assert desk.kinds[-1] is LineKind.REMINDED

    def test_new_leads_are_notified(self) -> None:
        desk = Desk(make_policy(escalate_after="10m", escalate_to=["user:U0LEAD"]))
        desk.wait(minutes=10)
        desk.reapply(make_policy(escalate_after="10m", escalate_to=["user:U0LEAD", "user:U0MALLORY"]))
        desk.wait(minutes=1)
        assert desk.kinds.count(LineKind.ESCALATED) == 2

    def test_only_what_waits(self) -> None:
        desk = Desk(make_policy())
        desk.approve(ANNA)
        with pytest.raises(Illegal, match='"reapply" is not possible'):
            desk.reapply(make_policy(quorum=2))


class TestElsewhere:
    def test_an_answer_from_outside_ends_the_waiting_with_an_alarm(self) -> None:
        desk = Desk(make_policy())
        desk.answered_elsewhere(confirmed=True)
        assert desk.state() is State.ELSEWHERE
        assert desk.kinds == [LineKind.ASKED, LineKind.ELSEWHERE]
        assert desk.steps[-1].yes is True
        assert desk.deliveries == []
        refusal = desk.approve(ANNA)
        assert refusal is not None
        assert refusal.state == "elsewhere"

    def test_it_changes_no_decision_but_raises_the_alarm_once(self) -> None:
        desk = Desk(make_policy())
        desk.deny(ANNA)
        desk.answered_elsewhere()
        desk.answered_elsewhere()
        assert desk.state() is State.DENIED
        assert desk.kinds.count(LineKind.ELSEWHERE) == 1


class TestStoring:
    def test_votes_are_counted_in_the_order_of_their_clicks(self) -> None:
        desk = Desk(make_policy())
        desk.store(VoteKind.DENY, ANNA)
        approving = desk.store(VoteKind.APPROVE, BEN)
        with pytest.raises(Illegal, match="not the oldest"):
            count(desk.row, approving.id, desk.facts(BEN), desk.now, desk.in_force)
        assert desk.count() is None
        assert desk.state() is State.DENIED
        assert why(desk.count()) is Reason.TOO_LATE

    def test_counting_without_having_asked_is_a_mistake_not_a_yes(self) -> None:
        desk = Desk(make_policy())
        vote = desk.store(VoteKind.APPROVE, ANNA)
        assert needs_asking(desk.row, vote)
        with pytest.raises(Illegal, match="was not asked"):
            count(desk.row, vote.id, None, desk.now, desk.in_force)

    @pytest.mark.parametrize("claimed", [{"state": VoteState.STANDING}, {"stands_on": 1}])
    def test_a_vote_is_not_stored_as_counted(self, claimed: dict[str, object]) -> None:
        desk = Desk(make_policy())
        vote = Vote(id="x", kind=VoteKind.APPROVE, voter=MALLORY, revision=1, stored_at=NOON)
        with pytest.raises(Invalid):
            store_vote(desk.row, replace(vote, **claimed))  # type: ignore[arg-type]  # fields of Vote


def nested(levels: int) -> JsonObject:
    value: JsonObject = {}
    for _ in range(levels):
        value = {"x": value}
    return value


def test_what_nobody_could_fingerprint_or_read_is_not_put_to_people() -> None:
    with pytest.raises(Invalid, match="The call to deploy holds a value that is not JSON"):
        Desk(make_policy(), asked=make_asked(arguments={"x": float("inf")}))
    with pytest.raises(Invalid, match="The call to deploy is nested deeper than 64 levels"):
        Desk(make_policy(), asked=make_asked(arguments=nested(64)))
    numbers: list[Json] = [1.123456789012345e300] * 49_000
    large: list[Json] = ["x" * 1_000_001, [1] * 50_001, {"x" * 1_000_001: 1}, numbers]
    for much in large:
        with pytest.raises(Invalid, match="The call to deploy has more than 50,000 values or 1,000,000 characters"):
            Desk(make_policy(), asked=make_asked(arguments={"x": much}))
    with pytest.raises(Invalid, match="The payload that deploy asks for is nested"):
        Desk(make_policy(), asked=make_asked(wants_payload=True, payload=nested(1000)))
    assert Desk(make_policy(redact=["token"]), asked=make_asked(arguments=nested(63))).approve(ANNA) is None


def test_nothing_redacted_is_in_any_step() -> None:
    arguments: JsonObject = {"token": "s3cr3t-token", "auth": {"token": "1234"}, "url": "https://x"}
    asked = make_asked(arguments=arguments, hint="with s3cr3t-token")
    desk = Desk(make_policy(redact=["token"], quorum=2), asked=asked)
    assert why(desk.edit(ANNA, url="https://y?t=s3cr3t-token")) is Reason.REPEATS_HIDDEN
    assert why(desk.edit(ANNA, auth={"token": "5678"})) is Reason.NOT_EDITABLE
    assert desk.edit(ANNA, url="https://y") is None
    desk.deny(BEN, "I saw s3cr3t-token")
    assert (desk.steps[0].hidden, desk.steps[0].text) == (2, "with ••••")
    assert desk.steps[-1].reason == "I saw ••••"
    assert desk.answer.reason == "I saw s3cr3t-token", "the model knows its own arguments"
    assert "s3cr3t" not in repr(desk.steps)


@pytest.mark.parametrize("why", CallRefusalReason)
def test_every_call_that_nobody_is_asked_about_says_why(why: CallRefusalReason) -> None:
    found = CallRefusal(why, 2, own_words("the call has no 'env'"))
    people, model = ungoverned(found), ungoverned_to_model(found)
    assert people.endswith(".")
    assert people != model


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


def test_the_notes_of_votes_that_count_are_shown_without_what_is_hidden() -> None:
    desk = Desk(make_policy(redact=["token"], quorum=3), asked=make_asked(arguments={"token": "s3cr3t-token"}))
    said = (
        (ANNA, VoteKind.APPROVE, VoteState.STANDING, "with s3cr3t-token"),
        (BEN, VoteKind.APPROVE, VoteState.FALLEN, "fell"),
        (LEAD, VoteKind.WITHDRAW, VoteState.STANDING, "another word"),
    )
    votes = tuple(
        Vote(id=f"v{number}", kind=kind, voter=who, revision=1, stored_at=NOON, state=state, stands_on=1, reason=words)
        for number, (who, kind, state, words) in enumerate(said)
    )
    row = replace(desk.row, votes=votes)
    assert notes_in(row, row.redactor) == ((ANNA.user, "with ••••"),)
