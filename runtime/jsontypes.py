"""Types for JSON, its canonical spelling (fingerprints are taken over that), and functions that read parts of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from pydantic import JsonValue

Json = JsonValue
JsonObject = dict[str, JsonValue]


def canonical(value: Json) -> str:
    """Equal values always give the same text, whatever the order of their keys.

    Half of a surrogate pair, which JSON allows, is written as its escape, since no database stores it bare.
    """
    spelled = _CANONICAL(value)
    return spelled if spelled.isascii() else _LONE.sub(lambda found: f"\\u{ord(found.group()):04x}", spelled)


def same(one: Json, other: Json) -> bool:
    """Whether two values are the same JSON. Python calls `1`, `true` and `1.0` equal; here they are three values."""
    try:
        return canonical(one) == canonical(other)
    except ValueError:
        return False  # what is not JSON, such as NaN, equals nothing


def alike(one: Json, other: Json) -> bool:
    """The same, for a client that knows one kind of number: JavaScript writes `1.0` as `1`."""
    return same(_plain(one), _plain(other))


def is_deeper(value: Json, levels: int) -> bool:
    """Whether lists and objects are nested deeper than `levels`. It does not recurse."""
    inside = [value]
    for _ in range(levels):
        inside = [inner for outer in inside for inner in _children(outer)]
    return any(isinstance(one, dict | list) for one in inside)


def as_object(value: Json) -> JsonObject:
    """A value from outside, read as an object: empty if it is something else. The next three do the same."""
    return value if isinstance(value, dict) else {}


def objects(value: Json) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def texts(value: Json) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _children(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _plain(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_LONE = re.compile("[\ud800-\udfff]")
