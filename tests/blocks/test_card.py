"""The card: what it says in each state, which buttons it has, and that nobody approves what they could not see."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import JsonValue

from blocks.card import card
from blocks.content import CARD, content
from blocks.ids import Action, Ref, parse_more
from blocks.kit import JsonObject
from blocks.pointer import note
from blocks.rich import Prose, Say, When, markup, say
from blocks.values import json_text, spell_value
from blocks.view import (
    ABSENT,
    AgentUnreachable,
    AnsweredOutside,
    Approvers,
    Argument,
    CardView,
    Email,
    Face,
    FieldDiff,
    Paused,
)
from tests.blocks import inert, limits, samples, strategies

MORE = ["See everything", "History"]
SETTLE = ["It took effect", "It did not", "Run again", *MORE]
DECIDE = ["Approve", "Deny…", "Edit…", "See everything", "Withdraw…", "History"]
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
        for text in limits.labels(element):
            labels[text] = str(element["action_id"])
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
            if not argument.masked and isinstance(argument.value, str) and argument.value.isascii():
                assert argument.value.strip() in text or spell_value(argument.value).text in text
    else:
        assert buttons(view)["Approve…"] == Action.APPROVE_OPEN


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
    return "Approve…" in buttons(view)


@pytest.mark.parametrize(
    ("whole", "too_much"),
    [
        ("x" * 130, "x" * 131),
        ("👍" * 65, "👍" * 66),
        ("\n".join("abc"), "\n".join("abcd")),
        ("\u202e" * 21, "\u202e" * 22),  # six characters each, when they can be seen
        (["ada@example.com", "bob@example.com"], [f"person{n}@example.com" for n in range(60)]),
        ([{"item": "Train", "amount": 120}] * 3, [{"item": "Train", "amount": 120}] * 4),
    ],
    ids=range(6),
)
def test_a_value_of_three_lines_is_shown_and_one_more_is_cut(whole: JsonValue, too_much: JsonValue) -> None:
    assert not cut(Argument("a", whole))
    assert cut(Argument("a", too_much))


def test_a_name_of_60_a_hint_of_130_and_a_tool_of_100_are_shown() -> None:
    assert not cut(Argument("n" * 60, 1))
    assert cut(Argument("n" * 61, 1))
    assert not cut(hint="h" * 130)
    assert cut(hint="h" * 131)
    assert not cut(tool="t" * 100)
    assert not cut(tool="t" * 101)  # it leaves the title, and stands below it in full
    assert "t" * 101 in said(replace(samples.WAITING, tool="t" * 101))
    assert cut(tool="t" * 401)


def test_twelve_arguments_are_shown_and_nine_hundred_units_of_them() -> None:
    assert not cut(*(Argument(f"a{n}", n) for n in range(12)))
    assert cut(*(Argument(f"a{n}", n) for n in range(13)))
    assert not cut(*(Argument(f"a{n}", "x" * 130) for n in range(6)))
    assert cut(*(Argument(f"a{n}", "x" * 130) for n in range(8)))


def test_a_masked_value_takes_no_room_however_long_it_is() -> None:
    assert not cut(Argument("token", "x" * 10_000, masked=True))


def test_what_an_argument_was_before_an_edit_may_be_cut_and_approved_all_the_same() -> None:
    view = replace(samples.WAITING, arguments=(Argument("a", "short"),), diff=(FieldDiff("a", "x" * 5000, "short"),))
    assert buttons(view)["Approve"] == Action.APPROVE
    assert "See everything" in buttons(view)


def test_a_card_says_that_something_is_missing() -> None:
    assert "Approve… shows all of it first" in said(samples.LONG)
    assert "Shortened here" in said(replace(samples.DONE, result="x" * 5000))
    more = tuple(Argument(f"a{n}", n) for n in range(25))
    assert "… and 13 more arguments" in said(replace(samples.WAITING, arguments=more))


# -- the faces


def test_a_waiting_card_says_what_who_and_until_when() -> None:
    text = said(samples.ONE_VOTE)
    assert text.startswith("Deploy checkout 2.14.0 to prod?\n")
    assert "Asked by U0DANA through oncall · deploy" in text
    assert "Ship the checkout fix before the evening peak?" in text
    assert "version 2.14.0" in text
    assert "Approved by U0OPS · Needs 1 more approval from S0ONCALL or U0LEAD" in text
    assert "expires 2026-11-21 13:00 UTC" in text
    assert list(buttons(samples.ONE_VOTE)) == DECIDE
    named = replace(samples.ONE_VOTE, approvers=Approvers(users=(samples.OPS, samples.LEAD)))
    assert "Needs 1 more approval from U0LEAD ·" in said(named), "who has approved is not asked again"


def test_a_deadline_is_in_the_readers_time_zone() -> None:
    payload = drawn(samples.WAITING)
    deadline = samples.NOON + 3600
    assert f"<!date^{deadline}^expires {{date_short_pretty}} at {{time}}|expires 2026-11-21 13:00 UTC>" in str(
        payload["text"]
    )
    assert f"'timestamp': {deadline}" in str(payload["blocks"])


@pytest.mark.parametrize(
    ("view", "sentences", "labels"),
    [
        (samples.APPROVED, ["Approved: Deploy checkout", "Approved by U0OPS and U0LEAD", "It must start by"], MORE),
        (samples.RUNNING, ["Running: Deploy checkout", "Started 2026-11-21 12:02 UTC"], MORE),
        (samples.DONE, ["Done: Deploy checkout", "Ran in 42 s.", "status deployed"], MORE),
        (samples.FAILED, ["Failed: Deploy checkout", "Failed after 42 s.", "(2 of 6 pods)"], MORE),
        (samples.DENIED, ["Denied: Deploy", "Denied by U0LEAD. It did not run.", "Not during the sale."], MORE),
        (samples.REFUSED, ["Did not run: Deploy", "It did not run.", "takes no argument replicas"], MORE),
        (samples.EXPIRED, ["Expired: Deploy", "Expired 2026-11-21 13:00 UTC with 1 of 2 approvals."], MORE),
        (
            samples.LAPSED,
            ["Not started in time: Deploy", "Approved by U0OPS and U0LEAD, but it did not start by"],
            MORE,
        ),
        (samples.WITHDRAWN, ["Withdrawn: Deploy", "Withdrawn by U0DANA. It did not run."], MORE),
        (samples.ELSEWHERE, ["Answered outside this app", "Somebody approved it outside this app", "🚨"], MORE),
        (
            samples.UNKNOWN,
            [
                "Did this take effect? Deploy",
                "nobody knows how it ended",
                "Is version 2.14.0 live",
                "U0LEAD can answer",
            ],
            SETTLE,
        ),
        (samples.UNKNOWN_VOTED, ["1 of 2 to run it again: U0OPS"], SETTLE),
        (samples.SETTLED, ["Took effect: Deploy", "U0LEAD said that it took effect."], MORE),
        (samples.NOBODY_KNOWS, ["Outcome unknown: Deploy", "The agent knows that"], MORE),
        (samples.ENDS_TURN, ["this ends the agent's turn: later steps do not run"], DECIDE),
        (samples.PAUSED, ["Paused: Deploy", "Runs are paused"], MORE),
        (samples.UNREACHABLE, ["can't be reached. Trying again until 2026-11-21 12:15 UTC"], MORE),
        (samples.PARKED, ["Tell whoever runs this app"], MORE),
        (samples.AGAIN, ["Run again? Deploy", "Attempt 2"], DECIDE),
        (samples.ESCALATED, ["escalated to S0LEADS"], DECIDE),
        (samples.NOBODY, ["Nobody can approve this: the policy names no one"], DECIDE),
        (samples.GRANTED, ["Calls of deploy with service checkout run without asking"], ["Revoke grant", *MORE]),
        (samples.NO_ARGUMENTS, ["Asked by oncall ·", "No arguments"], DECIDE),
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
        if argument.masked or isinstance(argument.value, str):
            value = "🔒 hidden" if argument.masked else json_text(argument.value)[1:20].split("\\")[0]
            assert value.split('"')[0].replace("<", "&lt;").replace(">", "&gt;") in text.replace("ˋ", "`")
    for person in view.decided_by if view.face is not Face.UNKNOWN else ():  # there, "See everything" says it
        assert f"<@{person}>" in text
    if view.face is Face.WAITING:
        assert "Needs " in text or "Nobody can approve" in text
    if view.reason:
        assert view.reason[:20] in text


def test_a_text_that_would_be_too_long_is_shortened_in_the_middle() -> None:
    arguments = tuple(Argument(f"argument_{n}", "& <b>" * 25) for n in range(12))
    text = str(drawn(replace(samples.ONE_VOTE, arguments=arguments))["text"])
    assert text.startswith("Deploy")
    assert "Needs 1 more approval" in text.split("\n")[-2]
    assert text.split("\n")[-1].startswith("Shortened here.")
    assert "argument 5" in text
    assert "… and 6 more arguments" in text


def test_an_edit_is_a_diff_in_the_arguments_place() -> None:
    text = said(samples.REIMBURSE)
    assert "amount 1,500 → 1,200" in text
    assert text.count("amount 1,500") == 1
    assert "Edited by U0LEAD" in text or "Edited by <@U0LEAD>" in text
    assert "amount 1,500 → 1,200" in str(drawn(samples.REIMBURSE)["text"])


def test_a_change_deep_inside_is_shown_below() -> None:
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
    assert "approved days 8" in text
    assert "Edited" not in text
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
    assert "Approve this deployment?" not in said(replace(samples.WAITING, hint="Approve this deployment?"))
    assert "Approve this only at night." in said(replace(samples.WAITING, hint="Approve this only at night."))


def test_approvers_are_named_as_the_policy_names_them() -> None:
    text = said(samples.REIMBURSE)
    assert "release-manager@example.com (no such account)" in text
    assert "whoever my.rota:on_call names" in text
    many = replace(samples.WAITING.approvers, users=tuple(f"U{n}" for n in range(20)), emails=(Email("x@y.z", "U1"),))
    assert "14 more · expires" in said(replace(samples.WAITING, approvers=many))


def test_a_card_that_is_elsewhere_links_to_the_conversation() -> None:
    assert "{'text': 'Conversation', 'type': 'link', 'url': " in str(drawn(samples.REIMBURSE))
    assert "Conversation" not in said(replace(samples.REIMBURSE, session_link=None))


def test_notices_are_on_any_card() -> None:
    view = replace(samples.ONE_VOTE, notices=(Paused(), AgentUnreachable(samples.NOON), AnsweredOutside()))
    text = said(view)
    assert "Runs are paused" in text
    assert "can't be reached" in text
    assert "outside this app" in text
    assert "Approve" in buttons(view)  # votes count while runs are paused


# -- buttons


def test_a_click_carries_id_and_revision_and_nothing_else() -> None:
    elements = list(limits.elements(drawn(samples.REIMBURSE)))
    values = {str(element["value"]) for element in elements if "value" in element}
    assert values == {Ref("r1", 2).encode()} == {"r1.2"}
    options = [option for element in elements for option in limits.options(element)]
    assert [parse_more(value) for value in options] == [
        (action, Ref("r1", 2)) for action in (Action.SEE, Action.WITHDRAW_OPEN, Action.HISTORY)
    ]


def test_approve_opens_a_form_where_a_click_is_not_enough() -> None:
    assert buttons(samples.WAITING)["Approve"] == Action.APPROVE
    for view in (samples.LONG, samples.TIME_OFF, samples.OFFERED):
        assert buttons(view)["Approve…"] == Action.APPROVE_OPEN
    assert "Edit…" not in buttons(samples.TIME_OFF)  # Approve is the form


def test_run_again_opens_the_whole_where_the_card_does_not_show_it() -> None:
    assert buttons(samples.UNKNOWN)["Run again"] == Action.RUN_AGAIN
    assert buttons(replace(samples.UNKNOWN, arguments=samples.LONG.arguments))["Run again…"] == Action.RUN_AGAIN_OPEN


def test_slack_asks_whether_you_are_sure_where_the_policy_wants_it() -> None:
    def sure(view: CardView, label: str) -> bool:
        return any(
            "confirm" in element and element["action_id"] == buttons(view)[label]
            for element in limits.elements(drawn(view))
        )

    assert sure(samples.REIMBURSE, "Approve")
    assert not sure(samples.WAITING, "Approve")
    assert sure(samples.UNKNOWN, "Run again")


def test_no_withdraw_where_nobody_in_slack_asked() -> None:
    assert "Withdraw…" not in buttons(replace(samples.WAITING, withdrawable=False))


def test_a_screen_reader_hears_what_a_button_acts_on() -> None:
    spoken = [
        element["accessibility_label"] for element in limits.elements(drawn(samples.WAITING)) if "text" in element
    ]
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
    assert "pay ꞉tada: ‹!channel›" in text
    assert "to\\nstate approved" in text  # a newline in a name starts no line
    assert '"in\\u202evoice\\u2066 \\u200b\\u00ad' in text
    assert 'text "1500"' in text  # a text that looks like a number says that it is a text
    assert "`&lt;!channel&gt; @here &lt;@U0LEAD&gt; #general https://evil.example`" in str(payload["text"])
    # who may decide is said by us alone
    people = [line for line in str(payload["text"]).split("\n") if "<@U0LEAD>" in line]
    assert len(people) == 1
    assert people[0].startswith("Needs 2 approvals from")


def test_a_date_has_a_capital_only_where_it_begins_a_line() -> None:
    """Slack writes "Today" where it begins the format, and "today" elsewhere."""
    within, first, value = (say("Ends {when}.", when=When(0)), (When(0), Say(" it ended")), (Prose("at "), When(0)))
    assert markup(within) == "<!date^0^Ends {date_short_pretty} at {time}|Ends 1970-01-01 00:00 UTC>."
    assert markup(first) == "<!date^0^{date_short_pretty} at {time}|1970-01-01 00:00 UTC> it ended"
    assert markup(value).startswith("at<!date^0^{date"), "only our own words are in a format"
    assert markup((Say("Ends "), When(-1))) == "Ends second -1"


def test_a_direct_message_about_a_question_says_who_asks() -> None:
    view = replace(samples.CARDS["waiting"], question=True, agent="on-call", card_link="https://acme.slack.com/p1")
    message = note(view).payload()
    limits.check(message, "message")
    assert inert.shown(message).startswith("💬 on-call has a question for you · ")
    assert inert.shown(message).rstrip().endswith("Open the card")
