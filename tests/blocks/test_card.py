"""The card: what each state says, which buttons it has, and that nobody is asked to approve blind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import JsonValue

from blocks.card import card
from blocks.content import CARD, content
from blocks.ids import Action, Ref
from blocks.kit import JsonObject
from blocks.values import json_text, shown
from blocks.view import (
    ABSENT,
    AnsweredOutside,
    Argument,
    CardView,
    Email,
    Face,
    FieldDiff,
    Paused,
    Unreachable,
)
from tests.blocks import inert, limits, samples, strategies

thorough = settings(max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.too_slow])


def drawn(view: CardView) -> JsonObject:
    """The card's payload, after Slack had a look at it."""
    payload = card(view).payload()
    limits.check(payload, "message")
    return payload


def said(view: CardView) -> str:
    return inert.shown(drawn(view))


def buttons(view: CardView) -> dict[str, str]:
    """Label to action id."""
    labels: dict[str, str] = {}
    for element in limits.elements(drawn(view)):
        text = element["text"]
        assert isinstance(text, dict)
        labels[str(text["text"])] = str(element["action_id"])
    return labels


# -- whatever goes in


@thorough
@given(strategies.cards)
def test_no_card_is_over_a_limit_or_does_anything_by_itself(view: CardView) -> None:
    inert.check(drawn(view), strategies.OURS)


@thorough
@given(strategies.cards)
def test_what_a_card_does_not_show_in_full_opens_before_it_is_approved(view: CardView) -> None:
    view = replace(view, face=Face.WAITING, wants_payload=False, payload=(), answered=False, grant_offer=None)
    text, whole = said(view), not content(view, CARD).blind
    if whole:
        assert buttons(view)["Approve"] == Action.APPROVE
        for argument in view.arguments:
            if not argument.masked:
                assert shown(argument.value).text in text
    else:
        assert buttons(view)["Approve"] == Action.APPROVE_OPEN
        assert "See everything" in buttons(view)


def test_megabytes_are_drawn_at_once() -> None:
    deep: JsonValue = "x"
    for _ in range(50_000):
        deep = [deep]
    monsters = [Argument("text", "\u202e<&é👍🏽" * 200_000), Argument("deep", deep), Argument("k" * 10**6, [1] * 10**6)]
    view = replace(samples.WAITING, arguments=tuple(monsters), tool="t" * 10**6, hint="<" * 10**6, agent="a" * 10**6)
    inert.check(drawn(view), {samples.DANA, samples.LEAD, "S0ONCALL"})


# -- when something counts as cut


def cut(*arguments: Argument, hint: str | None = None, tool: str = "deploy", diff: tuple[FieldDiff, ...] = ()) -> bool:
    view = replace(samples.WAITING, arguments=arguments, hint=hint, tool=tool, diff=diff)
    opens = buttons(view)["Approve"] == Action.APPROVE_OPEN
    assert opens == ("See everything" in buttons(view))
    return opens


@pytest.mark.parametrize(
    ("whole", "too_much"),
    [
        ("x" * 600, "x" * 601),
        ("👍" * 300, "👍" * 301),
        ("\n".join("abcdefghij"), "\n".join("abcdefghijk")),
        ("\u202e" * 100, "\u202e" * 101),  # six characters each, when they can be seen
    ],
)
def test_a_value_of_600_units_and_10_lines_is_shown_and_one_more_is_cut(whole: str, too_much: str) -> None:
    assert not cut(Argument("a", whole))
    assert cut(Argument("a", too_much))


def test_a_name_of_60_a_hint_of_400_and_a_tool_of_100_are_shown() -> None:
    assert not cut(Argument("n" * 60, 1))
    assert cut(Argument("n" * 61, 1))
    assert not cut(hint="h" * 400)
    assert cut(hint="h" * 401)
    assert not cut(tool="t" * 100)
    assert not cut(tool="t" * 101)  # it leaves the title, and stands below it in full
    assert "t" * 101 in said(replace(samples.WAITING, tool="t" * 101))
    assert cut(tool="t" * 401)


def test_twenty_arguments_are_shown_and_two_thousand_units_of_them() -> None:
    assert not cut(*(Argument(f"a{n}", n) for n in range(20)))
    assert cut(*(Argument(f"a{n}", n) for n in range(21)))
    assert not cut(*(Argument(f"a{n}", "x" * 600) for n in range(3)))
    assert cut(*(Argument(f"a{n}", "x" * 600) for n in range(4)))


