"""What a person has entered into elements, in the shape of payloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from adk_confirm.sandbox.blockkit.elements import interactive
from adk_confirm.sandbox.reading import Json, JsonObject, as_text


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
}

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
    return {"type": element["type"], slot.key: value if value != "" else None}


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
