"""The Home tab and the list of `/approvals`: what waits for me, and what I asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adk_confirm.blocks.card import card
from adk_confirm.blocks.click_ids import Action
from adk_confirm.blocks.form import approve_form
from adk_confirm.blocks.home import HomeView, approvals, home_tab
from adk_confirm.blocks.kit import JsonObject
from adk_confirm.blocks.shown import Argument
from adk_confirm.blocks.thread import thread_messages
from tests.blocks import inert, limits, samples, strategies
from tests.blocks.drawing import draw

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
    cards = tuple(replace(samples.ONE_VOTE, id=f"c{n}", arguments=arguments) for n in range(count))
    mine = tuple(replace(samples.WAITING, id=f"a{n}") for n in range(count))
    grants = tuple(replace(samples.GRANT, id=f"g{n}") for n in range(count))
    return HomeView(version=3, waiting=cards, asked=mine, here=mine, grants=grants, more_waiting=5, paused=True)


@pytest.mark.parametrize(
    "arguments", [samples.WAITING.arguments, (Argument("a", "日" * 5000),) * 9], ids=["short", "long"]
)
def test_a_crowd_fits_and_the_rest_is_counted(arguments: tuple[Argument, ...]) -> None:
    view = crowd(60, arguments)
    limits.check(home_tab(view), "home")
    limits.check(approvals(view).payload(), "message")
    assert "… and 45 more, once these are decided." in inert.shown(home_tab(view))
    assert "Open this app's Home tab to see them." in inert.shown(approvals(view).payload())


def test_an_item_has_one_button_that_opens_everything_deny_included() -> None:
    for view in (samples.WAITING, samples.LONG, samples.TIME_OFF):
        home = home_tab(HomeView(version=1, waiting=(view,)))
        assert action_ids(home) == [Action.REVIEW]
        review = approve_form(view)
        assert Action.DENY in action_ids(review)
        assert all(one.name.replace("_", " ") in inert.shown(review) for one in view.arguments)
        assert "Needs" in inert.shown(review)


def test_a_call_whose_outcome_nobody_knows_waits_for_me_too() -> None:
    home = home_tab(HomeView(version=1, waiting=(samples.UNKNOWN,)))
    assert "Did this take effect?" in inert.shown(home)
    assert action_ids(home) == [Action.HAPPENED, Action.NOT_HAPPENED, Action.RUN_AGAIN_OPEN]


def test_what_ends_soon_has_a_clock() -> None:
    """The next deadline, however far, and each within a quarter of an hour."""
    two = (samples.WAITING, replace(samples.WAITING, id="later", expires_at=samples.NOON + 3660))
    clocks = [
        inert.shown(home_tab(HomeView(version=1, now=samples.NOON + 3660 - left, waiting=two))).count("|⏰ until")
        for left in (14 * 60, 16 * 60)
    ]
    assert clocks == [2, 1]


def test_what_i_decided_says_what_i_decided() -> None:
    mine = (samples.DONE, samples.FAILED, replace(samples.DENIED, voted_at={samples.LEAD: samples.NOON + 60}))
    said = inert.shown(home_tab(HomeView(version=1, reader=samples.LEAD, decided=mine)))
    for one in ("done · you approved 2026-11-21 12:02 UTC", "failed · you approved 2026-11-21", "prod · you denied"):
        assert one in said


def test_a_grant_reads_alike_wherever_it_is_said() -> None:
    """Its tool, what must be the same, and in bold what may differ, and how far."""
    granted = replace(samples.THREAD_LINES[6], on=samples.GRANT.on, free=samples.GRANT.free)
    places: list[JsonObject] = [
        approve_form(samples.OFFERED, grant=True),
        *(card(view).payload() for view in (samples.OFFERED, samples.GRANTED)),
        *(one.payload() for one in thread_messages("s", [granted])),
        home_tab(samples.HOME),
    ]
    for place in places:
        covers = "**deploy** with **service** `checkout`, **replicas up to 8 each**, **any version or env**"
        assert covers in draw(place)


def test_a_grant_of_mine_names_the_others_alone() -> None:
    grants = tuple(replace(samples.GRANT, id=f"g{at}", by=by) for at, by in enumerate((("U0ME",), ("U0ME", "U0YOU"))))
    said = inert.shown(home_tab(HomeView(version=1, reader="U0ME", grants=grants)))
    assert (said.count("also by"), said.count("also by U0YOU"), "U0ME" in said) == (1, 1, False)