def test_a_masked_value_takes_no_room_however_long_it_is() -> None:
    assert not cut(Argument("token", "x" * 10_000, masked=True))


def test_what_an_argument_was_before_an_edit_may_be_cut_and_approved_all_the_same() -> None:
    view = replace(samples.WAITING, arguments=(Argument("a", "short"),), diff=(FieldDiff("a", "x" * 5000, "short"),))
    assert buttons(view)["Approve"] == Action.APPROVE
    assert "See everything" in buttons(view)


def test_a_card_says_that_something_is_missing() -> None:
    assert "Approve shows the rest first" in said(samples.LONG)
    assert "Not everything fits here" in said(replace(samples.DONE, result="x" * 5000))
    more = tuple(Argument(f"a{n}", n) for n in range(25))
    assert "… and 5 more arguments" in said(replace(samples.WAITING, arguments=more))


# -- the faces


def test_a_waiting_card_says_what_who_and_until_when() -> None:
    text = said(samples.ONE_VOTE)
    assert "Approve deploy?" in text
    assert "oncall asks for U0DANA" in text
    assert "Ship the checkout fix before the evening peak?" in text
    assert "version 2.14.0" in text
    assert "1 of 2 approvals: U0OPS" in text
    assert "S0ONCALL or U0LEAD may decide" in text
    assert "until 2026-11-21 13:00 UTC" in text
    assert list(buttons(samples.ONE_VOTE)) == ["Approve", "Deny", "Edit…", "Withdraw"]


def test_a_deadline_is_told_in_the_readers_time_zone() -> None:
    payload = drawn(samples.WAITING)
    deadline = samples.NOON + 3600
    assert f"<!date^{deadline}^{{date_short_pretty}} at {{time}}|2026-11-21 13:00 UTC>" in str(payload["text"])
    assert f"'timestamp': {deadline}" in str(payload["blocks"])


@pytest.mark.parametrize(
    ("view", "sentences", "labels"),
    [
        (samples.APPROVED, ["deploy is approved", "Approved by U0OPS and U0LEAD", "lapses if it has not begun by"], []),
        (samples.RUNNING, ["deploy is running", "Started 2026-11-21 12:02 UTC"], []),
        (samples.DONE, ["deploy is done", "It ran in 42 s.", '"status": "deployed"'], []),
        (samples.FAILED, ["deploy failed", "It ran in 42 s and ended in an error", "(2 of 6 pods)"], []),
        (samples.DENIED, ["deploy is denied", "Denied by U0LEAD. It did not run.", "Not during the sale."], []),
        (samples.REFUSED, ["deploy is refused", "It did not run.", "takes no argument replicas"], []),
        (samples.EXPIRED, ["deploy has expired", "It had 1 of 2 approvals by 2026-11-21 13:00 UTC"], []),
        (samples.LAPSED, ["deploy has lapsed", "approved by U0OPS and U0LEAD, but could not begin by"], []),
        (samples.WITHDRAWN, ["deploy is withdrawn", "Withdrawn by U0DANA. It did not run."], []),
        (samples.ELSEWHERE, ["answered elsewhere", "Somebody approved it outside this app", "🚨"], []),
        (
            samples.UNKNOWN,
            ["Did deploy happen?", "nobody knows how it ended", "Is version 2.14.0 live", "U0LEAD may decide"],
            ["It happened", "It did not", "Run again"],
        ),
        (samples.UNKNOWN_VOTED, ["1 of 2 to run it again: U0OPS"], ["It happened", "It did not", "Run again"]),
        (samples.SETTLED, ["settled by hand", "U0LEAD said that it happened."], []),
        (samples.NOBODY_KNOWS, ["Nobody knows about deploy", "The agent has been told"], []),
        (samples.PAUSED, ["deploy is paused", "Runs are paused"], []),
        (samples.UNREACHABLE, ["can't be reached. Trying again until 2026-11-21 12:15 UTC"], []),
        (samples.PARKED, ["An operator has to look"], []),
        (samples.AGAIN, ["Run deploy again?", "Attempt 2"], ["Approve", "Deny", "Edit…", "Withdraw"]),
        (samples.ESCALATED, ["may decide, escalated to S0LEADS"], ["Approve", "Deny", "Edit…", "Withdraw"]),
        (samples.NOBODY, ["Nobody may decide: the policy names no one"], ["Approve", "Deny", "Edit…", "Withdraw"]),
        (samples.GRANTED, ["Grant g41 by U0LEAD: calls of deploy with service checkout"], ["Revoke grant"]),
        (samples.NO_ARGUMENTS, ["oncall asks\n", "No arguments"], ["Approve", "Deny", "Edit…", "Withdraw"]),
    ],
    ids=lambda value: value.face.value if isinstance(value, CardView) else None,
)
def test_every_state_has_its_face_and_only_the_buttons_that_work(
    view: CardView, sentences: list[str], labels: list[str]
) -> None:
    text = said(view)
    for sentence in sentences:
        assert sentence in text
    assert list(buttons(view)) == labels


