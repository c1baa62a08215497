"""Writes and reads a confirmation as it is stored: one text with its version. Pure.

Rows outlive deployments: a change of this format needs a reader for the format before.
"""

from __future__ import annotations

import json
from functools import cache
from threading import Lock
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from bot.confirmation.effects import Delivery, Step
from bot.confirmation.model import Confirmation
from bot.policy.versioned import ReadOlder, UnreadableRecord, add_version, strip_version
from runtime.jsontypes import Json, JsonObject, objects
from runtime.recent_dict import RecentDict

T = TypeVar("T")
VERSION = 4


def _from_version_1(row: JsonObject) -> JsonObject:
    """Version 1 sealed only the call, and did not check grants again."""
    unsealed: list[Json] = [{**vote, "sealed": ""} for vote in objects(row.get("votes"))]
    return {**row, "votes": unsealed, "grant_look_at": row.get("changed_at") if row.get("grant_until") else None}


READERS: dict[int, ReadOlder] = {
    1: _from_version_1,
    2: lambda row: row,  # had only confirmations of tool calls: it would take anything else for one
    3: lambda row: row,  # had no sign-ins, so a replica of that version must not read newer rows either
}
CONTENT_VERSION = 1
"""The version of mailbox and ledger contents."""

# Made at their first use, since they take 2 % of a start.


@cache
def _row() -> TypeAdapter[Confirmation]:
    return TypeAdapter(Confirmation)


@cache
def _step() -> TypeAdapter[Step]:
    return TypeAdapter(Step)


@cache
def _delivery() -> TypeAdapter[Delivery]:
    return TypeAdapter(Delivery)


def row_to_json(row: Confirmation) -> str:
    stored = _text(_row(), row, VERSION)
    if row.doubt is None:
        _remember(stored, row)
    return stored


def row_from_json(stored: str) -> Confirmation:
    """Raises `NewerVersion` for a row of a newer program, and `UnreadableRecord` for anything that is not a row."""
    with _LOCK:
        known = _RECENT.get(stored)
    if known is None:
        known = _read(_row(), stored, "confirmation", VERSION, READERS)
    _remember(stored, known)
    return known


_LONGEST = 8_000
_LOCK = Lock()  # several threads use this
_RECENT: RecentDict[str, Confirmation] = RecentDict(2_000)
"""Rows that were read recently, by their stored text. A row is read many times between two changes, and parsing is the
most expensive part."""


def _remember(stored: str, row: Confirmation) -> None:
    if len(stored) <= _LONGEST:
        with _LOCK:
            _RECENT[stored] = row


def delivery_to_json(delivery: Delivery) -> str:
    """As the mailbox stores it."""
    return _text(_delivery(), delivery, CONTENT_VERSION)


def delivery_from_json(stored: str) -> Delivery:
    return _read(_delivery(), stored, "answer", CONTENT_VERSION, {})


def step_content(step: Step) -> JsonObject:
    """A step as the content of a ledger line. Empty values are left out."""
    content: JsonObject = _step().dump_python(step, mode="json", exclude_defaults=True, exclude={"kind", "at"})
    return add_version(CONTENT_VERSION, content)


def _text(adapter: TypeAdapter[T], value: T, version: int) -> str:
    """The value with its version. pydantic is six times as fast, but can't write half of a surrogate pair."""
    try:
        return f'{{"v":{version},{adapter.dump_json(value).decode()[1:]}'
    except PydanticSerializationError:
        return json.dumps(
            add_version(version, adapter.dump_python(value, mode="json")), allow_nan=False, separators=(",", ":")
        )


def _read(adapter: TypeAdapter[T], stored: str, what: str, version: int, readers: dict[int, ReadOlder]) -> T:
    try:
        return adapter.validate_python(strip_version(json.loads(stored), what, version, readers))
    except json.JSONDecodeError as error:
        raise UnreadableRecord(f"A stored {what} can't be read: {error}") from error
    except ValidationError as error:
        raise UnreadableRecord(f"A stored {what} can't be read: {_faults(error)}") from error


def _faults(error: ValidationError) -> str:
    """Where the fault is and what it is, without values, because this goes to logs too."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in found[:5])
