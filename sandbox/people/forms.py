"""What Slack's client checks before it sends a form: required, lengths, numbers."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from adk_confirm.sandbox.people.state import SLOTS, state_of
from adk_confirm.sandbox.reading import Json, JsonObject, as_object, as_text, objects
from adk_confirm.sandbox.workspace.records import View


def entered_in(view: View, block: JsonObject) -> JsonObject:
    """The current value of an input block's element."""
    element = as_object(block.get("element"))
    key = (as_text(block.get("block_id")), as_text(element.get("action_id")))
    return view.entered.get(key) or state_of(element) or {}


def problems(view: View) -> dict[str, str]:
    """block_id → the error under the field."""
    found: dict[str, str] = {}
    for block in objects(view.body.get("blocks")):
        if block.get("type") != "input":
            continue
        element = as_object(block.get("element"))
        slot = SLOTS.get(as_text(element.get("type")))
        value = entered_in(view, block).get(slot.key) if slot else None
        wrong = _problem_in(element, value, required=block.get("optional") is not True)
        if wrong:
            found[as_text(block.get("block_id"))] = wrong
    return found


def _problem_in(element: JsonObject, value: Json, *, required: bool) -> str:
    if value in (None, "", []):
        return "Please complete this required field." if required else ""
    kind, text = element.get("type"), as_text(value)
    if kind == "number_input":
        return _wrong_number(element, text)
    if kind == "plain_text_input":
        return _wrong_length(element, text)
    return ""


def _wrong_length(element: JsonObject, text: str) -> str:
    least, most = element.get("min_length", 0), element.get("max_length", 3000)
    if isinstance(least, int) and len(text) < least:
        return f"Must be at least {least} characters."
    if isinstance(most, int) and len(text) > most:
        return f"Must be at most {most} characters."
    return ""


def _wrong_number(element: JsonObject, text: str) -> str:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return "Please enter a number."
    if not number.is_finite():
        return "Please enter a number."
    if element.get("is_decimal_allowed") is not True and number != number.to_integral_value():
        return "Please enter a whole number."
    least, most = as_text(element.get("min_value")), as_text(element.get("max_value"))
    if least and number < Decimal(least):
        return f"Must be {least} or more."
    if most and number > Decimal(most):
        return f"Must be {most} or less."
    return ""