@pytest.mark.parametrize("view", samples.CARDS.values(), ids=samples.CARDS)
def test_the_text_beside_the_blocks_says_what_they_say(view: CardView) -> None:
    """Screen readers and notifications have nothing else."""
    text = str(drawn(view)["text"])
    assert text.split("\n")[0].startswith(said(view).split("\n")[0][:3])
    for argument in view.arguments:
        value = "🔒 hidden" if argument.masked else json_text(argument.value)[1:20].split("\\")[0]
        assert value.split('"')[0].replace("<", "&lt;").replace(">", "&gt;") in text.replace("ˋ", "`")
    for person in view.decided_by:
        assert f"<@{person}>" in text
    if view.face is Face.WAITING:
        assert f"of {view.quorum} approval" in text
        assert "may decide" in text
    if view.reason:
        assert view.reason[:20] in text


def test_a_text_that_would_be_too_long_is_shortened_in_the_middle() -> None:
    arguments = tuple(Argument(f"argument_{n}", "& <b>" * 25) for n in range(12))
    text = str(drawn(replace(samples.ONE_VOTE, arguments=arguments))["text"])
    assert text.startswith("⏳ Approve deploy?")
    assert "1 of 2 approvals" in text.split("\n")[-1]
    assert "argument_11" in text


def test_an_edit_is_a_diff_in_the_arguments_place() -> None:
    text = said(samples.REIMBURSE)
    assert "amount 1500 → 1200" in text
    assert text.count("amount") == 1
    assert "Edited by U0LEAD" in text or "Edited by <@U0LEAD>" in text
    assert "amount 1500 → 1200" in str(drawn(samples.REIMBURSE)["text"])


def test_a_change_deep_inside_is_told_below() -> None:
    view = replace(
        samples.WAITING,
        arguments=(Argument("options", {"retry": {"times": 3}}),),
        diff=(
            FieldDiff("options.retry.times", 1, 3),
            FieldDiff("note", "x", ABSENT),
            FieldDiff("new\u200b", ABSENT, "a\nb"),
        ),
    )
    text = said(view)
    assert 'options {"retry": {"times": 3}}' in text
    assert "Changed" in text
    assert "options.retry.times 1 → 3" in text
    assert "note x → nothing" in text
    assert "new\\u200b" in text


def test_an_answer_that_was_filled_in_is_part_of_what_is_decided() -> None:
    text = said(samples.ANSWERED)
    assert "With this answer" in text
    assert "approved_days 0 → 8" in text
    assert "With this answer" not in said(samples.TIME_OFF)


def test_hidden_values_are_counted_and_told_from_a_value_that_looks_like_one() -> None:
    text = said(samples.REIMBURSE)
    assert "iban 🔒 hidden" in text
    assert "1 value is hidden by the policy." in text
    assert "2 values are hidden" in said(replace(samples.REIMBURSE, hidden=2))


def test_the_hint_that_every_tool_has_is_not_repeated() -> None:
    for hint in (
        "Approve execution of tool deploy?",
        "Please approve or reject the tool call deploy() by responding with a FunctionResponse with an expected …",
    ):
        assert hint not in said(replace(samples.WAITING, hint=hint))
    assert "Approve execution of tool drop?" in said(replace(samples.WAITING, hint="Approve execution of tool drop?"))


