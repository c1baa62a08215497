"""How a JSON value is written exactly: bare if that is unambiguous, otherwise as JSON, or in a box of its own. How a
number, a date or a list is made easy to read is in `readable`.

On one line a value is exact: it is either the very characters of a string, or JSON. A string that could be mistaken for
something else (`"1500"`, `" x"`, `""`, one with a newline) is written as JSON, in quotes.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from adk_confirm.blocks.text import right_to_left, units, visible
from adk_confirm.runtime.jsontypes import JsonObject

ON_ONE_LINE = 80
_ALL = sys.maxsize
_DEEPEST_INDENT = 20
_LIKE_JSON = re.compile(
    r"[\"\[{].*|null|true|false|yes|no|none|empty(?: list)?"
    r"|-?(?:[0-9,]*[0-9](?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|Infinity)|NaN",
    re.ASCII | re.DOTALL | re.I,
)


@dataclass(frozen=True, slots=True)
class SpelledValue:
    """A value as text. `boxed` if it needs lines of its own."""

    text: str
    boxed: bool


def spell_value(value: JsonValue, enough: int = _ALL) -> SpelledValue:
    """The value as text. If it is longer than `enough`, at least that much of it."""
    if isinstance(value, str):
        return _shown_string(value[:enough])
    flat = json_text(value, enough=ON_ONE_LINE + 1)
    if units(flat) <= ON_ONE_LINE and not right_to_left(flat):
        return SpelledValue(flat, boxed=False)
    return SpelledValue(json_text(value, indented=True, enough=enough), boxed=True)


def _shown_string(value: str) -> SpelledValue:
    if "\n" in value.rstrip("\n") or units(value) > ON_ONE_LINE or right_to_left(value):
        return SpelledValue(visible(value, keep="\n\t"), boxed=True)
    exact = value if value and value == value.strip() and visible(value) == value else None
    if exact is not None and not _LIKE_JSON.fullmatch(exact):
        return SpelledValue(exact, boxed=False)
    return SpelledValue(json_text(value), boxed=False)


def spell_on_one_line(value: JsonValue, enough: int = _ALL) -> str:
    """The value on one line."""
    if isinstance(value, str) and not (string := _shown_string(value[:enough])).boxed:
        return string.text
    return json_text(value, enough=enough)


def json_text(value: JsonValue, *, indented: bool = False, enough: int = _ALL) -> str:
    """The value as JSON in which every character is visible. It does not recurse, since a value may be very deep, and
    stops once there is `enough`."""
    out: list[str] = []
    written = 0
    todo: list[Iterator[str | JsonObject | list[JsonValue]]] = [iter([_flat(value, indented, enough)])]
    while todo and written <= enough:
        part = next(todo[-1], None)
        if part is None:
            todo.pop()
        elif isinstance(part, str):
            out.append(part)
            written += len(part)
        else:
            todo.append(_inside(part, len(todo), indented, enough))
    return "".join(out)


def _inside(
    value: JsonObject | list[JsonValue], depth: int, indented: bool, enough: int
) -> Iterator[str | JsonObject | list[JsonValue]]:
    """The parts of a list or an object: texts, and what has parts of its own."""
    first, last = ("{", "}") if isinstance(value, dict) else ("[", "]")
    inner, outer = ("\n" + "  " * min(at, _DEEPEST_INDENT) if indented else "" for at in (depth, depth - 1))
    before, between = first + inner, "," + (inner or " ")
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield f"{before}{_scalar(name)}: " if isinstance(value, dict) else before
        yield _flat(item, indented, enough)
        before = between
    yield outer + last


def _flat(value: JsonValue, indented: bool, enough: int) -> str | JsonObject | list[JsonValue]:
    """A value on one line. What is too long for that stays as it is."""
    if not value or not isinstance(value, dict | list):
        return _scalar(value, enough)
    return (_on_one_line(value) if indented else None) or value


_SHORT = 60


def _on_one_line(value: JsonValue) -> str | None:
    """A list or an object that is short enough for one line."""
    if _size_up_to(value, _SHORT) >= _SHORT:
        return None
    flat = json_text(value, enough=_SHORT)
    return flat if units(flat) <= _SHORT else None


def _size_up_to(value: JsonValue, enough: int) -> int:
    """About how long it is, counted no further than needed, because this is asked at every level of a deep value."""
    size, todo = 0, [value]
    while todo and size < enough:
        inner = todo.pop()
        size += len(inner) if isinstance(inner, str) else 1
        if isinstance(inner, dict):
            todo += [part for pair in itertools.islice(inner.items(), enough) for part in pair]
        elif isinstance(inner, list):
            todo += inner[:enough]
    return size


def _scalar(value: JsonValue, enough: int = _ALL) -> str:
    """A value with nothing inside."""
    if isinstance(value, str):
        return visible(_spell(value[:enough]))
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 10_000:
        return hex(value)  # Python writes no integer of more than 4,300 digits
    return _spell(value)


_spell = json.JSONEncoder(ensure_ascii=False).encode
