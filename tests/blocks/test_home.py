"""The Home tab and the list of `/approvals`: what waits for me, and what I asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blocks.home import approvals, help_message, home_tab
from blocks.ids import Action
from blocks.kit import JsonObject
from blocks.view import Argument, HomeView
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
    assert "… and 45 more. They appear as these are decided." in inert.shown(home_tab(view))
    assert "Open this app's Home tab to see them." in inert.shown(approvals(view).payload())


def test_home_says_what_waits_what_i_asked_for_and_what_i_granted() -> None:
    text = inert.shown(home_tab(samples.HOME))
    assert "Waiting for you (7)" in text
    assert "You asked for (3)" in text
    assert "Deploy checkout 2.14.0 to prod · done · " in text
    assert "Deploy checkout 2.14.0 to prod · denied · " in text
    assert "Your grants (1)" in text
    assert "run without asking until" in text
    assert ", in one conversation in " in text
    assert "in this conversation" not in text
    assert "'channel_id': 'C0DEPLOYS'" in str(home_tab(samples.HOME))
    private = replace(samples.HOME, grants=(samples.GRANT,))
    assert ", in one conversation in direct messages. Allowed by" in inert.shown(home_tab(private))
    assert "… and 3 more" in text


def test_its_buttons_are_a_cards_buttons() -> None:
    home = home_tab(samples.HOME)
    by_value: dict[str, list[str]] = {}
    for element in limits.elements(home):
        by_value.setdefault(str(element.get("value")), []).append(str(element["action_id"]))
    assert by_value["c7Qd2m.1"] == [Action.APPROVE, Action.DENY, Action.EDIT]
    assert by_value["long.1"] == [Action.APPROVE_OPEN, Action.DENY]
    assert by_value["t1.1"] == [Action.APPROVE_OPEN, Action.DENY]
    assert by_value["mine.1"] == [Action.WITHDRAW]
    assert by_value["g41"] == [Action.REVOKE]


def test_what_an_item_cuts_opens_before_it_is_approved_even_where_the_card_shows_it() -> None:
    view = replace(samples.WAITING, arguments=(Argument("note", "x" * 300),))
    assert Action.APPROVE_OPEN in action_ids(home_tab(HomeView(version=1, waiting=(view,))))


def test_a_call_whose_outcome_nobody_knows_waits_for_me_too() -> None:
    home = home_tab(HomeView(version=1, waiting=(samples.UNKNOWN,)))
    assert "nobody knows how it ended" in inert.shown(home)
    assert action_ids(home) == [Action.HAPPENED, Action.NOT_HAPPENED, Action.RUN_AGAIN, Action.MORE]


def test_an_empty_inbox_says_so() -> None:
    assert "Nothing waits for you." in inert.shown(home_tab(samples.EMPTY))
    listed = approvals(samples.EMPTY)
    assert listed.text == "Nothing waits for you."


def test_the_list_shows_mine_with_buttons_and_the_channels_with_the_way_to_the_card() -> None:
    payload = approvals(samples.LISTED).payload()
    limits.check(payload, "message")
    text = inert.shown(payload)
    assert text.index("Waiting for you (2)") < text.index("Waiting in this channel (1)")
    assert action_ids(payload)[-1] == Action.LINK
    assert "reimburse" in str(payload["text"])


def test_help_says_what_to_do() -> None:
    assert "/approvals lists what waits" in help_message().text
    limits.check(help_message().payload(), "message")
