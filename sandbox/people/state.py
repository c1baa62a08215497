"""What a person has entered into elements, in the shape of payloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from adk_confirm.sandbox.blockkit.elements import every_option, interactive
from adk_confirm.sandbox.reading import Json, JsonObject, as_text, label
from adk_confirm.sandbox.refusals import Invalid, NotFound


class Slot(NamedTuple):
    """The key of an element's value in the state, and the field with its first value."""

    key: str
    initial: str
    several: bool = False


SLOTS: dict[str, Slot] = {
    "plain_text_input": Slot("value", "initial_value"),
    "number_input": Slot("value", "initial_value"),
    "static_select": Slot("selected_option", "initial_option"),
    "radio_buttons": Slot("selected_option", "initial_option"),
    "checkboxes": Slot("selected_options", "initial_options", True),
    "multi_static_select": Slot("selected_options", "initial_options", True),
    "datepicker": Slot("selected_date", "initial_date"),
    "datetimepicker": Slot("selected_date_time", "initial_date_time"),
}

Names = Callable[[JsonObject], tuple[str, ...]]
"""What an option may be called by whoever chooses it."""

Entered = Mapping[tuple[str, str], JsonObject]


def state_of(element: JsonObject) -> JsonObject | None:
    """The state before anybody entered something; None for elements without one, such as buttons."""
    kind = as_text(element.get("type"))
    slot = SLOTS.get(kind)
    if slot is None:
        return None
    empty: Json = [] if slot.several else None
    return {"type": kind, slot.key: element.get(slot.initial) or empty}


def entry(element: JsonObject, value: Json) -> JsonObject:
    """The state after a person entered this value."""
    slot = SLOTS[as_text(element.get("type"))]
    empty: Json = [] if slot.several else None
    return {"type": element["type"], slot.key: empty if value in (None, "") else value}


def by_label(option: JsonObject) -> tuple[str, ...]:
    said = label(option.get("text"))
    return said, said.removesuffix("…"), as_text(option.get("value"))


def by_value(option: JsonObject) -> tuple[str, ...]:
    return (as_text(option.get("value")),)


def picked(element: JsonObject, value: Json, tz: str, names: Names = by_label) -> Json:
    """What a person chose, as payloads have it: whole options, a date, a moment in this time zone as Unix seconds."""
    if value in (None, ""):
        return None
    if isinstance(value, list):
        most = element.get("max_selected_items")
        if isinstance(most, int) and len(value) > most:
            raise Invalid(f"At most {most} can be chosen.")
        return [_option(element, as_text(each), names) for each in value]
    try:
        match as_text(element.get("type")):
            case "number_input":
                return str(value)
            case "datepicker":
                return date.fromisoformat(as_text(value)).isoformat()
            case "datetimepicker" if not isinstance(value, int):
                return int(datetime.fromisoformat(as_text(value)).replace(tzinfo=ZoneInfo(tz)).timestamp())
    except ValueError:
        raise Invalid(f"“{value}” is no date that Slack's calendar has.") from None
    return _option(element, as_text(value), names) if every_option(element) else value


def _option(element: JsonObject, name: str, names: Names) -> JsonObject:
    for option in every_option(element):
        if name in names(option):
            return option
    raise NotFound(f"“{name}” is not among the options: {[label(each.get('text')) for each in every_option(element)]}.")


def values(blocks: Sequence[JsonObject], entered: Entered) -> JsonObject:
    """`state.values`: block by block, element by element."""
    found: JsonObject = {}
    for block in blocks:
        block_id = as_text(block.get("block_id"))
        inside: JsonObject = {}
        for element in interactive(block):
            initial = state_of(element)
            action_id = as_text(element.get("action_id"))
            if initial is not None:
                inside[action_id] = entered.get((block_id, action_id), initial)
        if inside:
            found[block_id] = inside
    return found
