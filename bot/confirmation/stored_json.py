"""Checks JSON that others sent, and writes and reads what is stored as one text. Pure."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

from pydantic import PlainSerializer, PlainValidator, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from adk_confirm.runtime.errors import ConfirmError, Invalid
from adk_confirm.runtime.jsontypes import LARGEST, Json, JsonObject, canonical, is_deeper, is_larger

T = TypeVar("T")

DEEPEST = 64
"""The most levels of nested lists and objects: deeper JSON can't be shown, or walked through safely."""


def keep(value: object) -> object:
    return value


ExactJson = Annotated[Json, PlainValidator(keep), PlainSerializer(keep)]
ExactObject = Annotated[JsonObject, PlainValidator(keep), PlainSerializer(keep)]


def check_json(value: Json, what: str) -> None:
    """Raises `Invalid` for JSON that can't be shown or stored, or for which no fingerprint can be made. pydantic writes
    half of a surrogate pair in a text, and not in a name."""
    if is_larger(value, *LARGEST):
        raise Invalid(f"{what} has more than {LARGEST[0]:,} values or {LARGEST[1]:,} characters.")
    if is_deeper(value, DEEPEST):
        raise Invalid(f"{what} is nested deeper than {DEEPEST} levels.")
    try:
        canonical(value)
        to_jsonable_python(value)
    except ValueError as error:
        raise Invalid(f"{what} holds a value that is not JSON: {error}.") from error


class UnreadableRecord(ConfirmError):
    """A stored value that no version of this program writes."""


_ADAPTERS: dict[object, TypeAdapter[Any]] = {}
"""Each is made when it is first used: making all of them would take 2 % of a start."""


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def to_json(value: object, *, exclude_defaults: bool = False) -> str:
    """The value as it is stored."""
    adapter = _adapter(type(value))
    try:  # pydantic is six times as fast, but can't write half of a surrogate pair
        return adapter.dump_json(value, exclude_defaults=exclude_defaults).decode()
    except PydanticSerializationError:
        plain = adapter.dump_python(value, mode="json", exclude_defaults=exclude_defaults)
        return json.dumps(plain, allow_nan=False, separators=(",", ":"))


def from_json(kind: type[T], stored: str) -> T:
    """Reads what `to_json` wrote. Raises `UnreadableRecord` for anything else."""
    try:
        return from_object(kind, json.loads(stored))
    except json.JSONDecodeError as error:
        raise UnreadableRecord(f"A stored {_name(kind)} can't be read: {error}") from error


def from_object(kind: type[T], stored: object) -> T:
    try:
        value: T = _adapter(kind).validate_python(stored)
    except ValidationError as error:
        # Without values, because this goes to logs too.
        found = error.errors(include_url=False, include_input=False, include_context=False)
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in found[:5])
        raise UnreadableRecord(f"A stored {_name(kind)} can't be read: {faults}") from error
    return value


def step_content(step: object) -> JsonObject:
    """A step as the content of a ledger line. Empty values are left out."""
    adapter = _adapter(type(step))
    content: JsonObject = adapter.dump_python(step, mode="json", exclude_defaults=True, exclude={"kind", "at"})
    return content


def _name(kind: object) -> str:
    return getattr(kind, "__name__", str(kind)).lower()
