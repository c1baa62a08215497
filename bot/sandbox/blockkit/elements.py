"""Block Kit's composition objects and elements, with the limits that Slack's documentation gives each field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation

from bot.sandbox.blockkit.schema import (
    Check,
    Complaints,
    Shape,
    anything,
    array,
    boolean,
    choice,
    complaint,
    kinds,
    string,
    text,
    whole,
)
from bot.sandbox.reading import label
from runtime.jsontypes import Json, JsonObject, as_object, as_text, objects

ACTION_ID = string(255)
PLACEHOLDER = text(150)
ANY_TEXT = ("plain_text", "mrkdwn")

CONFIRM = Shape(
    {"title": text(100), "text": text(300, *ANY_TEXT), "confirm": text(30), "deny": text(30)},
    {"style": choice("primary", "danger")},
)
_option_fields: dict[str, Check] = {"description": text(75, *ANY_TEXT), "url": string(3000)}
OPTION = Shape({"text": text(75), "value": string(75)}, _option_fields)
BOX = Shape({"text": text(75, *ANY_TEXT), "value": string(150)}, _option_fields)
GROUP = Shape({"label": text(75), "options": array(OPTION, 100)})
DISPATCH = Shape(optional={"trigger_actions_on": array(choice("on_enter_pressed", "on_character_entered"), 2)})
SLACK_FILE = Shape(optional={"id": string(255), "url": string(3000)})


def every_option(element: JsonObject) -> list[JsonObject]:
    grouped = [option for group in objects(element.get("option_groups")) for option in objects(group.get("options"))]
    return objects(element.get("options")) + grouped


def _options(element: JsonObject, place: str) -> Complaints:
    if ("options" in element) == ("option_groups" in element):
        yield complaint("exactly one of options and option_groups is required", place)
        return
    yield from _chosen(element, place)


def _chosen(element: JsonObject, place: str) -> Complaints:
    values = [as_text(option.get("value")) for option in every_option(element)]
    if len(set(values)) < len(values):
        yield complaint("option values must be unique", f"{place}/options")
    several = objects(element.get("initial_options"))
    one = [as_object(element.get("initial_option"))] if "initial_option" in element else []
    for option in several + one:
        if as_text(option.get("value")) not in values:
            yield complaint("initial option is not one of the options", place)


def _number(value: Json) -> Decimal | None:
    try:
        return Decimal(as_text(value))
    except InvalidOperation:
        return None


def _numbers(element: JsonObject, place: str) -> Complaints:
    names = [name for name in ("min_value", "initial_value", "max_value") if name in element]
    values = [_number(element[name]) for name in names]
    for name, value in zip(names, values, strict=True):
        if value is None or not value.is_finite():
            yield complaint("must be a number written as a string", f"{place}/{name}")
        elif not element.get("is_decimal_allowed") and value != value.to_integral_value():
            yield complaint("must be a whole number", f"{place}/{name}")
    known = [value for value in values if value is not None]
    if known != sorted(known):
        yield complaint("min_value, initial_value and max_value are out of order", place)


def _lengths(element: JsonObject, place: str) -> Complaints:
    least, most = element.get("min_length", 0), element.get("max_length", 3000)
    if isinstance(least, int) and isinstance(most, int) and least > most:
        yield complaint("min_length must not be more than max_length", place)
    if len(as_text(element.get("initial_value"))) > (most if isinstance(most, int) else 3000):
        yield complaint("initial_value must not be longer than max_length", f"{place}/initial_value")


def _picture(element: JsonObject, place: str) -> Complaints:
    if ("image_url" in element) == ("slack_file" in element):
        yield complaint("exactly one of image_url and slack_file is required", place)


def _interactive(required: dict[str, Check] | None = None, **optional: Check) -> Shape:
    return Shape(required or {}, {"action_id": ACTION_ID, "confirm": CONFIRM, **optional})


def _input(**optional: Check) -> Shape:
    return Shape({}, {"action_id": ACTION_ID, "focus_on_load": boolean, **optional})


def _select(*fields: Mapping[str, Check], also: Callable[[JsonObject, str], Complaints] | None = None) -> Shape:
    common: dict[str, Check] = {"action_id": ACTION_ID, "placeholder": PLACEHOLDER, "confirm": CONFIRM}
    for more in fields:
        common.update(more)
    return Shape({}, {**common, "focus_on_load": boolean}, also)


_static: dict[str, Check] = {"options": array(OPTION, 100), "option_groups": array(GROUP, 100)}
_button: dict[str, Check] = {
    "value": string(2000), "url": string(3000), "style": choice("primary", "danger"), "accessibility_label": string(75),
}  # fmt: skip
_typed: dict[str, Check] = {"placeholder": PLACEHOLDER, "dispatch_action_config": DISPATCH}
_conversations: dict[str, Check] = {
    "default_to_current_conversation": boolean, "response_url_enabled": boolean, "filter": anything,
}  # fmt: skip
_picked = string(255)
_many: dict[str, Check] = {"max_selected_items": whole(1, 100)}
_feedback = Shape({"text": text(75), "value": string(2000)}, {"accessibility_label": string(75)})

ELEMENTS: dict[str, Shape] = {
    "button": _interactive({"text": text(75)}, **_button),
    "workflow_button": _interactive({"text": text(75), "workflow": anything}, **_button),
    "icon_button": _interactive(
        {"icon": choice("trash"), "text": text(75)},
        value=string(2000), accessibility_label=string(75), visible_to_user_ids=array(_picked, 100),
    ),
    "feedback_buttons": Shape({"positive_button": _feedback, "negative_button": _feedback}, {"action_id": ACTION_ID}),
    "overflow": _interactive({"options": array(OPTION, 5)}),
    "image": Shape({"alt_text": string(2000)}, {"image_url": string(3000), "slack_file": SLACK_FILE}, _picture),
    "static_select": _select(_static, {"initial_option": OPTION}, also=_options),
    "multi_static_select": _select(_static, _many, {"initial_options": array(OPTION, 100)}, also=_options),
    "external_select": _select({"initial_option": OPTION, "min_query_length": whole(0, 100)}),
    "multi_external_select": _select(
        _many, {"initial_options": array(OPTION, 100), "min_query_length": whole(0, 100)}
    ),
    "users_select": _select({"initial_user": _picked}),
    "multi_users_select": _select(_many, {"initial_users": array(_picked, 100)}),
    "channels_select": _select({"initial_channel": _picked, "response_url_enabled": boolean}),
    "multi_channels_select": _select(_many, {"initial_channels": array(_picked, 100)}),
    "conversations_select": _select(_conversations, {"initial_conversation": _picked}),
    "multi_conversations_select": _select(
        _conversations, _many, {"initial_conversations": array(_picked, 100)}
    ),
    "checkboxes": Shape(
        {"options": array(BOX, 10)},
        {"action_id": ACTION_ID, "initial_options": array(BOX, 10), "confirm": CONFIRM, "focus_on_load": boolean},
        _chosen,
    ),
    "radio_buttons": Shape(
        {"options": array(BOX, 10)},
        {"action_id": ACTION_ID, "initial_option": BOX, "confirm": CONFIRM, "focus_on_load": boolean},
        _chosen,
    ),
    "datepicker": _select({"initial_date": string(10, 10)}),
    "timepicker": _select({"initial_time": string(5, 5), "timezone": string(100)}),
    "datetimepicker": _interactive(initial_date_time=whole(10**9, 10**10 - 1), focus_on_load=boolean),
    "plain_text_input": Shape(
        {},
        {
            "action_id": ACTION_ID, "focus_on_load": boolean, "initial_value": string(3000, 0), "multiline": boolean,
            "min_length": whole(0, 3000), "max_length": whole(1, 3000), **_typed,
        },
        _lengths,
    ),
    "number_input": Shape(
        {"is_decimal_allowed": boolean},
        {
            "action_id": ACTION_ID, "focus_on_load": boolean, "initial_value": string(255),
            "min_value": string(255), "max_value": string(255), **_typed,
        },
        _numbers,
    ),
    "email_text_input": _input(initial_value=string(3000, 0), **_typed),
    "url_text_input": _input(initial_value=string(3000, 0), **_typed),
    "rich_text_input": _input(initial_value=anything, **_typed),
    "file_input": Shape({}, {"action_id": ACTION_ID, "filetypes": array(_picked, 100), "max_files": whole(1, 10)}),
}  # fmt: skip

_CHOOSERS = tuple(name for name in ELEMENTS if name.endswith("_select"))
_PICKERS = ("datepicker", "timepicker", "checkboxes", "radio_buttons")
_TYPED = ("plain_text_input", "number_input", "email_text_input", "url_text_input", "rich_text_input")
SINGLE = tuple(name for name in _CHOOSERS if not name.startswith("multi_"))

IN_ACTIONS = kinds(ELEMENTS, "button", "workflow_button", "overflow", "datetimepicker", *SINGLE, *_PICKERS, *_TYPED)
IN_SECTION = kinds(ELEMENTS, "button", "workflow_button", "overflow", "image", *_CHOOSERS, *_PICKERS)
IN_INPUT = kinds(ELEMENTS, "datetimepicker", "file_input", *_CHOOSERS, *_PICKERS, *_TYPED)
BUTTON = kinds(ELEMENTS, "button")
IMAGE = kinds(ELEMENTS, "image")


def interactive(block: JsonObject) -> Iterator[JsonObject]:
    """Every element of a block that a person can use, including cards in carousels."""
    for name in ("elements", "actions"):
        for element in objects(block.get(name)):
            if element.get("type") == "card":
                yield from interactive(element)
            elif as_text(element.get("type")) in ELEMENTS and element.get("type") != "image":
                yield element
    for name in ("accessory", "element"):
        inner = as_object(block.get(name))
        if inner and inner.get("type") != "image":
            yield inner


def element_labels(element: JsonObject) -> list[str]:
    """The label of a control, or the labels of a menu's entries."""
    if element.get("type") == "overflow":
        return [label(option.get("text")) for option in every_option(element)]
    return [element_label(element)]


def element_label(element: JsonObject) -> str:
    return label(element.get("text")) or label(element.get("placeholder"))
