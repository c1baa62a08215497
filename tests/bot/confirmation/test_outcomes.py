"""From the approval to the outcome of the call, and what people can do when the outcome is unknown."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation.authorise import Reason
from adk_confirm.bot.confirmation.confirmation import OutcomeKind, State, VoteKind
from adk_confirm.bot.confirmation.outcome import (
    KnownStep,
    begin,
    copy_outcome,
    end_void,
    from_ledger,
    lapse,
    run_again,
    settle,
    start,
    take_back,
)
from adk_confirm.bot.confirmation.states import Delivery, Illegal, Transition
from adk_confirm.bot.policy.approvers import parse_approver
from adk_confirm.runtime.calls.call import Call, CallState, HeldRequest
from adk_confirm.runtime.jsontypes import Json
from tests.support.deciding import ANNA, ASKER, BEN, NOON, Desk, call_that_became, make_asked, make_policy, why


def approved(**keys: object) -> Desk:
    desk = Desk(make_policy(**keys))
    for who in (ANNA, BEN)[: desk.policy.quorum]:
        desk.approve(who)
    assert desk.state() is State.APPROVED
    return desk


def unknown(**keys: object) -> Desk:
    """Approved, begun, and its process died."""
    desk = approved(**keys)
    desk.begin()
    desk.host_says(OutcomeKind.RUNNING)
    desk.host_says(OutcomeKind.UNKNOWN)
    return desk


def test_what_a_running_call_waits_for_is_told_once() -> None:
    desk = approved()
    desk.begin()
    told = list[str | None]()
    for text in (None, None, "It waits for a sign-in.", "It waits for a sign-in.", None):
        desk.host_says(OutcomeKind.RUNNING, text)
        told.append(desk.row.outcome.text if desk.row.outcome else "")
    assert told == [None, None, *["It waits for a sign-in."] * 3]
    assert desk.kinds.count(LineKind.BEGUN) == 2
    desk.host_says(OutcomeKind.DONE, '{"ok":true}')
    assert desk.row.outcome is not None
    assert desk.row.outcome.kind is OutcomeKind.DONE


def word(desk: Desk) -> Delivery:
    last = desk.deliveries[-1]
    assert not last.answers
    return last


def is_refused_loudly(change: Transition) -> None:
    """Nothing is handed to the host; people see an alarm, and the agent is told."""
    assert change.row.handed_at is None
    assert change.row.outcome is not None
    assert change.row.outcome.kind is OutcomeKind.REFUSED
    assert [step.kind for step in change.steps] == [LineKind.ALTERED]
    assert change.delivery is not None
    assert change.delivery.word == "denied"


def begins(desk: Desk, *, payload: Json = None, attempt: int = 1, **other: object) -> Call:
    """The call as our own runtime would start it now."""
    asked, current = desk.row.asked, desk.row.revision
    called = Call(
        id=asked.call_id,
        tool=asked.tool,
        args=current.arguments,
        agent=asked.agent,
        invocation_id="",
        turn=1,
        place=0,
        state=CallState.RUNNING,
        asked=(HeldRequest(asked.request_id, "", confirmed=True, answer=payload),),
        attempt=attempt,
        begun=desk.now.timestamp(),
    )
    return replace(called, **other)  # type: ignore[arg-type]


class TestOurOwnStart:
    """Asked in the transaction that stores that the tool starts."""

    def test_what_was_approved_starts_once(self) -> None:
        desk = approved()
        desk.took(start(desk.row, begins(desk), None, desk.now))
        assert (desk.row.runs, desk.row.unsealed, desk.kinds[-1]) == (True, False, LineKind.BEGUN)
        desk.took(start(desk.row, begins(desk), None, desk.now))
        assert (desk.row.runs, desk.row.unknown) == (False, True)
        assert desk.kinds[-2:] == [LineKind.ALTERED, LineKind.UNKNOWN]

    def test_a_tool_that_can_be_repeated_starts_again_after_a_crash(self) -> None:
        desk = approved()
        desk.took(start(desk.row, begins(desk), None, desk.now))
        assert start(desk.row, begins(desk), None, desk.now, again=True).row is desk.row

    @pytest.mark.parametrize(
        "other", [{"args": {"version": "6.6.6"}}, {"tool": "destroy"}, {"id": "another"}, {"asked": ()}], ids=str
    )
    def test_anything_else_is_refused_loudly(self, other: dict[str, Any]) -> None:
        desk = approved()
        change = start(desk.row, begins(desk, **other), None, desk.now)
        assert not change.row.runs
        assert change.row.outcome is not None
        assert (change.row.outcome.kind, change.steps[-1].kind) == (OutcomeKind.REFUSED, LineKind.ALTERED)

    def test_another_payload_than_the_one_that_people_gave_is_refused(self) -> None:
        desk = approved()
        change = start(desk.row, begins(desk, payload={"days": 99}), None, desk.now)
        assert (change.row.runs, change.steps[-1].kind) == (False, LineKind.ALTERED)

    def test_what_is_late_lapses_without_an_alarm(self) -> None:
        desk = approved()
        assert desk.row.start_by is not None
        desk.now = desk.row.start_by
        change = start(desk.row, begins(desk), None, desk.now)
        assert (change.row.state, change.delivery) == (State.LAPSED, None)
        assert [step.kind for step in change.steps] == [LineKind.LAPSED]
        assert start(change.row, begins(desk), None, desk.now).row is change.row

    def test_a_later_attempt_that_is_late_stays_unknown(self) -> None:
        desk = unknown()
        desk.vote(VoteKind.RUN_AGAIN, ANNA)
        assert desk.row.start_by is not None
        desk.now = desk.row.start_by
        change = start(desk.row, begins(desk, attempt=2), None, desk.now)
        assert (change.row.unknown, change.row.attempt) == (True, 1)
        assert [step.kind for step in change.steps] == [LineKind.LAPSED]
        assert start(change.row, begins(desk, attempt=2), None, desk.now).row is change.row


class TestRunning:
    def test_the_line_about_a_run_has_its_duration(self) -> None:
        desk = approved()
        desk.begin()
        desk.host_says(OutcomeKind.RUNNING)
        desk.now += timedelta(seconds=42)
        desk.host_says(OutcomeKind.DONE, '{"ok":true}')
        assert desk.kinds[-3:] == [LineKind.APPROVED, LineKind.BEGUN, LineKind.DONE]
        assert (desk.steps[-1].seconds, desk.steps[-1].text) == (42.0, '{"ok":true}')

    def test_a_result_shows_nothing_hidden(self) -> None:
        asked = make_asked(arguments={"token": "s3cr3t-token"})
        desk = Desk(make_policy(redact=["token"]), asked=asked)
        desk.approve(ANNA)
        desk.begin()
        desk.host_says(OutcomeKind.UNKNOWN, "lost while it used s3cr3t-token")
        desk.vote(VoteKind.HAPPENED, BEN, reason="the log has s3cr3t-token")
        assert [step.text for step in desk.steps[-2:]] == ["lost while it used ••••", "it happened"]
        assert desk.steps[-1].reason == "the log has ••••"

    def test_hearing_it_again_changes_nothing(self) -> None:
        desk = approved()
        desk.begin()
        desk.host_says(OutcomeKind.DONE)
        before = desk.row
        desk.host_says(OutcomeKind.DONE)
        desk.host_says(OutcomeKind.RUNNING)
        assert desk.row is before

    def test_what_the_host_refused_did_not_run(self) -> None:
        desk = approved()
        desk.host_says(OutcomeKind.REFUSED, "the tool is gone")
        assert desk.kinds[-1] is LineKind.REFUSED
        assert desk.row.outside is None

    def test_a_call_runs_with_what_was_approved_or_not_at_all(self) -> None:
        desk = Desk(make_policy())
        desk.edit(ANNA, version="2.4.2")
        sound = desk.answer
        forgeries = [
            replace(sound, arguments={**sound.arguments, "version": "6.6.6"}),
            replace(sound, payload={"version": "6.6.6"}),
            replace(sound, payload=None),
        ]
        for forged in forgeries:
            is_refused_loudly(begin(desk.row, forged, desk.now))
        with pytest.raises(Illegal, match='"begin" is not possible'):
            begin(desk.row, replace(sound, attempt=2), desk.now)
        assert begin(desk.row, sound, desk.now).row.handed_at == desk.now

    def test_a_payload_reaches_the_tool_as_it_was_filled_in(self) -> None:
        desk = Desk(make_policy(), asked=make_asked(wants_payload=True, payload={"days": 0}))
        desk.fill_in(ANNA, {"days": 3})
        is_refused_loudly(begin(desk.row, replace(desk.answer, payload={"days": 300}), desk.now))
        desk.begin()

    def test_a_rewritten_row_does_not_begin(self) -> None:
        desk = approved()
        rewritten = replace(desk.row, revisions=(*desk.row.revisions, replace(desk.row.revision, arguments={})))
        is_refused_loudly(begin(rewritten, desk.answer, desk.now))

    def test_it_is_given_to_the_host_once(self) -> None:
        desk = approved()
        drawn = desk.row.face
        desk.begin()
        with pytest.raises(Illegal, match="a second time"):
            desk.begin()
        desk.took(take_back(desk.row, desk.now))
        desk.begin()
        assert desk.row.face == drawn, "nothing that people see has changed yet"

    def test_a_run_that_nobody_here_began_is_an_alarm(self) -> None:
        desk = approved()
        desk.host_says(OutcomeKind.DONE)
        assert desk.kinds[-2:] == [LineKind.ELSEWHERE, LineKind.DONE]
        assert desk.row.outside is not None
        assert desk.row.outside.confirmed is True

    def test_a_denied_call_that_ran_all_the_same_is_an_alarm(self) -> None:
        desk = Desk(make_policy())
        desk.deny(ANNA)
        desk.host_says(OutcomeKind.REFUSED)
        assert desk.kinds[-1] is LineKind.DENIED
        desk.host_says(OutcomeKind.DONE)
        last = desk.steps[-1]
        assert (last.kind, last.text, last.yes) == (LineKind.ELSEWHERE, "denied", True)
        assert desk.state() is State.DENIED

    def test_what_runs_while_it_waits_was_answered_by_somebody_else(self) -> None:
        desk = Desk(make_policy())
        desk.host_says(OutcomeKind.RUNNING)
        assert desk.kinds[-2:] == [LineKind.ELSEWHERE, LineKind.BEGUN]

    def test_a_running_call_is_not_taken_back(self) -> None:
        desk = approved()
        desk.begin()
        desk.host_says(OutcomeKind.RUNNING)
        with pytest.raises(Illegal):
            take_back(desk.row, desk.now)


class TestLapsing:
    def test_no_deploy_at_four_in_the_morning(self) -> None:
        desk = approved(start_within="15m")
        approval = desk.answer
        for late in (timedelta(minutes=15), timedelta(hours=16)):
            with pytest.raises(Illegal, match="after"):
                begin(desk.row, approval, desk.now + late)

    def test_an_approval_that_never_reached_the_host_expires(self) -> None:
        desk = approved(start_within="15m")
        desk.begin()
        desk.took(take_back(desk.row, desk.now))
        desk.wait(minutes=16)
        assert desk.state() is State.LAPSED


class TestUnknown:
    def test_somebody_knows_that_it_happened(self) -> None:
        desk = unknown(quorum=2)
        assert desk.vote(VoteKind.HAPPENED, ANNA, reason="the shop shows 2.4.1") is None
        assert word(desk).word == "it happened"
        assert (desk.steps[-1].kind, desk.steps[-1].yes, desk.steps[-1].who) == (LineKind.SETTLED, True, ANNA)

    def test_somebody_knows_that_it_did_not(self) -> None:
        desk = unknown()
        desk.vote(VoteKind.DID_NOT, BEN)
        assert word(desk).word == "it did not"
        refusal = desk.vote(VoteKind.HAPPENED, ANNA)
        assert refusal is not None
        assert (refusal.reason, refusal.state) == (Reason.NOTHING_TO_SETTLE, "it did not")

    def test_a_bar_is_looked_at_with_each_vote_also_with_one_that_does_not_count(self) -> None:
        desk = unknown(quorum=2)
        desk.vote(VoteKind.RUN_AGAIN, ANNA)
        desk.barred = (parse_approver("user:U0ANNA"),)
        assert desk.vote(VoteKind.RUN_AGAIN, ASKER) is not None
        assert desk.row.voters(VoteKind.RUN_AGAIN) == ()

    def test_before_it_runs_again_the_host_still_speaks_of_the_first_attempt(self) -> None:
        desk = unknown()
        desk.vote(VoteKind.RUN_AGAIN, ANNA)
        before = desk.row
        desk.host_says(OutcomeKind.UNKNOWN)
        assert desk.row is before
        desk.begin()
        desk.host_says(OutcomeKind.DONE)
        assert desk.row.outcome is not None
        assert (desk.row.outcome.kind, desk.row.outside) == (OutcomeKind.DONE, None)

    def test_the_first_attempt_may_end_before_the_second_begins_and_is_no_alarm(self) -> None:
        desk = unknown()
        desk.vote(VoteKind.RUN_AGAIN, ANNA)
        second = desk.deliveries[-1]
        desk.host_says(OutcomeKind.DONE)
        assert desk.row.outside is None
        with pytest.raises(Illegal):
            begin(desk.row, second, desk.now)

    def test_a_click_on_the_first_unknown_card_does_not_run_a_third_time(self) -> None:
        desk = unknown()
        first_card = desk.row.revision.number
        desk.vote(VoteKind.RUN_AGAIN, ANNA)
        desk.begin()
        desk.host_says(OutcomeKind.UNKNOWN)
        assert why(desk.vote(VoteKind.RUN_AGAIN, BEN, revision=first_card)) is Reason.OLDER_REVISION
        assert desk.row.attempt == 2

    def test_a_word_after_that_is_too_late_however_late_the_clock_is(self) -> None:
        desk = unknown()
        desk.now += timedelta(hours=24)
        assert why(desk.vote(VoteKind.HAPPENED, ANNA)) is Reason.NOTHING_TO_SETTLE

    def test_a_vote_stored_in_time_is_counted_first(self) -> None:
        desk = unknown()
        desk.wait(hours=23)
        desk.store(VoteKind.DID_NOT, ANNA)
        desk.wait(hours=2)
        assert desk.row.unknown
        assert desk.count() is None
        assert word(desk).word == "it did not"

    def test_the_echo_of_peoples_word_changes_nothing(self) -> None:
        desk = unknown()
        desk.vote(VoteKind.HAPPENED, ANNA)
        before = desk.row
        desk.host_says(OutcomeKind.DONE, "it happened")
        assert desk.row is before

    def test_one_that_was_asked_anew_and_expires_is_refused(self) -> None:
        """The agent's call waits for an answer to the new request, and no word about the old one would reach it."""
        desk = Desk(make_policy(start_within="15m"), make_asked(attempts=1))
        desk.approve(ANNA)
        desk.wait(minutes=15)
        assert (desk.state(), desk.row.attempt, desk.deliveries[-1].word) == (State.LAPSED, 2, "denied")

    def test_what_others_answered_is_not_run_again_from_here(self) -> None:
        desk = Desk(make_policy())
        desk.answered_elsewhere()
        desk.host_says(OutcomeKind.UNKNOWN)
        assert why(desk.vote(VoteKind.RUN_AGAIN, ANNA)) is Reason.NOTHING_TO_SETTLE
        assert desk.vote(VoteKind.DID_NOT, ANNA) is None


