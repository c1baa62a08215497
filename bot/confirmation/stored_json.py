"""Writes and reads a confirmation as it is stored: one text with its version. Pure.

Rows outlive deployments: a change of this format needs a reader for the format before.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from functools import cache
from threading import Lock
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from bot.confirmation.effects import Delivery, Step
from bot.confirmation.model import Confirmation
from bot.policy.versioned import ReadOlder, UnreadableRecord, add_version, strip_version
from runtime.jsontypes import Json, JsonObject

T = TypeVar("T")
VERSION = 4


def _from_version_1(row: JsonObject) -> JsonObject:
    """Version 1 sealed only the call, and did not check grants again."""
    votes = row.get("votes")
    unsealed: list[Json] = (
        [{**vote, "sealed": ""} for vote in votes if isinstance(vote, dict)] if isinstance(votes, list) else []
    )
    return {**row, "votes": unsealed, "grant_look_at": row.get("changed_at") if row.get("grant_until") else None}


def _from_version_2(row: JsonObject) -> JsonObject:
    """Version 2 had only confirmations of tool calls. It would take anything else for one, so it must not read newer
    rows."""
    return row


def _from_version_3(row: JsonObject) -> JsonObject:
    """Version 3 had no sign-ins, so a replica of that version must not read newer rows."""
    return row


READERS: dict[int, ReadOlder] = {1: _from_version_1, 2: _from_version_2, 3: _from_version_3}
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
        _RECENT.put(stored, row)
    return stored


def row_from_json(stored: str) -> Confirmation:
    """Raises `NewerVersion` for a row of a newer program, and `UnreadableRecord` for anything that is not a row."""
    known = _RECENT.get(stored)
    if known is None:
        known = _read(_row(), stored, "confirmation", VERSION, READERS)
        _RECENT.put(stored, known)
    return known


class _Recent:
    """Rows that were read recently, by their stored text. A row is read many times between two changes, and parsing is
    the most expensive part. Several threads use this."""

    def __init__(self, most: int, longest: int) -> None:
        self._most, self._longest = most, longest
        self._rows: OrderedDict[str, Confirmation] = OrderedDict()
        self._lock = Lock()

    def get(self, stored: str) -> Confirmation | None:
        with self._lock:
            found = self._rows.get(stored)
            if found is not None:
                self._rows.move_to_end(stored)
            return found

    def put(self, stored: str, row: Confirmation) -> None:
        if len(stored) > self._longest:
            return
        with self._lock:
            self._rows[stored] = row
            if len(self._rows) > self._most:
                self._rows.popitem(last=False)


_RECENT = _Recent(most=2_000, longest=8_000)


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
