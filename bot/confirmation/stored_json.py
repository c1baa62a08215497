"""Writes and reads a confirmation as it is stored: one text. Pure."""

from __future__ import annotations

import json
from functools import cache
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from adk_confirm.bot.confirmation.effects import Delivery, Step, Verdict
from adk_confirm.bot.confirmation.model import Confirmation, Place, Seat
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.jsontypes import JsonObject

T = TypeVar("T")


class UnreadableRecord(ConfirmError):
    """No version of this program writes such a value."""


# Made at their first use, since they take 2 % of a start.


@cache
def _row() -> TypeAdapter[Confirmation]:
    return TypeAdapter(Confirmation)


@cache
def _places() -> TypeAdapter[tuple[Place, ...]]:
    return TypeAdapter(tuple[Place, ...])


@cache
def _seat() -> TypeAdapter[Seat]:
    return TypeAdapter(Seat)


@cache
def _step() -> TypeAdapter[Step]:
    return TypeAdapter(Step)


@cache
def _delivery() -> TypeAdapter[Delivery]:
    return TypeAdapter(Delivery)


@cache
def _verdict() -> TypeAdapter[Verdict]:
    return TypeAdapter(Verdict)


def verdict_to_json(verdict: Verdict) -> str:
    return _text(_verdict(), verdict)


def verdict_from_json(stored: str) -> Verdict:
    return _read(_verdict(), stored, "verdict")


def row_to_json(row: Confirmation) -> str:
    return _text(_row(), row)


def row_from_json(stored: str) -> Confirmation:
    """Raises `UnreadableRecord` for anything that is not a row."""
    return _read(_row(), stored, "confirmation")


def places_to_json(places: tuple[Place, ...]) -> str:
    """Where a confirmation's cards are."""
    return _places().dump_json(places).decode()


def places_from_json(stored: str) -> tuple[Place, ...]:
    return _places().validate_json(stored)


def seat_to_json(seat: Seat) -> str:
    return _seat().dump_json(seat, exclude_defaults=True).decode()


def seat_from_json(stored: str) -> Seat:
    return _read(_seat(), stored, "seat")


def delivery_to_json(delivery: Delivery) -> str:
    """As the mailbox stores it."""
    return _text(_delivery(), delivery)


def delivery_from_json(stored: str) -> Delivery:
    return _read(_delivery(), stored, "answer")


def step_content(step: Step) -> JsonObject:
    """A step as the content of a ledger line. Empty values are left out."""
    content: JsonObject = _step().dump_python(step, mode="json", exclude_defaults=True, exclude={"kind", "at"})
    return content


def _text(adapter: TypeAdapter[T], value: T) -> str:
    """pydantic is six times as fast, but can't write half of a surrogate pair."""
    try:
        return adapter.dump_json(value).decode()
    except PydanticSerializationError:
        return json.dumps(adapter.dump_python(value, mode="json"), allow_nan=False, separators=(",", ":"))


def _read(adapter: TypeAdapter[T], stored: str, what: str) -> T:
    try:
        return adapter.validate_python(json.loads(stored))
    except json.JSONDecodeError as error:
        raise UnreadableRecord(f"A stored {what} can't be read: {error}") from error
    except ValidationError as error:
        raise UnreadableRecord(f"A stored {what} can't be read: {_faults(error)}") from error


def _faults(error: ValidationError) -> str:
    """Where the fault is and what it is, without values, because this goes to logs too."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in found[:5])
