"""The card: what it says in each state, which buttons it has, and that nobody approves what they could not see."""

from __future__ import annotations

from dataclasses import replace
from difflib import unified_diff

import pytest
from hypothesis import Phase, given, settings
from pydantic import JsonValue

from adk_confirm.blocks.call_details import CARD, content
from adk_confirm.blocks.card import card, note
from adk_confirm.blocks.click_ids import Action
from adk_confirm.blocks.exact_values import spell_value
from adk_confirm.blocks.kit import JsonObject
from adk_confirm.blocks.rich_text import Prose, Say, When, markup, say
from adk_confirm.blocks.shown import ABSENT, Argument, FieldDiff, Paused, Shown
from adk_confirm.bot.confirmation.confirmation import State
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.sandbox.blockkit.elements import element_labels
from tests.blocks import inert, limits, samples, strategies

thorough = settings(
    max_examples=settings().max_examples // 4,
    phases=set(Phase) - {Phase.shrink},  # a card takes minutes to make smaller, and the test's time ends before
)


def drawn(view: Shown) -> JsonObject:
    """The card's payload, after Slack had a look at it."""
    payload = card(view).payload()
    limits.check(payload, "message")
    return payload


def said(view: Shown) -> str:
    return inert.shown(drawn(view))


def buttons(view: Shown) -> dict[str, str]:
    """Label to action id."""
    labels: dict[str, str] = {}
    for element in limits.elements(drawn(view)):
        for text in element_labels(element):
            labels[text] = str(element["action_id"])
    return labels


# -- whatever goes in


@thorough
@given(strategies.cards)
def test_no_card_is_over_a_limit_or_does_anything_by_itself(view: Shown) -> None:
    inert.check(drawn(view), strategies.OURS)


@thorough
@given(strategies.cards)
def test_what_a_card_does_not_show_in_full_opens_before_it_is_approved(view: Shown) -> None:
    view = replace(view, stage=State.WAITING, wants_payload=False, payload=(), answered=False, grant_offer=None)
    assert not {"Approve", "Approve…", "Review…", "Edit…"} & buttons(replace(view, too_few_may=True)).keys()
    view = replace(view, too_few_may=False)
    text, whole = said(view), not content(view, CARD).blind
    if whole:
        assert buttons(view)["Approve"] == Action.APPROVE
        for argument in view.arguments:
            if not argument.masked and isinstance(argument.value, str) and argument.value.isascii():
                assert argument.value.strip() in text or spell_value(argument.value).text in text
    else:
        assert buttons(view)["Review…"] == Action.APPROVE_OPEN


def test_megabytes_are_drawn_at_once() -> None:
    deep: JsonValue = "x"
    for _ in range(50_000):
        deep = [deep]
    monsters = [Argument("text", "\u202e<&é👍🏽" * 200_000), Argument("deep", deep), Argument("k" * 10**6, [1] * 10**6)]
    view = replace(samples.WAITING, arguments=tuple(monsters), tool="t" * 10**6, hint="<" * 10**6, agent="a" * 10**6)
    inert.check(drawn(view), {samples.DANA, samples.LEAD, "S0ONCALL"})


# -- when something counts as cut


def cut(*arguments: Argument, hint: str = "", tool: str = "deploy", diff: tuple[FieldDiff, ...] = ()) -> bool:
    view = replace(samples.WAITING, arguments=arguments, hint=hint, tool=tool, diff=diff)
    return "Review…" in buttons(view)


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
    assert "All details" in buttons(view)


def test_a_card_says_that_something_is_missing() -> None:
    assert "Review… shows all of it" in said(samples.LONG)
    assert "Shortened here" in said(replace(samples.DONE, result="x" * 5000))
    more = tuple(Argument(f"a{n}", n) for n in range(25))
    assert "… and 13 more arguments" in said(replace(samples.WAITING, arguments=more))


# -- the faces


def test_who_has_approved_is_not_asked_again() -> None:
    named = replace(samples.ONE_VOTE, approvers=samples.approvers("user:U0OPS", "user:U0LEAD"))
    assert "*Needs 1 more approval* from <@U0LEAD> ·" in said(named)


def test_a_text_that_would_be_too_long_is_shortened_in_the_middle() -> None:
    arguments = tuple(Argument(f"argument_{n}", "& <b>" * 25) for n in range(12))
    text = str(drawn(replace(samples.ONE_VOTE, arguments=arguments))["text"])
    assert text.startswith("Deploy")
    assert "Needs 1 more approval" in text.split("\n")[1]
    assert text.split("\n")[-1].startswith("Shortened here.")
    assert "argument 5" in text
    assert "… and 5 more arguments" in text


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
    assert "release-manager@example.com" not in text, "an address of nobody helps nobody"
    assert "or the on call list" in text
    many = samples.approvers("group:S0ONCALL", *(f"user:U{n}" for n in range(20)), "email:x@y.z")
    assert "13 more · <!date^1795266000^expires" in said(replace(samples.WAITING, approvers=many))


# -- buttons


def test_run_again_opens_the_whole_where_the_card_does_not_show_it() -> None:
    assert buttons(samples.UNKNOWN)["Run again…"] == Action.RUN_AGAIN
    assert buttons(replace(samples.UNKNOWN, arguments=samples.LONG.arguments))["Run again…"] == Action.RUN_AGAIN_OPEN


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


def test_until_stands_before_the_time_and_the_day_behind_it() -> None:
    """`until 20:43 today`, not `until today at 20:43`."""
    within, lead = say("Trying again until {when}.", when=When(0)), When(0, lead="⏰ until ")
    assert markup(within) == "Trying again <!date^0^until {time} {date_short_pretty}|until 1970-01-01 00:00 UTC>."
    assert markup([lead]).startswith("<!date^0^⏰ until {time} {date_short_pretty}|")


