"""JSON from others: checked once when it arrives, and stored exactly as it was."""

from __future__ import annotations

from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from runtime.errors import Invalid
from runtime.jsontypes import Json, JsonObject, canonical, deeper

DEEPEST = 64
"""Levels of lists and objects inside each other: more can't be shown, nor be walked through safely."""


def _as_it_is(value: object) -> object:
    return value


ExactJson = Annotated[Json, PlainValidator(_as_it_is), PlainSerializer(_as_it_is)]
ExactObject = Annotated[JsonObject, PlainValidator(_as_it_is), PlainSerializer(_as_it_is)]


def check_json(value: Json, what: str) -> None:
    """Raises `Invalid` for JSON that has no fingerprint or can't be shown."""
    if deeper(value, DEEPEST):
        raise Invalid(f"{what} is nested deeper than {DEEPEST} levels.")
    try:
        canonical(value)
    except ValueError as error:
        raise Invalid(f"{what} holds a value that is not JSON: {error}.") from error
