"""Every limit of Block Kit that Slack enforces: a value at the limit passes, one over it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from adk_confirm.sandbox.blockkit.blocks import Surface, complaints
from adk_confirm.sandbox.blockkit.limits import check_blocks, check_metadata, check_text, check_view
from adk_confirm.sandbox.refusals import ApiRefusal

Block = dict[str, Any]


def plain(length: int) -> Block:
    return {"type": "plain_text", "text": "x" * length}


def mrkdwn(length: int) -> Block:
    return {"type": "mrkdwn", "text": "x" * length}


def section(**fields: object) -> Block:
    return {"type": "section", "text": plain(1), **fields}


def button(**fields: object) -> Block:
    return {"type": "button", "action_id": "a", "text": plain(1), **fields}


def actions(*elements: Block) -> Block:
    return {"type": "actions", "elements": [{**each, "action_id": str(n)} for n, each in enumerate(elements)]}


def option(value: str = "v", length: int = 1) -> Block:
    return {"text": plain(length), "value": value}


def options(count: int) -> list[Block]:
    return [option(str(number)) for number in range(count)]


def select(**fields: object) -> Block:
    return {"type": "static_select", "action_id": "a", "placeholder": plain(1), "options": options(1), **fields}


def asks(element: Block, **fields: object) -> Block:
    return {"type": "input", "label": plain(1), "element": {"action_id": "a", **element}, **fields}


def sure(**fields: object) -> Block:
    dialog = {"title": plain(1), "text": plain(1), "confirm": plain(1), "deny": plain(1), **fields}
    return actions(button(confirm=dialog))


def boxes(kind: str, count: int) -> Block:
    return asks({"type": kind, "options": options(count)})


def several(**fields: object) -> Block:
    return asks({"type": "multi_static_select", "options": options(3), **fields})


def day(date: object) -> Block:
    return asks({"type": "datepicker", "initial_date": date})


def moment(seconds: object) -> Block:
    return asks({"type": "datetimepicker", "initial_date_time": seconds})


def rich(style: Block) -> Block:
    return {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [{**LEAF, "style": style}]}]}


def listed(*items: Block) -> Block:
    return {"type": "rich_text", "elements": [{"type": "rich_text_list", "style": "bullet", "elements": [*items]}]}


def more(count: int) -> Block:
    return {"type": "overflow", "options": options(count)}


def typed(**fields: object) -> Block:
    return asks({**TEXT, **fields})


def number(**fields: object) -> Block:
    return asks({**NUMBER, **fields})


TEXT = {"type": "plain_text_input"}
NUMBER = {"type": "number_input", "is_decimal_allowed": False}


BOXES = {"type": "checkboxes", "action_id": "a"}
DAY = {"type": "datepicker", "action_id": "a"}
MOMENT = {"type": "datetimepicker", "action_id": "a"}
LINKED = {**option(), "url": "https://example.com"}
LEAF = {"type": "text", "text": "x"}
RICH = {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [LEAF]}]}

AT_AND_OVER: list[tuple[str, Block, Block]] = [
    ("section text", section(text=mrkdwn(3000)), section(text=mrkdwn(3001))),
    ("section text is not empty", section(text=mrkdwn(1)), section(text=mrkdwn(0))),
    ("section fields", section(fields=[mrkdwn(1)] * 10), section(fields=[mrkdwn(1)] * 11)),
    ("section field", section(fields=[mrkdwn(2000)]), section(fields=[mrkdwn(2001)])),
    ("section has something", section(), {"type": "section"}),
    ("block_id", section(block_id="x" * 255), section(block_id="x" * 256)),
    ("header", {"type": "header", "text": plain(150)}, {"type": "header", "text": plain(151)}),
    ("header is plain", {"type": "header", "text": plain(1)}, {"type": "header", "text": mrkdwn(1)}),
    ("context", {"type": "context", "elements": [mrkdwn(1)] * 10}, {"type": "context", "elements": [mrkdwn(1)] * 11}),
    ("actions", actions(*[button()] * 25), actions(*[button()] * 26)),
    ("button text", actions(button(text=plain(75))), actions(button(text=plain(76)))),
    ("button value", actions(button(value="x" * 2000)), actions(button(value="x" * 2001))),
    ("accessible name", actions(button(accessibility_label="x" * 75)), actions(button(accessibility_label="x" * 76))),
    ("style", actions(button(style="danger")), actions(button(style="default"))),
    ("action_id", section(accessory=button(action_id="x" * 255)), section(accessory=button(action_id="x" * 256))),
    ("confirm title", sure(title=plain(100)), sure(title=plain(101))),
    ("confirm text", sure(text=plain(300)), sure(text=plain(301))),
    ("confirm yes", sure(confirm=plain(30)), sure(confirm=plain(31))),
    ("confirm no", sure(deny=plain(30)), sure(deny=plain(31))),
    ("select options", actions(select(options=options(100))), actions(select(options=options(101)))),
    ("option text", actions(select(options=[option(length=75)])), actions(select(options=[option(length=76)]))),
    ("option value", actions(select(options=[option("x" * 75)])), actions(select(options=[option("x" * 76)]))),
    ("options differ", actions(select(options=options(2))), actions(select(options=[option(), option()]))),
    ("initial option", actions(select(initial_option=option("0"))), actions(select(initial_option=option("9")))),
    ("overflow", actions(more(5)), actions(more(6))),
    ("radio", boxes("radio_buttons", 10), boxes("radio_buttons", 11)),
    ("checkboxes", boxes("checkboxes", 10), boxes("checkboxes", 11)),
    ("menu for several", several(options=options(100)), several(options=options(101))),
    ("first ones", several(initial_options=options(3)), several(initial_options=options(4))),
    ("first ones say the same", several(initial_options=[option("0")]), several(initial_options=[option("0", 2)])),
    ("some are first", several(initial_options=options(1)), several(initial_options=[])),
    ("so many may be chosen", several(max_selected_items=1), several(max_selected_items=0)),
    (
        "so many are chosen first",
        several(max_selected_items=2, initial_options=options(2)),
        several(max_selected_items=1, initial_options=options(2)),
    ),
    ("date", day("2028-02-29"), day("2027-02-29")),
    ("date is whole", day("2027-02-28"), day("20270228")),
    ("date is text", day("2027-02-28"), day(20270228)),
    ("moment has ten digits", moment(1_000_000_000), moment(999_999_999)),
    ("moment has no more", moment(9_999_999_999), moment(10_000_000_000)),
    ("moment is whole", moment(1_628_633_820), moment("1628633820")),
    ("fields are for forms", asks(TEXT), actions(TEXT)),
    ("several in a section", section(accessory=several()["element"]), actions(several()["element"])),
    ("a moment is in no section", actions(MOMENT), section(accessory=MOMENT)),
    ("a date is in a section", section(accessory=DAY), section(accessory=TEXT)),
    ("menu beside a section", section(accessory=more(5)), asks(more(5))),
    ("a described option", several(options=[{**option(), "description": plain(75)}]), several(options=[LINKED])),
    ("a link in a menu", section(accessory={**more(1), "options": [LINKED]}), asks({**BOXES, "options": [LINKED]})),
    ("rich style", rich({"bold": True}), rich({"big": True})),
    ("rich list", listed({"type": "rich_text_section", "elements": [LEAF]}), listed(LEAF)),
    ("input label", asks(TEXT, label=plain(2000)), asks(TEXT, label=plain(2001))),
    ("input hint", asks(TEXT, hint=plain(2000)), asks(TEXT, hint=plain(2001))),
    ("placeholder", typed(placeholder=plain(150)), typed(placeholder=plain(151))),
    ("initial text", typed(initial_value="x" * 3000), typed(initial_value="x" * 3001)),
    ("initial text fits", typed(max_length=2, initial_value="xx"), typed(max_length=1, initial_value="xx")),
    ("longest text", typed(max_length=3000), typed(max_length=3001)),
    ("lengths in order", typed(min_length=2, max_length=2), typed(min_length=3, max_length=2)),
    ("number says decimals", asks(NUMBER), asks({"type": "number_input"})),
    ("number is text", number(initial_value="12"), number(initial_value=12)),
    ("number is whole", number(initial_value="12"), number(initial_value="12.5")),
    ("number in bounds", number(initial_value="2", max_value="2"), number(initial_value="3", max_value="2")),
    ("number is finite", number(max_value="2"), number(max_value="NaN")),
    ("rich text", RICH, {"type": "rich_text", "elements": [LEAF]}),
    ("no other fields", section(), section(colour="red")),
    ("a type there is", section(), {"type": "sections"}),
    ("markdown", {"type": "markdown", "text": "x" * 12_000}, {"type": "markdown", "text": "x" * 12_001}),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong"), [case[1:] for case in AT_AND_OVER], ids=[case[0] for case in AT_AND_OVER])
def test_a_limit_holds_exactly(right: Block, wrong: Block) -> None:
    assert list(complaints([right], "message")) == []
    assert list(complaints([wrong], "message")) != []


@pytest.mark.parametrize(
    ("surface", "block", "fits"),
    [("message", {"type": "markdown", "text": "x"}, True), ("modal", {"type": "markdown", "text": "x"}, False)],
)
def test_a_block_has_its_surfaces(surface: Surface, block: Block, fits: bool) -> None:
    assert (list(complaints([block], surface)) == []) is fits


@pytest.mark.parametrize(("surface", "most"), [("message", 50), ("modal", 100), ("home", 100)])
def test_so_many_blocks_and_no_more(surface: Surface, most: int) -> None:
    assert list(complaints([{"type": "divider"}] * most, surface)) == []
    assert list(complaints([{"type": "divider"}] * (most + 1), surface)) != []


@pytest.mark.parametrize(
    "blocks",
    [
        [section(block_id="same"), section(block_id="same")],
        [{"type": "actions", "elements": [button(), button()]}],
        [typed(focus_on_load=True), typed(focus_on_load=True)],
        {"type": "section"},
        "[]",
    ],
    ids=["block_id", "action_id", "two focuses", "no list", "text"],
)
def test_blocks_are_checked_together(blocks: Any) -> None:
    with pytest.raises(ApiRefusal) as refused:
        check_blocks(blocks)
    assert refused.value.code == "invalid_blocks"
    assert "json-pointer:/blocks" in refused.value.messages[0]


def test_a_message_has_an_end() -> None:
    long: Block = {"type": "markdown", "text": "x" * 6_001}
    rich = {
        "type": "rich_text",
        "elements": [{"type": "rich_text_section", "elements": [{**LEAF, "text": "x" * 24_001}]}],
    }
    for blocks in ([long, long], [rich]):
        with pytest.raises(ApiRefusal, match="msg_blocks_too_long"):
            check_blocks([*blocks])
    assert len(check_text("x" * 40_001, updating=False)) == 40_000
    assert check_text("x" * 4_000, updating=True)
    with pytest.raises(ApiRefusal, match="msg_too_long"):
        check_text("x" * 4_001, updating=True)


MODAL: Block = {"type": "modal", "title": plain(24), "blocks": [section()]}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"title": plain(25)}, "invalid_arguments"),
        ({"submit": plain(25)}, "invalid_arguments"),
        ({"close": plain(25)}, "invalid_arguments"),
        ({"private_metadata": "x" * 3001}, "invalid_arguments"),
        ({"callback_id": "x" * 256}, "invalid_arguments"),
        ({"blocks": [asks(TEXT)]}, "invalid_arguments"),
        ({"blocks": [section(text=mrkdwn(2999))] * 90}, "view_too_large"),
        ({"colour": "red"}, "invalid_arguments"),
        ({"type": "home"}, "invalid_arguments"),
    ],
)
def test_a_view_that_slack_would_refuse(change: Block, code: str) -> None:
    assert check_view({**MODAL, "private_metadata": "x" * 3000, "submit": plain(24), "close": plain(24)}, "modal")
    with pytest.raises(ApiRefusal) as refused:
        check_view({**MODAL, **change}, "modal")
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"event_type": "confirmation"}, "invalid_metadata_format"),
        ({"event_payload": {}}, "invalid_metadata_format"),
        ("text", "invalid_metadata_format"),
        ({"event_type": "confirmation", "event_payload": "text"}, "invalid_metadata_schema"),
        ({"event_type": "confirmation", "event_payload": {"x": "y" * 8_000}}, "metadata_too_large"),
    ],
)
def test_metadata_that_slack_would_refuse(metadata: Any, code: str) -> None:
    assert check_metadata({"event_type": "confirmation", "event_payload": {"id": 1}})
    with pytest.raises(ApiRefusal) as refused:
        check_metadata(metadata)
    assert refused.value.code == code