def test_approvers_are_named_as_the_policy_names_them() -> None:
    text = said(samples.REIMBURSE)
    assert "release-manager@example.com (no such account)" in text
    assert "whoever my.rota:on_call names" in text
    many = replace(samples.WAITING.approvers, users=tuple(f"U{n}" for n in range(20)), emails=(Email("x@y.z", "U1"),))
    assert "14 more may decide" in said(replace(samples.WAITING, approvers=many))


def test_a_card_that_stands_elsewhere_links_to_the_conversation() -> None:
    assert "{'text': 'Conversation', 'type': 'link', 'url': " in str(drawn(samples.REIMBURSE))
    assert "Conversation" not in said(replace(samples.REIMBURSE, session_link=None))


def test_notices_stand_on_any_card() -> None:
    view = replace(samples.ONE_VOTE, notices=(Paused(), Unreachable(samples.NOON), AnsweredOutside()))
    text = said(view)
    assert "Runs are paused" in text
    assert "can't be reached" in text
    assert "past this app" in text
    assert "Approve" in buttons(view)  # votes count while runs are paused


# -- buttons


def test_a_click_carries_id_and_revision_and_nothing_else() -> None:
    elements = list(limits.elements(drawn(samples.REIMBURSE)))
    assert {element["value"] for element in elements} == {Ref("r1", 2).encode()} == {"r1.2"}


def test_approve_opens_a_form_where_a_click_is_not_enough() -> None:
    assert buttons(samples.WAITING)["Approve"] == Action.APPROVE
    for view in (samples.LONG, samples.TIME_OFF, samples.OFFERED):
        assert buttons(view)["Approve"] == Action.APPROVE_OPEN
    assert "Edit…" not in buttons(samples.TIME_OFF)  # Approve is the form


def test_run_again_opens_the_whole_where_the_card_does_not_show_it() -> None:
    assert buttons(samples.UNKNOWN)["Run again"] == Action.RUN_AGAIN
    assert buttons(replace(samples.UNKNOWN, arguments=samples.LONG.arguments))["Run again"] == Action.RUN_AGAIN_OPEN


def test_slack_asks_whether_you_are_sure_where_the_policy_wants_it() -> None:
    def sure(view: CardView, label: str) -> bool:
        return any(
            "confirm" in element and element["action_id"] == buttons(view)[label]
            for element in limits.elements(drawn(view))
        )

    assert sure(samples.REIMBURSE, "Approve")
    assert not sure(samples.WAITING, "Approve")
    assert sure(samples.WAITING, "Withdraw")
    assert sure(samples.UNKNOWN, "Run again")


def test_no_withdraw_where_nobody_in_slack_asked() -> None:
    assert "Withdraw" not in buttons(replace(samples.WAITING, withdrawable=False))


def test_a_screen_reader_hears_what_a_button_acts_on() -> None:
    spoken = [element["accessibility_label"] for element in limits.elements(drawn(samples.WAITING))]
    assert spoken[0] == "Approve: deploy"


def test_an_update_has_new_block_ids_and_the_message_knows_who_it_is() -> None:
    def ids(view: CardView) -> set[str]:
        blocks = drawn(view)["blocks"]
        assert isinstance(blocks, list)
        return {str(block["block_id"]) for block in blocks if isinstance(block, dict)}

    assert not ids(samples.WAITING) & ids(samples.ONE_VOTE)
    assert drawn(samples.WAITING)["metadata"] == {
        "event_type": "adk_confirmation_card",
        "event_payload": {"confirmation": "c7Qd2m", "revision": 1, "version": 3},
    }


# -- an attack, read as a person would


def test_nothing_in_a_hostile_call_can_pass_for_ours() -> None:
    payload = drawn(samples.HOSTILE)
    inert.check(payload, {samples.DANA, samples.LEAD, "S0ONCALL"})
    text = said(samples.HOSTILE)
    assert "Approve pay ꞉tada: ‹!channel›?" in text
    assert "to\\nstate approved" in text  # a newline in a name starts no line
    assert '"in\\u202evoice\\u2066 \\u200b\\u00ad' in text
    assert 'text "1500"' in text  # a text that looks like a number says that it is a text
    assert "`&lt;!channel&gt; @here &lt;@U0LEAD&gt; #general https://evil.example`" in str(payload["text"])
    # who may decide is said by us alone
    people = [line for line in str(payload["text"]).split("\n") if "<@U0LEAD>" in line]
    assert people == [str(payload["text"]).split("\n")[-1]]