def test_why_runs_are_paused_stands_in_quotation_marks() -> None:
    assert "Paused by <@U0LEAD>: “freeze until the incident is over.” Starts once" in said(
        samples.CARDS["approved_paused_by"]
    )
    nothing = said(replace(samples.APPROVED, paused=Paused(samples.LEAD)))
    assert "Paused by <@U0LEAD>. Starts once runs are resumed." in nothing
    asked = said(replace(samples.WAITING, paused=Paused(samples.LEAD, "who deploys?")))
    assert ": “who deploys?” Approved calls start once they are resumed." in asked


def test_a_direct_message_about_a_question_says_who_asks() -> None:
    view = replace(samples.CARDS["waiting"], question=True, agent="on-call", card_link="https://acme.slack.com/p1")
    message = note(view).payload()
    limits.check(message, "message")
    assert inert.shown(message).startswith("💬 on-call asks: Ship the checkout fix before the evening peak? · ")
    assert "https://acme.slack.com/p1" in str(message["blocks"])


def dialogs(part: object) -> list[str]:
    """The texts of all the questions before a click."""
    if isinstance(part, list):
        return [text for one in part for text in dialogs(one)]
    if not isinstance(part, dict):
        return []
    own = [part["confirm"]["text"]["text"]] if "type" in part and "confirm" in part else []
    return [*own, *(text for one in part.values() for text in dialogs(one))]


def test_a_question_before_a_click_names_the_call_and_says_what_follows() -> None:
    for view in (samples.WAITING, samples.UNKNOWN, samples.ONE_VOTE):
        view = replace(view, confirm_dialog=True, grant_offer=None, title="Refund {service}")
        shown = dialogs(card(view).payload())
        assert shown
        assert all(text.startswith("Refund checkout. ") for text in shown)
    (last,) = dialogs(card(replace(samples.ONE_VOTE, confirm_dialog=True, grant_offer=None)).payload())
    assert last.endswith("It runs with your approval.")
    many = replace(samples.ONE_VOTE, confirm_dialog=True, grant_offer=None, quorum=3)
    assert "It runs when enough people approve" in dialogs(card(many).payload())[0]
    (revokes,) = dialogs(card(replace(samples.DONE, grant=samples.GRANT)).payload())
    assert revokes.startswith("deploy with service checkout, replicas up to 8 each, any version or env. ")


def test_who_spoke_is_not_called_to_approve_and_may_still_answer_how_it_ended() -> None:
    assert f" or <@{samples.LEAD}>" in said(samples.ONE_VOTE)
    assert f" or <@{samples.LEAD}>" not in said(replace(samples.ONE_VOTE, spoke=(samples.LEAD,)))
    assert said(replace(samples.UNKNOWN, spoke=(samples.LEAD,))) == said(samples.UNKNOWN)


ALARM = "🚨 Somebody answered the agent directly, outside this app. Find out who."


@pytest.mark.parametrize(("outside", "verb"), [(True, "Approved"), (False, "Denied"), (None, "Answered")])
def test_a_card_answered_elsewhere_says_so_once_and_then_what_to_do(outside: bool | None, verb: str) -> None:
    said = inert.shown(card(replace(samples.ELSEWHERE, outside=outside)).payload())
    assert f"🚨 {verb} outside this app: Deploy checkout 2.14.0 to prod" in said
    assert "No vote here counted." in said
    assert said.count("outside this app") == said.count("answered the agent") == said.count("🚨") == 1


@pytest.mark.parametrize("view", [samples.DONE, samples.DENIED, samples.REFUSED], ids=["done", "denied", "refused"])
def test_where_the_headline_says_what_became_of_it_the_alarm_says_both(view: Shown) -> None:
    said = inert.shown(card(replace(view, outside=True, answered_outside=True)).payload())
    assert ALARM in said
    assert said.count("outside this app") == 1


@pytest.mark.parametrize(
    ("before", "after", "size"),
    [
        ("-- keep the audit\nid int\n", "id int\n", "t.sql · +0 −1"),
        ("id int\n", "id int\n++ a list\n++ of two\n", "t.sql · +2 −0"),
        ("id int\n", "id int\n--- a/b\n+++ a/b\n@@ -1 +1 @@\n", "t.sql · +3 −0"),
        ("id int\nb\n", "id int\x0b-b\n", "t.sql · +1 −2"),
    ],
)
def test_no_line_that_a_model_writes_is_counted_as_another(before: str, after: str, size: str) -> None:
    """Approvers read the size of a diff first. A comment of SQL is `--- …` in it, like the head of a file."""
    made = unified_diff(before.split("\n"), after.split("\n"), "a/t.sql", "b/t.sql", lineterm="")
    text = "\n".join(made)
    assert f"Plan · {size}" in said(replace(samples.WAITING, preview=Preview(text)))
    assert "2 files, " in said(replace(samples.WAITING, preview=Preview(f"{text}\n{text}")))


def test_what_did_not_start_in_time_did_not_run_and_what_waits_for_its_agent_will_not_after_that() -> None:
    assert "Not run: it had to start <!date^" in said(samples.LAPSED)
    assert "Not run: it did not start in time." in said(replace(samples.LAPSED, start_by=None))
    assert "12:15 UTC>, else it won't run." in said(samples.UNREACHABLE)
    assert "else it won't count." in said(replace(samples.UNREACHABLE, question=True))
