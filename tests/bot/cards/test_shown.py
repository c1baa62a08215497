"""From rows to view models: each state's face, who decided, what was edited, and nothing that a policy hides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.blocks import form, full_view
from adk_confirm.blocks.card import card
from adk_confirm.blocks.click_ids import Ref
from adk_confirm.blocks.shown import ABSENT, PAYLOAD, Argument, FieldDiff, Shown
from adk_confirm.blocks.shown_lines import ShownLine
from adk_confirm.blocks.thread import thread_messages
from adk_confirm.bot.audit.ledger import Head, LedgerLine, LineKind, append
from adk_confirm.bot.cards import modals
from adk_confirm.bot.confirmation.confirmation import Confirmation, OutcomeKind, State, VoteKind
from adk_confirm.bot.confirmation.shown import shown_of
from adk_confirm.bot.confirmation.shown_lines import About, shown_line, thread_lines
from adk_confirm.bot.confirmation.states import Step
from adk_confirm.bot.confirmation.stored_json import step_content
from adk_confirm.bot.ops.reapply import put_under
from adk_confirm.bot.policy.policies import CallRefusal, GoverningPolicy, Policies
from adk_confirm.bot.policy.redaction import MASK, own_words
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.jsontypes import Json, JsonObject
from tests.blocks import inert
from tests.blocks.slack import OpenForm
from tests.support.deciding import ANNA, ASKER, BEN, NOON, Desk, every_state, make_asked, make_policy
from tests.support.stores import KEYS


def view(desk: Desk, **more: object) -> Shown:
    return shown_of(desk.row, **more)  # type: ignore[arg-type]  # its keywords


def test_an_argument_that_the_call_did_not_have_is_shown_as_new() -> None:
    schema: JsonObject = {"type": "object", "properties": {"canary": {"type": "boolean"}}}
    desk = Desk(make_policy(quorum=2), make_asked(tool_schema=schema))
    desk.edit(ANNA, canary=True)
    assert view(desk).diff == (FieldDiff("canary", ABSENT, True),)


def test_a_vote_leaves_the_call_where_it_stands_on_the_card() -> None:
    """What the title says is small print before a vote and after it."""
    desk = Desk(make_policy(quorum=2), make_asked(title="Deploy {version}"))
    before = card(view(desk)).blocks
    desk.approve(ANNA)
    after = card(view(desk)).blocks
    assert [block["type"] for block in before] == [block["type"] for block in after]
    assert not view(desk).answered


def test_who_approved_did_so_then_whatever_they_said_later() -> None:
    desk = Desk(make_policy(approvers=["user:U0ANNA"]))
    desk.approve(ANNA)
    desk.begin()
    desk.host_says(OutcomeKind.UNKNOWN)
    desk.wait(hours=2)
    desk.vote(VoteKind.HAPPENED, ANNA)
    shown = shown_of(desk.row)
    assert shown.voted_at == {"U0ANNA": int(NOON.timestamp())}
    assert shown.said_at == int(NOON.timestamp()) + 2 * 3600


def test_the_reasons_that_people_gave_are_shown_and_those_for_the_model_are_not() -> None:
    desk = Desk(make_policy())
    desk.deny(ANNA, "not now")
    assert view(desk).reason == "not now"
    desk = Desk(make_policy())
    desk.vote(VoteKind.WITHDRAW, ASKER)
    assert (view(desk).stage, view(desk).reason, view(desk).decided_by) == (State.WITHDRAWN, None, (ASKER.user,))
    desk = Desk(make_policy())
    desk.wait(hours=25)
    assert (view(desk).stage, view(desk).reason) == (State.EXPIRED, None)


def test_money_reads_the_same_in_title_field_result_and_where_the_title_does_not_fit() -> None:
    for title, policy in (("Pay €{amount} for {what}", {}), ("Pay {amount} for {what}", {"format": {"amount": "EUR"}})):
        for what, headline in (("lunch", "Pay €1,200.50 for lunch?"), ("x" * 90, "Pay: amount €1,200.50?")):
            asked = make_asked(tool="pay", arguments={"amount": 1200.5, "what": what}, title=title)
            desk = Desk(make_policy(**policy), asked)
            shown = card(view(desk)).text
            assert shown.startswith(headline)
            assert "amount €1,200.50" in shown
            assert form.Form(replace(view(desk), editable=("amount",)), None).fields[0].note == "€1,200.50"
            done = replace(view(desk), stage=OutcomeKind.DONE, result={"amount": 1200})
            assert "amount €1,200.00" in card(done).text


# What a policy hides

SECRET = "s3cr3t-t0ken"
HIDING: JsonObject = {"token": SECRET, "nested": {"Token": {"inner": SECRET}, "plain": 1}}


def hiding_desk(**policy: object) -> Desk:
    asked = make_asked(arguments=HIDING, hint=f"Use {SECRET}?", title=f"Use {SECRET}")
    return Desk(make_policy(redact=["token"], quorum=2, **policy), asked)


def test_dots_that_an_agent_wrote_do_not_look_like_a_value_that_is_hidden() -> None:
    inside: JsonObject = {"token": SECRET, "note": "••••", "••••": ["a••••"]}
    desk = Desk(make_policy(redact=["token"], edit=True), make_asked(arguments={"inside": inside, "plain": "••••"}))
    nested, plain = view(desk).arguments
    dots = "\\u2022" * 4
    assert nested.value == {"token": "••••", "note": dots, "••••": [f"a{dots}"]}
    assert plain.value == dots
    assert view(desk).editable == ()
    assert desk.row.revision.arguments == {"inside": inside, "plain": "••••"}


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
    shown = shown_of(list(every_state(desk.row))[state])
    drawn = (card(shown).payload(), full_view.everything(shown), form.Form(shown, None).edit_view())
    assert SECRET not in str(drawn)


def test_an_edit_that_no_view_could_show_is_an_error_at_its_field() -> None:
    row = Desk(make_policy(), make_asked(arguments={"script": "x" * 206_000, "note": "n"})).row
    shown = OpenForm(modals.edit_view(row, Ref(row.id, 1)))
    policies = Policies.of(row.policy)
    assert isinstance(modals.read_edit(row, shown.enter("note", "short").state, policies), modals.SubmittedForm)
    with pytest.raises(form.FormErrors) as caught:
        modals.read_edit(row, shown.enter("note", "n" * 3000).state, policies)
    too_long = "With this, the call would be too long for a window. Write less."
    assert caught.value.errors == {shown.block_id("note"): too_long}


@pytest.mark.parametrize("payload", [[1, 2], {}], ids=["a list", "nothing"])
def test_null_in_place_of_an_answer_approves_nothing(payload: Json) -> None:
    """It would have gone to the agent as the answer that the tool proposed."""
    row = Desk(make_policy(), make_asked(wants_payload=True, payload=payload)).row
    shown = OpenForm(modals.approve_view(row, Ref(row.id, 1))).enter(PAYLOAD, "null")
    with pytest.raises(form.FormErrors, match="must stay the same kind") as caught:
        modals.read_approval(row, shown.state, "", Policies.of(row.policy))
    assert [*caught.value.errors] == [shown.block_id(PAYLOAD)]


def test_what_was_filled_in_before_the_policy_changed_is_never_anothers_value() -> None:
    """An operator reapplies the policies while Anna has the form open. Now other fields may be edited."""
    flags: JsonObject = {name: {"type": "boolean"} for name in ("dry_run", "force")}
    desk = Desk(make_policy(), make_asked(tool_schema={"type": "object", "properties": flags}))
    shown = OpenForm(modals.edit_view(desk.row, Ref(desk.row.id, 1)))
    shown.enter("replicas", "4")
    kept = make_policy(edit=["force", "dry_run", "replicas", "version"])
    after = put_under(desk.row, GoverningPolicy(kept, 0), {}, NOON, Policies.of(kept)).row
    edit = modals.read_edit(after, shown.state, Policies.of(kept)).edit
    assert edit is not None
    assert edit.arguments == {"replicas": 4}
    shown.enter("dry run", "yes")
    locked = make_policy(edit=["force", "replicas", "version"])
    after = put_under(desk.row, GoverningPolicy(locked, 0), {}, NOON, Policies.of(locked)).row
    with pytest.raises(form.FormErrors, match="The policy has changed meanwhile") as caught:
        modals.read_edit(after, shown.state, Policies.of(locked))
    assert [*caught.value.errors] == [shown.block_id("dry run")]


def test_a_form_that_was_opened_before_the_policy_changed_allows_nothing_else() -> None:
    desk = Desk(make_policy(grant="30m", grant_on=[]))
    view = modals.approve_view(desk.row, Ref(desk.row.id, 1), grant=True)
    _, _, _, terms = modals.read_metadata(view["private_metadata"])
    assert modals.read_approval(desk.row, {}, terms, Policies.of(desk.row.policy)).grant
    up_to_four = {"grant": "30m", "grant_on": [], "when": "args.replicas <= 4"}
    for other in ({"grant": "session"}, {"grant": "30m", "grant_on": ["version"]}, up_to_four, {}):
        policy = make_policy(**other)
        after = put_under(desk.row, GoverningPolicy(policy, 0), {}, NOON, Policies.of(policy)).row
        with pytest.raises(ConfirmError, match="The card changed"):
            modals.read_approval(after, {}, terms, Policies.of(policy))


# Ledger lines


def line_of(step: Step, row: Confirmation) -> LedgerLine:
    content = step_content(step)
    return append(Head(), "c", step.kind, content, KEYS, at=step.at, salt="s", confirmation=row.id, tool="deploy")


def view_of(step: Step, row: Confirmation) -> ShownLine:
    view = shown_line(line_of(step, row), About(row, shown_of(row)))
    assert view is not None
    return view


def test_the_line_has_the_answer_as_it_was_given() -> None:
    asked = make_asked("request_time_off", {"days": 3}, wants_payload=True, payload={"approved_days": 0})
    desk = Desk(make_policy(quorum=2), asked)
    desk.fill_in(ANNA, {"approved_days": 2})
    desk.fill_in(BEN, {"approved_days": 1})
    desk.approve(ANNA)
    filled, changed = [view_of(step, desk.row) for step in desk.steps if step.kind is LineKind.EDITED]
    assert (filled.answer, changed.answer) == ((Argument("approved_days", 2),), (Argument("approved_days", 1),))
    assert filled.call == (Argument("days", 3),)


def test_what_the_policy_hides_now_is_hidden_in_the_lines_from_before() -> None:
    """The ledger keeps a line as it was written. In Slack it is shown as the call is now."""
    desk = Desk(make_policy(quorum=2, approve_note="optional"), make_asked(arguments={"token": "old-token", "n": 1}))
    desk.edit(ANNA, token="new-token")
    (edited,) = [step for step in desk.steps if step.kind is LineKind.EDITED]
    noted = replace(edited, reason=own_words("since old-token is known"))
    desk.reapply(make_policy(quorum=2, redact=["token"]))
    shown = view_of(noted, desk.row)
    assert shown.changes == (FieldDiff("token", MASK, MASK),)
    assert shown.reason == f"since {MASK} is known"


def test_what_was_rejected_is_not_told_as_what_was_approved() -> None:
    for field, told in (
        ("approved_days", "2 of 3 days"),
        ("rejected_days", "rejected days 2"),
        ("not_days", "not days 2"),
    ):
        asked = make_asked("request_time_off", {"days": 3}, wants_payload=True, payload={field: 0})
        desk = Desk(make_policy(), asked)
        desk.fill_in(ANNA, {field: 2})
        (ended,) = thread_lines(
            [line_of(desk.steps[-1], desk.row)], {desk.row.id: About(desk.row, view(desk))}, "1.1", ()
        )
        assert told in inert.shown({"blocks": [*thread_messages("s", [ended])[0].blocks]})
