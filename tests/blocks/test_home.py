"""The Home tab and the list of `/approvals`: what waits for me, and what I asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from adk_confirm.blocks.click_ids import Action
from adk_confirm.blocks.home import HomeView, approvals, home_tab
from adk_confirm.blocks.kit import JsonObject
from adk_confirm.bot.confirmation.shown import Argument
from tests.blocks import inert, limits, samples, strategies

few = settings(
    max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
some_cards = st.lists(strategies.cards, max_size=2, unique_by=lambda view: view.id).map(tuple)
homes = st.builds(
    HomeView,
    version=st.integers(1, 10**9),
    waiting=some_cards,
    asked=some_cards,
    here=some_cards,
    grants=st.lists(strategies.grants, max_size=1).map(tuple),
    more_waiting=st.integers(0, 3),
    paused=st.booleans(),
)


def action_ids(payload: JsonObject) -> list[str]:
    return [str(element["action_id"]) for element in limits.elements(payload)]


@few
@given(homes)
def test_no_list_is_over_a_limit_or_does_anything_by_itself(view: HomeView) -> None:
    home, listed = home_tab(view), approvals(view).payload()
    limits.check(home, "home")
    limits.check(listed, "message")
    inert.check(home, strategies.OURS)
    inert.check(listed, strategies.OURS)


def crowd(count: int, arguments: tuple[Argument, ...] = samples.WAITING.arguments) -> HomeView:
    cards = tuple(samples.ONE_VOTE.but(id=f"c{n}", arguments=arguments) for n in range(count))
    mine = tuple(samples.WAITING.but(id=f"a{n}") for n in range(count))
    grants = tuple(replace(samples.GRANT, id=f"g{n}") for n in range(count))
    return HomeView(version=3, waiting=cards, asked=mine, here=mine, grants=grants, more_waiting=5, paused=True)


@pytest.mark.parametrize(
    "arguments", [samples.WAITING.arguments, (Argument("a", "日" * 5000),) * 9], ids=["short", "long"]
)
def test_a_crowd_fits_and_the_rest_is_counted(arguments: tuple[Argument, ...]) -> None:
    view = crowd(60, arguments)
    limits.check(home_tab(view), "home")
    limits.check(approvals(view).payload(), "message")
    assert "… and 45 more. They appear as these are decided." in inert.shown(home_tab(view))
    assert "Open this app's Home tab to see them." in inert.shown(approvals(view).payload())


def test_what_an_item_cuts_opens_before_it_is_approved_even_where_the_card_shows_it() -> None:
    view = samples.WAITING.but(arguments=(Argument("note", "x" * 300),))
    assert Action.APPROVE_OPEN in action_ids(home_tab(HomeView(version=1, waiting=(view,))))


def test_a_call_whose_outcome_nobody_knows_waits_for_me_too() -> None:
    home = home_tab(HomeView(version=1, waiting=(samples.UNKNOWN,)))
    assert "nobody knows how it ended" in inert.shown(home)
    assert action_ids(home) == [Action.HAPPENED, Action.NOT_HAPPENED, Action.RUN_AGAIN, Action.MORE]


ONE_PRESS, OPENS = [Action.APPROVE, Action.MORE], [Action.APPROVE_OPEN, Action.MORE]


@pytest.mark.parametrize(
    ("title", "arguments", "below"),
    [
        ("Deploy {a} to {b}", {"a": "checkout", "b": "prod"}, ""),
        ("Pay {a} for {b}", {"a": 1200.5, "b": "the team dinner"}, ""),
        ("Pay {a}", {"a": 5, "to": "Ada"}, "to Ada"),
        (None, {"a": "one", "b": 5}, ""),
        (None, {"a": "one, b 6", "b": 5}, "a one, b 6"),
        ("From {a} to {b}", {"a": "x to y", "b": "z w"}, "a x to y · b z w"),
        ("Send {a} to {b}", {"a": "keys to ann", "b": "bob"}, "a keys to ann"),
        ("Send {a} to {b}", {"a": "keys", "b": "ann to bob"}, "b ann to bob"),
        ("Send {a} to {b}", {"a": "what to", "b": "bob"}, "a what to"),
        ("From {a}-{b}", {"a": "x", "b": "y"}, "a x · b y"),
        ("Write {a}", {"a": "two  spaces"}, "a two  spaces"),
        ("Write {a}", {"a": "5"}, 'a "5"'),
        ("Take {{a}}", {"a": "all"}, "a all"),
        ("Pay", {}, "No arguments"),
    ],
)
def test_an_item_approves_at_one_press_and_shows_below_the_title_what_that_leaves_open(
    title: str | None, arguments: dict[str, JsonValue], below: str
) -> None:
    call = samples.WAITING.but(
        title=title, hint=None, quorum=1, arguments=tuple(Argument(name, value) for name, value in arguments.items())
    )
    home = home_tab(HomeView(version=1, waiting=(call,)))
    assert action_ids(home) == ONE_PRESS
    said = inert.shown(home).split("\n")[2]
    assert said == below or (not below and said.startswith("From U0DANA"))


@pytest.mark.parametrize(
    "value",
    [["x", "y"] * 40, {"deep": {"er": ["x" * 60]}}, [{"item": "a mug", "amount": 20}], "two\nlines", "x" * 70],
    ids=["long list", "object", "list of objects", "lines", "long"],
)
def test_what_one_line_can_not_show_is_opened_before_it_is_approved(value: JsonValue) -> None:
    call = samples.WAITING.but(arguments=(*samples.WAITING.arguments[:3], Argument("extra", value)))
    home = home_tab(HomeView(version=1, waiting=(call,)))
    assert action_ids(home) == OPENS
    assert "extra" not in inert.shown(home)


def test_an_edited_value_is_shown_below_the_title_with_what_it_was() -> None:
    call = samples.REIMBURSE.but(title="Reimburse {amount}", arguments=(Argument("amount", 1200),))
    assert "amount 1,500 → 1,200" in inert.shown(home_tab(HomeView(version=1, waiting=(call,))))
