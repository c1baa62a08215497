"""JSON as a type, and the one canonical spelling that fingerprints are taken over."""

from __future__ import annotations

import json
import re

from pydantic import JsonValue

Json = JsonValue
JsonObject = dict[str, JsonValue]


def canonical(value: Json) -> str:
    """The same value always gives the same text, whatever order its keys came in.

    A half of a surrogate pair, which JSON lets through alone, is spelled as its escape: no database takes it bare.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text if text.isascii() else _LONE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def same(one: Json, other: Json) -> bool:
    """Whether these are the same JSON. Python calls `1`, `true` and `1.0` equal; here they are three values."""
    return canonical(one) == canonical(other)


_LONE = re.compile("[\ud800-\udfff]")
