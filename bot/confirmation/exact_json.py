"""Checks JSON from others once, when it arrives. It is stored exactly as it was."""

from __future__ import annotations

from typing import Annotated

from pydantic import PlainSerializer, PlainValidator
from pydantic_core import to_jsonable_python

from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject, canonical, is_deeper

DEEPEST = 64
"""The most levels of nested lists and objects: deeper JSON can't be shown, or walked through safely."""


def keep(value: object) -> object:
    return value


ExactJson = Annotated[Json, PlainValidator(keep), PlainSerializer(keep)]
ExactObject = Annotated[JsonObject, PlainValidator(keep), PlainSerializer(keep)]


def check_json(value: Json, what: str) -> None:
    """Raises `Invalid` for JSON that can't be shown or stored, or for which no fingerprint can be made. pydantic writes
    half of a surrogate pair in a text, and not in a name."""
    if is_deeper(value, DEEPEST):
        raise Invalid(f"{what} is nested deeper than {DEEPEST} levels.")
    try:
        canonical(value)
        to_jsonable_python(value)
    except ValueError as error:
        raise Invalid(f"{what} holds a value that is not JSON: {error}.") from error
