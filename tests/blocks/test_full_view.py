"""All details: the whole call in a view. Nobody approves what they could not see."""

from __future__ import annotations

import bisect
import json
import time
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from pydantic import JsonValue

from adk_confirm.blocks.card import card
from adk_confirm.blocks.exact_values import json_text, spell_value
from adk_confirm.blocks.form import approve_form
from adk_confirm.blocks.full_view import can_be_shown, everything
from adk_confirm.blocks.shown import ABSENT, Argument, FieldDiff, GrantOffer, Paused, Shown
from adk_confirm.bot.confirmation.confirmation import OutcomeKind
from tests.blocks import inert, limits, samples, strategies
from tests.blocks.drawing import draw

thorough = settings(max_examples=settings().max_examples // 4)


@thorough
@given(strategies.cards)
def test_no_view_is_over_a_limit_or_does_anything_by_itself(view: Shown) -> None:
    for payload in (everything(view), everything(view, again=True)):
        limits.check(payload, "modal")
        inert.check(payload, strategies.OURS)


@thorough
@given(strategies.cards)
def test_everything_is_everything_or_says_that_it_is_not(view: Shown) -> None:
    text = inert.shown(everything(view)).replace("\n", "")
    if "This is only the beginning" in text:
        assert view.result is not ABSENT or view.error or not can_be_shown(view)
        return
    for argument in view.arguments:
        if not argument.masked:
            assert spell_value(argument.value).text.replace("\n", "") in text


@thorough
@given(strategies.values)
@example(10**90)
@example(2**10_001)
@example("x" * 76 + "\U00010000")  # in quotes it is too long for a line
def test_a_text_never_reads_as_the_value_that_it_spells(value: JsonValue) -> None:
    """A tool that takes anything gets another value, and people would have approved the one for the other."""
    for written in (json_text(value), json_text(value, indented=True)):
        seen = [
            inert.shown(everything(replace(samples.WAITING, arguments=(Argument(name, one),))))
            for name in ("config", "n" * 200)
            for one in (value, written)
        ]
        assert value == written or (seen[0] != seen[1] and seen[2] != seen[3])


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


def test_what_no_view_can_hold_is_not_to_be_shown_and_can_not_be_approved() -> None:
    assert can_be_shown(samples.LONG)
    assert not can_be_shown(samples.HUGE)
    payload = approve_form(samples.HUGE)
    limits.check(payload, "modal")
    assert "submit" not in payload
    assert "This is only the beginning" in inert.shown(payload)


@pytest.mark.parametrize(
    "value", ["\u202e" * 500_000, [["x"]] * 100_000, [1.5] * 300_000], ids=["text", "lists", "numbers"]
)
def test_what_is_larger_than_any_view_is_not_drawn_to_find_that_out(value: JsonValue) -> None:
    view = replace(samples.WAITING, arguments=(Argument("a", value),))
    began = time.thread_time()
    assert not can_be_shown(view)
    assert time.thread_time() - began < 0.2  # to draw it takes ten times as long and more


@pytest.mark.parametrize(
    "value",
    [
        "\n" * 100_000,
        ["x"] * 20_000,
        [[]] * 29_000,
        [json.loads('{"a":' * 60 + "1" + "}" * 60)] * 45,
    ],
    ids=["lines", "texts", "lists", "levels"],
)
def test_the_largest_views_do_not_hold_the_bot_up(value: JsonValue) -> None:
    view = replace(samples.WAITING, arguments=(Argument("a", value),))
    began = time.thread_time()
    assert can_be_shown(view)
    assert time.thread_time() - began < 0.4


@pytest.mark.parametrize("text", ["a b\n", "日"])
def test_the_longest_call_that_can_be_shown_is_shown_to_its_last_character(text: str) -> None:
    """With everything beside it that grows while people are asked."""

    def asking(length: int) -> Shown:
        arguments = (Argument("script", text * (length // len(text)) + "END"),)
        offer = GrantOffer("deploy", 3600)
        return replace(samples.WAITING, arguments=arguments, editable=("script",), grant_offer=offer)

    longest = bisect.bisect_left(range(300), x=True, key=lambda size: not can_be_shown(asking(1000 * size))) - 1
    voted = tuple(f"U{number:09}" for number in range(200))
    paused = Paused(by="U1", reason="r" * 1000)
    view = replace(asking(1000 * longest), voted=voted, quorum=201, paused=paused)
    for payload in (everything(view), approve_form(view)):
        limits.check(payload, "modal")
        assert "END" in inert.shown(payload)
    assert "submit" in approve_form(view)
    assert "submit" in everything(replace(view, stage=OutcomeKind.UNKNOWN, editable=()), again=True)


@pytest.mark.parametrize("value", ["x" * 300_000, "é\n" * 150_000, ["x"] * 60_000, {"k" * 50: "v" * 50}])
def test_any_size_makes_a_view(value: JsonValue) -> None:
    limits.check(everything(replace(samples.WAITING, arguments=(Argument("a", value),))), "modal")


def test_an_unknown_call_says_under_which_id_it_is_found() -> None:
    assert f"call {samples.UNKNOWN.call_id}" in inert.shown(everything(samples.UNKNOWN))


def test_running_again_shows_the_whole_and_says_what_it_may_do() -> None:
    view = replace(samples.UNKNOWN, arguments=samples.LONG.arguments)
    payload = everything(view, again=True)
    assert samples.SCRIPT in inert.shown(payload)
    assert "If it did take effect, it happens twice." in inert.shown(payload)
    assert payload["private_metadata"] == "c7Qd2m.1"


def test_whoever_votes_to_run_it_again_reads_how_many_more_must() -> None:
    """On the card as in the window; only the last one presses Run again."""
    for quorum, title, verb, more in (
        (1, "Run it again?", "Run again", ""),
        (2, "Vote to run it again?", "Vote", "Runs after your vote and 1 more."),
        (4, "Vote to run it again?", "Vote", "Runs after your vote and 3 more."),
    ):
        view = replace(samples.UNKNOWN, quorum=quorum)
        window, asks = draw(everything(view, again=True)), draw(card(view).payload())
        assert window.startswith(f"== {title} == [Back] [{verb}]")
        assert f"[Run again… ({title})" in asks
        assert f"({verb})]" in asks
        assert ("Runs after" in window, "Runs after" in asks) == (bool(more), bool(more))
        assert more in window
        assert more in asks
