"""Types for JSON, its canonical spelling (fingerprints are taken over that), and functions that read and write it."""

from __future__ import annotations

import cmath
import dataclasses
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from decimal import Decimal
from typing import Literal

from pydantic import BaseModel, JsonValue
from pydantic_core import from_json, to_json

from adk_confirm.runtime.errors import Invalid

Json = JsonValue
JsonObject = dict[str, JsonValue]


class NotJson(ValueError):
    """A text that is not JSON, or that not every reader of JSON would take alike. `about`: the name or number that is
    wrong; of a broken text, the rest from where it can't be read."""

    def __init__(
        self, problem: Literal["broken", "twice", "number", "half", "deep"], about: str, sentence: str
    ) -> None:
        super().__init__(sentence)
        self.problem, self.about = problem, about


def read_json(text: str, levels: int) -> Json:
    """Reads JSON strictly: no name is twice in an object, numbers are finite, no text holds half of a surrogate pair,
    and lists and objects are not nested deeper than `levels`. Raises `NotJson`."""
    try:
        value: Json = json.loads(
            text, object_pairs_hook=unique_names, parse_constant=_number, parse_float=_number, parse_int=_number
        )
        deep = is_deeper(value, levels)
    except json.JSONDecodeError as error:
        raise NotJson("broken", text[error.pos :], error.msg) from error
    except RecursionError:
        deep = True
    if deep:
        raise NotJson("deep", "", f"it is nested too deeply: {levels} levels are the most")
    if _LONE.search(json.dumps(value, ensure_ascii=False)):
        raise NotJson("half", "", "a text holds half of a surrogate pair")
    return value


def unique_names(pairs: list[tuple[str, Json]]) -> JsonObject:
    found: JsonObject = {}
    for name, value in pairs:
        if name in found:
            shown = json.dumps(name if len(name) <= 60 else f"{name[:59]}…")
            raise NotJson("twice", name, f"the name {shown} appears twice in one object: which value is meant?")
        found[name] = value
    return found


def _number(spelled: str) -> int | float:
    """A finite number that Python can spell again."""
    with suppress(ValueError):  # of an integer with thousands of digits
        number = int(spelled) if spelled.lstrip("-").isdecimal() else float(spelled)
        if isinstance(number, int) or math.isfinite(number):
            return number
    raise NotJson("number", spelled, f"{spelled[:60]} is not a JSON number, or is too large a number")


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
    """Whether two values are the same JSON to a client with one kind of number: JavaScript writes `1.0` as `1`."""
    return same(_plain(one), _plain(other))


def is_deeper(value: Json, levels: int) -> bool:
    """Whether lists and objects are nested deeper than `levels`. It does not recurse."""
    inside = [value]
    for _ in range(levels):
        inside = [inner for outer in inside for inner in _children(outer)]
    return any(isinstance(one, dict | list) for one in inside)


LARGEST = 50_000, 1_000_000
"""How many values and how many characters a call may have. No view could show more."""


def is_larger(value: Json, values: int, letters: float = math.inf) -> bool:
    """Whether a value has more than this many values, or letters and digits, in all. It counts no further."""
    left = [value]
    while left:
        inner = left.pop()
        match inner:
            case dict() | list():
                values -= len(inner)
                if values < 0:
                    return True
                left += inner.values() if isinstance(inner, dict) else inner
                letters -= sum(map(len, inner)) if isinstance(inner, dict) else 0
            case str():
                letters -= len(inner)
            case int():
                letters -= inner.bit_length() // 4
            case float():
                letters -= len(repr(inner))
        if letters < 0:
            return True
    return False


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


DEEPEST = 100
"""JSON readers give up at some depth: a value that can't be read again must not be stored."""


def as_json(value: object) -> Json:
    """Converts a value to JSON, pydantic models included. A value without a JSON form raises an error that names it."""
    try:
        text = to_json(value, inf_nan_mode="null")
        plain: Json = from_json(text)
    except ValueError as error:
        raise Invalid(f"A value of type {type(value).__name__} cannot be written as JSON: {error}") from error
    if text.count(b"[") + text.count(b"{") > DEEPEST and is_deeper(plain, DEEPEST):
        raise Invalid(f"A value of type {type(value).__name__} is nested deeper than {DEEPEST} levels.")
    return plain


_NOT_FINITE = "is not a finite number"
_HARMLESS = frozenset({str, int, bool, type(None)})


def find_non_finite(values: Mapping[str, object]) -> dict[str, str]:
    """Where arguments hold numbers that are not finite, at any depth, and what is wrong: `{"lines.0.amount": "is not
    …"}`."""
    return {where: f"{_NOT_FINITE}, but {value}" for where, value in _find(values, "")}


def _find(value: object, where: str) -> Iterator[tuple[str, object]]:
    # An explicit stack: deep nesting must not end the process.
    left: list[tuple[object, str]] = [(value, where)]
    while left:
        one, here = left.pop()
        if type(one) in _HARMLESS:
            continue
        if isinstance(one, float | complex):
            if not cmath.isfinite(one):
                yield here or "arguments", one
        elif isinstance(one, Decimal):
            if not one.is_finite():
                yield here or "arguments", one
        else:
            left += [(inner, f"{here}.{step}" if here else str(step)) for step, inner in _parts_of(one)]


def _parts_of(value: object) -> Iterable[tuple[object, object]]:
    """The parts of a value, each with its name or index."""
    if isinstance(value, dict | Mapping):  # asking whether a dict is a Mapping takes long
        return [*value.items(), *((key, key) for key in value if not isinstance(key, str))]
    if isinstance(value, BaseModel):
        return [*value.__dict__.items(), *(value.model_extra or {}).items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    if isinstance(value, list | tuple | Set):
        return list(enumerate(value))
    return ()
