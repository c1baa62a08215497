"""From rows to view models: each state's face, who decided, what was edited, and nothing that a policy hides."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from blocks import form, full_view
from blocks.card import card
from blocks.ids import Ref
from blocks.ledger_kinds import Reason
from blocks.step_views import Counted, StepView
from blocks.view import ABSENT, AnsweredOutside, Approvers, Argument, CardView, Email, Face, FieldDiff, GrantOffer
from bot.audit.ledger import Head, LineKind, append
from bot.cards import forms
from bot.cards.card_presenter import Links, card_view, face
from bot.cards.ledger_presenter import step_view, verdict_view
from bot.confirmation.effects import Step
from bot.confirmation.model import Confirmation, Grant, OutcomeKind, State, VoteKind
from bot.confirmation.stored_json import step_content
from bot.policy.model import CallRefusal, Policies
from bot.policy.redaction import own_words
from runtime.jsontypes import Json, JsonObject
from tests.blocks.slack import OpenForm
from tests.support.deciding import ANNA, ASKER, BEN, LEAD, NOON, Desk, make_asked, make_policy
from tests.support.secret import KEYS
from tests.support.states import every_state

NOON_EPOCH = int(NOON.timestamp())


def view(desk: Desk, **more: object) -> CardView:
    return card_view(desk.row, **more)  # type: ignore[arg-type]  # its keywords


def test_a_card_says_what_was_asked_by_whom_and_who_may_decide_until_when() -> None:
    policy = make_policy(
        approvers=["group:S0ONCALL", "user:U0LEAD", "email:rm@example.com", "python:my.rota:on_call"],
        quorum=2,
        expires_after="1h",
        confirm_dialog=True,
    )
    desk = Desk(policy, make_asked(hint="Ship it?"))
    shown = view(desk, links=Links(session="https://a.example/c", accounts={"x": "U0X"}))
    assert shown == CardView(
        id="k1",
        revision=1,
        version=1,
        face=Face.WAITING,
        tool="deploy",
        agent="oncall",
        arguments=(Argument("version", "2.4.1"), Argument("replicas", 3)),
        hint="Ship it?",
        asked_by=ASKER.user,
        asked_at=NOON_EPOCH,
        approvers=Approvers(
            users=("U0LEAD",),
            groups=("S0ONCALL",),
            emails=(Email("rm@example.com"),),
            callables=("my.rota:on_call",),
        ),
        quorum=2,
        expires_at=NOON_EPOCH + 3600,
        editable=("version", "replicas"),
        confirm_dialog=True,
        session_link="https://a.example/c",
    )


def test_every_state_has_its_face() -> None:
    assert {state: face(state, None) for state in State} == {
        State.WAITING: Face.WAITING,
        State.APPROVED: Face.APPROVED,
        State.DENIED: Face.DENIED,
        State.EXPIRED: Face.EXPIRED,
        State.WITHDRAWN: Face.WITHDRAWN,
        State.ELSEWHERE: Face.ELSEWHERE,
        State.LAPSED: Face.LAPSED,
    }
    assert {kind: face(State.APPROVED, kind) for kind in OutcomeKind} == {
        OutcomeKind.RUNNING: Face.RUNNING,
        OutcomeKind.DONE: Face.DONE,
        OutcomeKind.FAILED: Face.FAILED,
        OutcomeKind.REFUSED: Face.REFUSED,
        OutcomeKind.UNKNOWN: Face.UNKNOWN,
        OutcomeKind.HAPPENED: Face.SETTLED,
        OutcomeKind.DID_NOT: Face.SETTLED,
        OutcomeKind.NOBODY_KNOWS: Face.SETTLED,
    }
    assert face(State.ELSEWHERE, OutcomeKind.DONE) is Face.DONE
    assert face(State.ELSEWHERE, OutcomeKind.REFUSED) is Face.ELSEWHERE


def test_votes_and_all_who_approved() -> None:
    desk = Desk(make_policy(quorum=2))
    desk.approve(ANNA)
    assert [vote.user for vote in view(desk).votes] == [ANNA.user]
    desk.approve(BEN)
    shown = view(desk)
    assert (shown.face, shown.decided_by) == (Face.APPROVED, (ANNA.user, BEN.user))
    assert shown.start_by == NOON_EPOCH + 3600
    assert shown.editable == ()
    assert not shown.withdrawable


def test_an_argument_that_the_call_did_not_have_is_shown_as_new() -> None:
    schema: JsonObject = {"type": "object", "properties": {"canary": {"type": "boolean"}}}
    desk = Desk(make_policy(quorum=2), make_asked(tool_schema=schema))
    desk.edit(ANNA, canary=True)
    assert view(desk).diff == (FieldDiff("canary", ABSENT, True),)


def test_an_edit_is_shown_as_a_difference_from_the_request() -> None:
    desk = Desk(make_policy(quorum=2))
    desk.edit(ANNA, replicas=4)
    desk.edit(BEN, replicas=5)
    shown = view(desk)
    assert shown.diff == (FieldDiff("replicas", 3, 5),)
    assert (shown.edited_by, shown.revision) == (BEN.user, 3)
    assert [vote.user for vote in shown.votes] == [BEN.user]


def test_a_payload_is_shown_as_its_fields_and_how_it_was_filled_in() -> None:
    desk = Desk(make_policy(quorum=2), make_asked(wants_payload=True, payload={"days": 0, "note": None}))
    shown = view(desk)
    assert shown.payload == (Argument("days", 0), Argument("note", None))
    assert (shown.wants_payload, shown.answered, shown.editable) == (True, False, ("days", "note"))
    desk.fill_in(ANNA, {"days": 3, "note": None})
    shown = view(desk)
    assert shown.answered
    assert (shown.payload[0], shown.diff) == (Argument("days", 3), ()), "an answer is no edit"


def test_a_payload_without_fields_is_one_field() -> None:
    desk = Desk(make_policy(), make_asked(wants_payload=True, payload=0))
    assert view(desk).payload == (Argument(form.PAYLOAD, 0),)
    desk = Desk(make_policy(quorum=2), make_asked(wants_payload=True, payload=0))
    desk.fill_in(ANNA, 3)
    assert view(desk).payload == (Argument(form.PAYLOAD, 3),)


def test_a_run_with_its_result_and_a_failure_with_its_error() -> None:
    desk = Desk(make_policy())
    desk.approve(ANNA)
    desk.begin()
    desk.host_says(OutcomeKind.RUNNING)
    assert (view(desk).face, view(desk).started_at) == (Face.RUNNING, NOON_EPOCH)
    desk.now += timedelta(seconds=42)
    running = desk.row
    desk.host_says(OutcomeKind.DONE, '{"status": "deployed"}')
    assert (view(desk).result, view(desk).duration) == ({"status": "deployed"}, 42.0)
    desk.row = running
    desk.host_says(OutcomeKind.FAILED, "DeployError: not ready")
    assert (view(desk).error, view(desk).result) == ("DeployError: not ready", ABSENT)


def test_an_unknown_outcome_shows_who_wants_it_again_and_then_what_people_said() -> None:
    desk = Desk(make_policy(quorum=2))
    desk.approve(ANNA)
    desk.approve(BEN)
    desk.begin()
    desk.host_says(OutcomeKind.UNKNOWN)
    unknown = desk.row
    desk.vote(VoteKind.RUN_AGAIN, BEN)
    shown = view(desk)
    assert (shown.face, [vote.verdict.value for vote in shown.votes]) == (Face.UNKNOWN, ["run_again"])
    desk.vote(VoteKind.RUN_AGAIN, ANNA)
    shown = view(desk)
    assert (shown.face, shown.attempt, shown.decided_by) == (Face.APPROVED, 2, (BEN.user, ANNA.user))

    for kind, happened in ((VoteKind.HAPPENED, True), (VoteKind.DID_NOT, False)):
        desk.row = unknown
        desk.vote(kind, ANNA)
        assert (view(desk).happened, view(desk).decided_by) == (happened, (ANNA.user,))
    desk.row = unknown
    desk.wait(hours=25)
    assert (view(desk).face, view(desk).happened, view(desk).decided_by) == (Face.SETTLED, None, ())


def test_the_reasons_that_people_gave_are_shown_and_those_for_the_model_are_not() -> None:
    desk = Desk(make_policy())
    desk.deny(ANNA, "not now")
    assert view(desk).reason == "not now"
    desk = Desk(make_policy())
    desk.vote(VoteKind.WITHDRAW, ASKER)
    assert (view(desk).face, view(desk).reason, view(desk).decided_by) == (Face.WITHDRAWN, None, (ASKER.user,))
    desk = Desk(make_policy())
    desk.wait(hours=25)
    assert (view(desk).face, view(desk).reason) == (Face.EXPIRED, None)


def test_an_answer_from_outside_is_an_alarm() -> None:
    desk = Desk(make_policy())
    desk.answered_elsewhere(confirmed=False)
    shown = view(desk)
    assert (shown.face, shown.outside, shown.notices) == (Face.ELSEWHERE, False, (AnsweredOutside(),))


def test_an_escalation_is_shown_once_it_has_come() -> None:
    desk = Desk(make_policy(escalate_after="10m", escalate_to=["group:S0LEADS"]))
    assert view(desk).escalated_to is None
    desk.wait(minutes=11)
    assert view(desk).escalated_to == Approvers(groups=("S0LEADS",))


def test_a_grant_is_offered_bound_to_what_the_policy_names_and_shown_once_given() -> None:
    desk = Desk(make_policy(grant="30m", grant_on=["version"]))
    assert view(desk).grant_offer == GrantOffer(1800, (Argument("version", "2.4.1"),))
    desk.approve(ANNA, grant=True)
    (given,) = desk.grants
    other = replace(given, id="another")
    shown = view(desk, grants=[other, given]).grant
    assert shown is not None
    assert (shown.id, shown.by, shown.on) == ("k1", (ANNA.user,), (Argument("version", "2.4.1"),))
    assert view(desk, grants=[other]).grant is None
    assert isinstance(given, Grant)
    assert view(Desk(make_policy(grant="session"))).grant_offer == GrantOffer(
        86_400, (Argument("version", "2.4.1"), Argument("replicas", 3))
    )


# What a policy hides

SECRET = "s3cr3t-t0ken"
HIDING: JsonObject = {
    "token": SECRET,
    "nested": {"Token": {"inner": SECRET}, "plain": 1},
}


def hiding_desk(**policy: object) -> Desk:
    asked = make_asked(arguments=HIDING, hint=f"Use {SECRET}?", title=f"Use {SECRET}")
    return Desk(make_policy(redact=["token"], quorum=2, **policy), asked)


def test_hidden_values_are_gone_before_anything_is_drawn() -> None:
    desk = hiding_desk()
    shown = view(desk)
    assert SECRET not in repr(shown)
    assert shown.arguments[0] == Argument("token", "••••", masked=True)
    assert shown.hidden == 2
    assert shown.editable == ()  # each of them holds something hidden, or would be shown otherwise than it is


def test_a_form_never_offers_a_value_that_it_shows_masked() -> None:
    desk = Desk(make_policy(redact=["token"]), make_asked(arguments={"token": SECRET, "a": {"token": "x"}, "n": 1}))
    shown = view(desk)
    assert shown.editable == ("n",)
    (field,) = form.edit_fields(shown, None).fields
    assert field.name == "n"


def test_results_errors_and_refusals_hide_by_name_and_by_value() -> None:
    for kind, text in (
        (OutcomeKind.DONE, '{"token": "fresh-from-the-tool", "note": "ok"}'),
        (OutcomeKind.DONE, f"created with {SECRET}"),
        (OutcomeKind.FAILED, '{"error": {"token": "fresh-from-the-tool"}}'),
        (OutcomeKind.REFUSED, '[{"token": "fresh-from-the-tool"}]'),
    ):
        desk = hiding_desk()
        desk.approve(ANNA)
        desk.approve(BEN)
        desk.begin()
        desk.host_says(kind, text)
        everything = card(view(desk)).payload()
        assert SECRET not in str(everything)
        assert "fresh-from-the-tool" not in str(everything)
        assert "••••" in str(everything)


VALUES: st.SearchStrategy[Json] = st.recursive(
    st.just(SECRET) | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["token", "x"]), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["API_token", "note", "deep"]), VALUES), st.integers(0, 62))
def test_no_secret_comes_out_by_any_way(arguments: dict[str, Json], state: int) -> None:
    policy, asked = make_policy(redact=["*token"]), make_asked(arguments={"token": SECRET, **arguments})
    if isinstance(Policies.of(policy).resolve(asked.facts()), CallRefusal):
        return
    desk = Desk(policy, asked)
    shown = card_view(list(every_state(desk.row))[state])
    drawn = (
        card(shown).payload(),
        full_view.everything(shown),
        form.edit_form(shown, None),
    )
    assert SECRET not in str(drawn)


def test_an_edit_that_no_view_could_show_is_an_error_at_its_field() -> None:
    row = Desk(make_policy(), make_asked(arguments={"script": "x" * 206_000, "note": "n"})).row
    shown = OpenForm(forms.edit_view(row, Ref(row.id, 1)))
    policies = Policies.of(row.policy)
    assert isinstance(forms.read_edit(row, shown.type("note", "short").state, policies), forms.SubmittedForm)
    assert forms.read_edit(row, shown.type("note", "n" * 3000).state, policies) == forms.FormErrors(
        {shown.block_id("note"): "With this, the call would be too long for a window. Write less."}
    )


# Ledger lines


def view_of(step: Step, row: Confirmation) -> StepView:
    content = step_content(step)
    line = append(Head(), "c", step.kind, content, KEYS, at=step.at, salt="s", confirmation=row.id, tool="deploy")
    view = step_view(line, row)
    assert view is not None
    return view


def test_every_step_of_a_story_has_a_line() -> None:
    desk = Desk(make_policy(quorum=2, remind_after="1m", escalate_after="2m", escalate_to=["user:U0LEAD"]))
    desk.edit(ANNA, replicas=4)
    desk.approve(BEN, revision=1)
    desk.wait(minutes=3)
    desk.approve(LEAD)
    assert [step.kind.value for step in desk.steps] == [
        "asked", "edited", "vote refused", "reminded", "escalated", "approval", "approved",
    ]  # fmt: skip
    _, edited, refused, _, escalated, *_ = [view_of(step, desk.row) for step in desk.steps]
    assert edited.changes == (FieldDiff("replicas", 3, 4),)
    assert refused.why is Reason.OLDER_REVISION
    assert escalated.approvers == Approvers(users=("U0LEAD",))


def test_the_line_has_the_answer_as_it_was_given() -> None:
    asked = make_asked("request_time_off", {"days": 3}, wants_payload=True, payload={"approved_days": 0})
    desk = Desk(make_policy(quorum=2), asked)
    desk.fill_in(ANNA, {"approved_days": 2})
    desk.fill_in(BEN, {"approved_days": 1})
    desk.approve(ANNA)
    filled, changed = [view_of(step, desk.row) for step in desk.steps if step.kind is LineKind.EDITED]
    assert (filled.answer, changed.answer) == ((Argument("approved_days", 2),), (Argument("approved_days", 1),))
    assert filled.call == (Argument("days", 3),)


def test_a_result_is_shown_without_values_hidden_by_name() -> None:
    desk = hiding_desk()
    step = Step(kind=LineKind.DONE, at=NOON, text=own_words('{"token": "fresh-from-the-tool"}'), seconds=2.0)
    shown = view_of(step, desk.row)
    assert (shown.text, shown.seconds) == ('{"token": "••••"}', 2.0)


def test_lines_of_the_system_are_no_story() -> None:
    line = append(Head(), "system", LineKind.CHECKPOINT, {}, KEYS, at=NOON, salt="s")
    assert step_view(line) is None


# Verdicts


def test_what_became_of_a_word() -> None:
    last = verdict_view({"kind": "approval", "votes": 2, "quorum": 2, "state": "approved", "tool": "deploy"})
    assert (last.counted, last.decided, last.votes) == (Counted.APPROVED, True, 2)
    late = verdict_view({"kind": "vote refused", "reason": "too late", "state": "approved", "outcome": "done"})
    assert (late.counted, late.why, late.face) == (Counted.REFUSED, Reason.TOO_LATE, Face.DONE)
    again = verdict_view({"kind": "run again vote", "votes": 1, "quorum": 2, "state": "approved", "outcome": "unknown"})
    assert (again.counted, again.decided) == (Counted.RUN_AGAIN, False)
    twice = verdict_view({"kind": None, "state": "denied"})
    assert twice.counted is Counted.DENIED
