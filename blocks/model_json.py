"""Turns slack_sdk's models into JSON, checked by the SDK's own validators.

The SDK's `to_dict` looks for validators at every attribute, and at every part of a message once for each model around
it. That is most of the work of drawing a card. A class's checks never change, so they are looked up once.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from pydantic import JsonValue
from slack_sdk.models.basic_objects import EMPTY_ALLOWED_TYPE_AND_PROPERTY_LIST
from slack_sdk.models.basic_objects import JsonObject as Model

JsonObject = dict[str, JsonValue]

_MAY_BE_EMPTY = {(one["type"], one["property"]) for one in EMPTY_ALLOWED_TYPE_AND_PROPERTY_LIST}
_attributes: dict[type[Model], tuple[str, ...]] = {}


def as_json(model: Model) -> JsonObject:
    """The same as `model.to_dict()`, but faster. The SDK raises on what Slack would refuse."""
    kind = type(model)
    if kind.to_dict is not Model.to_dict:
        return cast("JsonObject", model.to_dict())
    for check in _checks(kind):
        getattr(model, check)()
    names = _attributes.get(kind)
    if names is None:
        names = _attributes[kind] = tuple(sorted(model.attributes))
    found: JsonObject = {}
    for name in names:
        value = getattr(model, name, None)
        if value is None or (_is_empty(value) and (getattr(model, "type", None), name) not in _MAY_BE_EMPTY):
            continue
        found[name] = _value(value)
    return found


@cache
def _checks(kind: type[Model]) -> tuple[str, ...]:
    """The names of its validators."""
    return tuple(name for name in dir(kind) if hasattr(getattr(kind, name, None), "validator"))


def _is_empty(value: Any) -> bool:
    return hasattr(value, "__len__") and not len(value)


def _value(value: Any) -> JsonValue:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return [_value(one) for one in value]
    if isinstance(value, Model):
        return as_json(value)
    return cast("JsonValue", value.to_dict() if hasattr(value, "to_dict") else value)
