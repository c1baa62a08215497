""" "See everything": the whole call in a view or in a file. Nobody approves what they could not see."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import JsonValue

from blocks.form import approve_form, read_approval
from blocks.full_view import everything, file_name, file_text, needs_file, run_again_form
from blocks.text import visible
from blocks.values import spell_value
from blocks.view import Argument, CardView, FieldDiff
from tests.blocks import inert, limits, samples, strategies
from tests.blocks.slack import OpenForm

thorough = settings(max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.too_slow])
LINK = "https://example.slack.com/files/F1"


@thorough
@given(strategies.cards)
def test_no_view_is_over_a_limit_or_does_anything_by_itself(view: CardView) -> None:
    for payload in (everything(view), run_again_form(view)):
        limits.check(payload, "modal")
        inert.check(payload, strategies.OURS)


@thorough
@given(strategies.cards)
def test_everything_is_everything_or_there_is_a_file(view: CardView) -> None:
    text = inert.shown(everything(view)).replace("\n", "")
    if "This is only the beginning" in text:
        assert needs_file(view)
        return
    for argument in view.arguments:
        if not argument.masked:
            assert spell_value(argument.value).text.replace("\n", "") in text


def test_a_long_script_is_there_to_its_last_line() -> None:
    text = inert.shown(everything(samples.LONG))
    assert samples.SCRIPT in text
    assert "on its way" not in text


def test_long_names_and_old_values_are_there_too() -> None:
    view = replace(
        samples.WAITING,
        tool="t" * 500,
        arguments=(Argument("n" * 500, 1),),
        diff=(FieldDiff("n" * 500, "o" * 3000, 1), FieldDiff("p" * 200, 1, 2)),
    )
    text = inert.shown(everything(view))
    for part in ("t" * 500, "n" * 500, "o" * 3000, "p" * 200):
        assert part in text.replace("\n", "")


def test_a_result_that_the_card_cuts_is_there() -> None:
    done = replace(samples.DONE, result={"log": "x" * 20_000})
    assert "x" * 2000 in inert.shown(everything(done))


def test_what_no_view_can_hold_is_a_file_and_approving_it_asks_for_it_to_be_read() -> None:
    yet = approve_form(samples.HUGE)
    limits.check(yet, "modal")
    assert needs_file(samples.HUGE)
    assert "submit" not in yet
    assert "A file with all of it is on its way" in inert.shown(yet)
    there = replace(samples.HUGE, file_link=LINK)
    payload = approve_form(there)
    limits.check(payload, "modal")
    assert "Read all of it in the file" in inert.shown(payload)
    form = OpenForm(payload)
    unread = read_approval(there, None, form.state)
    assert list(unread.errors.values()) == ["Read the whole call in the file first, then tick this."]
    form.tick("The whole call")
    assert read_approval(there, None, form.state).errors == {}


def test_the_file_holds_every_character() -> None:
    text = file_text(samples.HUGE)
    assert "x" * 400_000 in text
    assert all(f"    {line}" in text for line in samples.SCRIPT.split("\n"))
    assert file_name(samples.HUGE) == "run_sql-long-r1.txt"


def test_no_line_of_the_file_can_pass_for_one_of_ours() -> None:
    arguments = (
        Argument('a"\nRevision 9', "x\nRevision 9\n\nTool:\n    safe"),
        Argument("token", "secret", masked=True),
    )
    view = replace(samples.WAITING, arguments=arguments, tool="../../etc\u202e", hint="Tool:\n    safe")
    text = file_text(view)
    ours = [line for line in text.split("\n") if line and not line.startswith("    ")]
    assert ours == ["Version 1", "Tool:", "Agent:", "Hint:", '"a\\"\\nRevision 9":', '"token":']
    assert "secret" not in text
    assert visible(text, keep="\n\t") == text
    assert file_name(view) == "etc-c7Qd2m-r1.txt"
    assert file_name(replace(view, tool="工具")) == "call-c7Qd2m-r1.txt"


@pytest.mark.parametrize("value", ["x" * 300_000, "é\n" * 150_000, ["x"] * 60_000, {"k" * 50: "v" * 50}])
def test_any_size_makes_a_view(value: JsonValue) -> None:
    limits.check(everything(replace(samples.WAITING, arguments=(Argument("a", value),))), "modal")


def test_running_again_shows_the_whole_and_says_what_it_may_do() -> None:
    view = replace(samples.UNKNOWN, arguments=samples.LONG.arguments)
    payload = run_again_form(view)
    assert samples.SCRIPT in inert.shown(payload)
    assert "this makes it happen twice" in inert.shown(payload)
    assert payload["private_metadata"] == "c7Qd2m.1"
