"""The Home tab and the list of `/approvals`: what waits for me, what I asked for, and deciding several together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from blocks.batch import batch_form, read_batch
from blocks.content import headline
from blocks.home import approvals, help_message, home_tab, ticked_refs
from blocks.ids import Action, Ref
from blocks.kit import JsonObject
from blocks.view import Argument, Face, HomeView
from tests.blocks import inert, limits, samples, strategies
from tests.blocks.slack import OpenForm

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
    for approve in (True, False):
        batch = batch_form(view.waiting, approve=approve)
        limits.check(batch, "modal")
        inert.check(batch, strategies.OURS)


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


# -- together


def tick(home: JsonObject, *ids: str) -> dict[str, object]:
    """The Home tab's `state.values` after somebody ticked these."""
    values: dict[str, object] = {}
    blocks = home["blocks"]
    assert isinstance(blocks, list)
    for block in blocks:
        assert isinstance(block, dict)
        for element in limits._list(block["elements"]) if block["type"] == "actions" else []:
            if element["action_id"] == Action.TICK:
                options = limits._list(element["options"])
                chosen = [option for option in options if str(option["value"]).split(".")[0] in ids]
                values[str(block["block_id"])] = {Action.TICK.value: {"type": "checkboxes", "selected_options": chosen}}
    return values


def test_several_are_ticked_seen_in_full_and_approved_together() -> None:
    home = home_tab(samples.HOME)
    assert Action.APPROVE_TICKED in action_ids(home)
    refs = ticked_refs(tick(home, "c7Qd2m", "long"))
    assert refs == (Ref("c7Qd2m", 1), Ref("long", 1))
    views = [view for view in samples.HOME.waiting if view.id in {ref.id for ref in refs}]
    batch = batch_form(views, approve=True)
    limits.check(batch, "modal")
    text = inert.shown(batch)
    assert samples.SCRIPT in text
    assert "version 2.14.0" in text
    assert "Each call is decided on its own." in text
    read = read_batch(batch["private_metadata"], {}, approve=True)
    assert read is not None
    assert read.refs == refs


def test_denying_together_takes_one_reason() -> None:
    batch = batch_form(samples.HOME.waiting[:2], approve=False, reason_required=True)
    form = OpenForm(batch)
    metadata = batch["private_metadata"]
    unsaid = read_batch(metadata, form.state, approve=False, reason_required=True)
    assert unsaid is not None
    assert unsaid.refs == ()
    assert unsaid.errors == {"reason": "Say why: the policy asks for a reason."}
    form.type("Reason", "Not today.")
    read = read_batch(metadata, form.state, approve=False, reason_required=True)
    assert read is not None
    assert (read.refs, read.reason) == ((Ref("c7Qd2m", 1), Ref("r1", 2)), "Not today.")


def test_what_can_not_be_shown_whole_or_needs_an_answer_is_left_out_and_named() -> None:
    batch = batch_form([samples.WAITING, samples.HUGE, samples.TIME_OFF], approve=True)
    limits.check(batch, "modal")
    assert f"decide {headline(samples.HUGE)} and {headline(samples.TIME_OFF)} on their own cards" in inert.shown(batch)
    assert batch["private_metadata"] == "c7Qd2m.1"
    none = batch_form([samples.TIME_OFF], approve=True)
    assert "submit" not in none
    assert "None of these can be decided together" in inert.shown(none)
    assert "Select the calls" in inert.shown(batch_form([], approve=True))


def test_a_batch_is_bounded_and_holds_each_once() -> None:
    views = [replace(samples.WAITING, id=f"c{n % 15}") for n in range(30)]
    batch = batch_form(views, approve=True)
    limits.check(batch, "modal")
    read = read_batch(batch["private_metadata"], {}, approve=True)
    assert read is not None
    assert len(read.refs) == 10


def test_forged_ticks_and_batches_are_nothing() -> None:
    forged: list[JsonValue] = [None, "x", {"value": "a b"}, {"value": 7}, {"value": "c1.1"}, {"value": "c1.2"}]
    assert ticked_refs({"b": {Action.TICK.value: {"selected_options": forged}}}) == (Ref("c1", 1),)
    assert ticked_refs({"b": None, "c": {Action.TICK.value: {"selected_options": "x"}}}) == ()
    assert read_batch("c1.1 c1.2", {}, approve=True) is None
    assert read_batch(None, {}, approve=True) is None


def test_nothing_to_tick_where_there_is_one_or_an_answer_is_wanted() -> None:
    one = home_tab(HomeView(version=1, waiting=(samples.WAITING, samples.TIME_OFF)))
    assert Action.APPROVE_TICKED not in action_ids(one)
    assert Action.TICK not in action_ids(one)
    settled = home_tab(HomeView(version=1, waiting=(replace(samples.WAITING, face=Face.DONE),)))
    assert Action.TICK not in action_ids(settled)