def test_what_is_not_unknown_is_neither_settled_nor_run_again() -> None:
    desk = approved()
    before = desk.row
    with pytest.raises(Illegal):
        settle(desk.row, "it happened", desk.now, ANNA)
    with pytest.raises(Illegal):
        run_again(desk.row, desk.now)
    with pytest.raises(Illegal):
        lapse(unknown().row, desk.now)
    lost = unknown().row
    assert copy_outcome(lost, call_that_became(OutcomeKind.RUNNING), desk.now).row is lost
    assert desk.row is before


@pytest.mark.parametrize(
    ("kind", "text"), [(OutcomeKind.DONE, '{"token": "s3cr3t-1"}'), (OutcomeKind.FAILED, "no such token: s3cr3t-1")]
)
def test_what_became_of_a_void_call_is_hidden_since_nobody_knows_what_its_policy_hid(
    kind: OutcomeKind, text: str
) -> None:
    """It ran while somebody changed its row in the database."""
    told = [KnownStep(line, NOON, "deploy", {}) for line in (LineKind.ASKED, LineKind.APPROVED, LineKind.BEGUN)]
    row = end_void(from_ledger("k1", make_asked(), told, NOON), NOON).row
    change = copy_outcome(row, call_that_became(kind, text), NOON)
    assert change.row.outcome is not None
    assert (change.row.outcome.kind, change.row.outcome.text) == (kind, "••••")
    assert "s3cr3t-1" not in repr(change)
