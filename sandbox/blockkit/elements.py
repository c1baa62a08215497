"""Block Kit's composition objects and elements, with the limits that Slack's documentation gives each field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal

from adk_confirm.sandbox.blockkit.schema import (
    Check,
    Complaints,
    Shape,
    array,
    boolean,
    choice,
    complaint,
    kinds,
    string,
    text,
    whole,
)
from adk_confirm.sandbox.reading import Json, JsonObject, as_object, as_text, label, objects

ACTION_ID = string(255)
PLACEHOLDER = text(150)
ANY_TEXT = ("plain_text", "mrkdwn")

CONFIRM = Shape(
    {"title": text(100), "text": text(300, *ANY_TEXT), "confirm": text(30), "deny": text(30)},
    {"style": choice("primary", "danger")},
)
OPTION = Shape({"text": text(75), "value": string(75)}, {"description": text(75)})
ENTRY = Shape(OPTION.required, {**OPTION.optional, "url": string(3000)})
BOX = Shape({"text": text(75, *ANY_TEXT), "value": string(150)}, {"description": text(75, *ANY_TEXT)})


def every_option(element: JsonObject) -> list[JsonObject]:
    return objects(element.get("options"))


def _chosen(element: JsonObject, place: str) -> Complaints:
    options, most = every_option(element), element.get("max_selected_items")
    if len({as_text(option.get("value")) for option in options}) < len(options):
        yield complaint("option values must be unique", f"{place}/options")
    several = objects(element.get("initial_options"))
    one = [as_object(element.get("initial_option"))] if "initial_option" in element else []
    if any(option not in options for option in several + one):
        yield complaint("initial options must exactly match some of the options", place)
    if isinstance(most, int) and len(several) > most:
        yield complaint("more initial_options than max_selected_items", place)


def _date(value: Json, place: str) -> Complaints:
    try:
        right = date.fromisoformat(as_text(value)).isoformat() == value
    except ValueError:
        right = False
    if not right:
        yield complaint("must be a date, YYYY-MM-DD", place)


def _number(value: Json) -> Decimal | None:
    """Slack takes digits and a point, and no exponent."""
    written = as_text(value)
    return Decimal(written) if re.fullmatch(r"-?[0-9]+(?:\.[0-9]+)?", written) else None


def _numbers(element: JsonObject, place: str) -> Complaints:
    names = [name for name in ("min_value", "initial_value", "max_value") if name in element]
    values = [_number(element[name]) for name in names]
    for name, value in zip(names, values, strict=True):
        if value is None:
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


def _interactive(required: dict[str, Check] | None = None, **optional: Check) -> Shape:
    return Shape(required or {}, {"action_id": ACTION_ID, "confirm": CONFIRM, **optional})


_button: dict[str, Check] = {
    "value": string(2000), "url": string(3000), "style": choice("primary", "danger"), "accessibility_label": string(75),
}  # fmt: skip
_field: dict[str, Check] = {"action_id": ACTION_ID, "focus_on_load": boolean, "placeholder": PLACEHOLDER}
_boxes: dict[str, Check] = {"action_id": ACTION_ID, "confirm": CONFIRM, "focus_on_load": boolean}

ELEMENTS: dict[str, Shape] = {
    "button": _interactive({"text": text(75)}, **_button),
    "overflow": _interactive({"options": array(ENTRY, 5)}),
    "static_select": Shape(
        {"options": array(OPTION, 100)}, {**_field, "confirm": CONFIRM, "initial_option": OPTION}, _chosen
    ),
    "multi_static_select": Shape(
        {"options": array(OPTION, 100)},
        {**_field, "confirm": CONFIRM, "initial_options": array(OPTION, 100), "max_selected_items": whole(1, 100)},
        _chosen,
    ),
    "datepicker": Shape({}, {**_field, "confirm": CONFIRM, "initial_date": _date}),
    "datetimepicker": Shape({}, {**_boxes, "initial_date_time": whole(10**9, 10**10 - 1)}),
    "checkboxes": Shape({"options": array(BOX, 10)}, {**_boxes, "initial_options": array(BOX, 10)}, _chosen),
    "radio_buttons": Shape({"options": array(BOX, 10)}, {**_boxes, "initial_option": BOX}, _chosen),
    "plain_text_input": Shape(
        {},
        {
            **_field, "initial_value": string(3000, 0), "multiline": boolean,
            "min_length": whole(0, 3000), "max_length": whole(1, 3000),
        },
        _lengths,
    ),
    "number_input": Shape(
        {"is_decimal_allowed": boolean},
        {**_field, "initial_value": string(255), "min_value": string(255), "max_value": string(255)},
        _numbers,
    ),
}  # fmt: skip
"""The elements that the bot uses. Slack has more; here they are refused."""


def _but(*names: str) -> Check:
    return kinds(ELEMENTS, *(name for name in ELEMENTS if name not in names))


IN_ACTIONS = _but("plain_text_input", "number_input", "multi_static_select")
IN_SECTION = _but("plain_text_input", "number_input", "datetimepicker")
IN_INPUT = _but("button", "overflow")


def interactive(block: JsonObject) -> Iterator[JsonObject]:
    """Every element of a block that a person can use."""
    yield from (each for each in objects(block.get("elements")) if as_text(each.get("type")) in ELEMENTS)
    for name in ("accessory", "element"):
        if inner := as_object(block.get(name)):
            yield inner


def element_labels(element: JsonObject) -> list[str]:
    """The label of a control, or the labels of a menu's entries."""
    if element.get("type") == "overflow":
        return [label(option.get("text")) for option in every_option(element)]
    return [element_label(element)]


def element_label(element: JsonObject) -> str:
    return label(element.get("text")) or label(element.get("placeholder"))
