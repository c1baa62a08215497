"""Reads JSON that people write by hand. It is strict: anything that another reader could understand differently is
refused."""

from __future__ import annotations

import json
import re

from pydantic import JsonValue

from blocks import words
from blocks.text import plain

_DIGITS = 4000  # Python reads no longer integer

_DEEPEST = 60
"""Levels of lists and objects inside each other in one field: what is deeper can't be shown with the rest of a call."""

_OTHER_QUOTES = "“”„«»‘’'`"

_LONE = re.compile("[\ud800-\udfff]")
"""Half of a character: JSON can spell it, and hardly any program takes it."""


class NotJson(Exception):
    """What is wrong with the text, as a sentence for people."""


def parse_json(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(
            text, object_pairs_hook=_unique_names, parse_constant=_no_number, parse_float=_finite, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        raise NotJson(_reading_ended(text[error.pos :].strip())) from error
    except RecursionError as error:
        raise NotJson(words.FIELD_JSON_DEEP) from error
    if _is_deeper(value, _DEEPEST):
        raise NotJson(words.FIELD_JSON_DEEP)
    if _LONE.search(json.dumps(value, ensure_ascii=False)):
        raise NotJson(words.FIELD_JSON_HALF)
    return value


def _reading_ended(rest: str) -> str:
    """What is wrong, from the part that could not be read. Phones turn quotes into curly ones."""
    if not rest:
        return words.FIELD_JSON_CUT
    return words.FIELD_JSON_QUOTES if rest[0] in _OTHER_QUOTES else words.FIELD_JSON.format(rest=plain(rest, 20))


def _is_deeper(value: JsonValue, levels: int) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return inside is not None and (levels == 0 or any(_is_deeper(one, levels - 1) for one in inside))


def _unique_names(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for name, value in pairs:
        if name in found:
            raise NotJson(words.FIELD_JSON_TWICE.format(name=plain(name, 60)))
        found[name] = value
    return found


def _no_number(text: str) -> JsonValue:
    raise NotJson(words.FIELD_JSON_NUMBER.format(number=plain(text, 40)))


def _finite(text: str) -> float:
    value = float(text)
    if abs(value) == float("inf"):
        _no_number(text)
    return value


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        _no_number(text)
    return int(text)
