"""Other people's JSON: looked at once, when it comes in; from then on it passes through rows exactly as it is."""

from __future__ import annotations

from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from runtime.errors import Invalid
from runtime.jsontypes import Json, JsonObject, canonical

DEEPEST = 64
"""Levels of lists and objects inside each other: more can't be shown, nor be walked through safely."""


def _as_it_is(value: object) -> object:
    return value


ExactJson = Annotated[Json, PlainValidator(_as_it_is), PlainSerializer(_as_it_is)]
ExactObject = Annotated[JsonObject, PlainValidator(_as_it_is), PlainSerializer(_as_it_is)]


def check_json(value: Json, what: str) -> None:
    """Raises `Invalid` for what could be neither fingerprinted nor shown."""
    level = _containers([value])
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _containers(outer)]
    if level:
        raise Invalid(f"{what} is nested deeper than {DEEPEST} levels.")
    try:
        canonical(value)
    except ValueError as error:
        raise Invalid(f"{what} holds a value that is no JSON: {error}.") from error


def _containers(value: list[Json] | JsonObject) -> list[list[Json] | JsonObject]:
    held = value.values() if isinstance(value, dict) else value
    return [inner for inner in held if isinstance(inner, list | dict)]
