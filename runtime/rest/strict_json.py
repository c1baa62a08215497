"""Reads JSON from clients strictly. Refuses JSON that is nested too deep, names that appear twice in an object, numbers
that JSON does not have, and half surrogate pairs, each with a sentence. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter

from runtime.errors import Invalid
from runtime.jsontypes import Json, JsonObject

DEEPEST = 64
MOST_VALUES = 100_000
"""The most values. A megabyte can hold half a million, and each becomes an object here."""

_HALF_A_PAIR = re.compile(r"[\ud800-\udfff]")
_LONGEST_ECHO = 200


class BadBody(Invalid):
    """The request does not fit; `details` lists where and why, in FastAPI's form."""

    def __init__(self, *details: JsonObject) -> None:
        super().__init__("; ".join(f"{_dotted_path(detail['loc'])}: {detail['msg']}" for detail in details))
        self.details: list[Json] = [*details]


def detail(kind: str, loc: tuple[str | int, ...], message: str, value: object = None) -> JsonObject:
    """One entry of a `BadBody`."""
    return {"type": kind, "loc": list(loc), "msg": message, "input": _echo(value)}


def parse(text: str) -> Json:
    """The value. Raises `BadBody`."""
    try:
        value: Json = json.loads(text, object_pairs_hook=refuse_duplicates, parse_constant=_number, parse_float=_finite)
    except json.JSONDecodeError as error:
        wrong = detail("json_invalid", ("body", error.pos), "JSON decode error", {})
        raise BadBody({**wrong, "ctx": {"error": error.msg}}) from error
    except RecursionError as error:
        raise BadBody(_too_deep()) from error
    except ValueError as error:  # ours, and that of a number with thousands of digits
        raise BadBody(detail("json_invalid", ("body",), f"JSON decode error: {error}")) from error
    _check_values(value)
    return value


def refuse_duplicates(pairs: list[tuple[str, Json]]) -> JsonObject:
    made = dict(pairs)
    if len(made) < len(pairs):
        times = Counter(name for name, _ in pairs)
        twice = next(name for name in times if times[name] > 1)
        raise ValueError(f"the name {_quote(twice)} appears twice in one object: which value is meant?")
    return made


def _number(constant: str) -> Json:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(literal: str) -> float:
    value = float(literal)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{_quote(literal)} is too large a number")
    return value


def _check_values(value: Json) -> None:
    """Checks depth, number of values, and that every text can be encoded again."""
    level: list[Json] = [value]
    count = 0
    for _ in range(DEEPEST):
        count += len(level)
        if count > MOST_VALUES:
            raise BadBody(detail("too_long", ("body",), f"The body has more than {MOST_VALUES:,} values and names"))
        inner: list[Json] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.keys())
                inner.extend(one.values())
            elif isinstance(one, list):
                inner.extend(one)
            elif isinstance(one, str) and _HALF_A_PAIR.search(one):
                raise BadBody(detail("string_unicode", ("body",), "A text holds half of a surrogate pair"))
        level = inner
        if not level:
            return
    raise BadBody(_too_deep())


def _too_deep() -> JsonObject:
    return detail("recursion_loop", ("body",), f"The body is nested too deeply: {DEEPEST} levels are the most")


def _echo(value: object) -> Json:
    """The value that was sent, shortened for the error."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return None
    echoed: Json = json.loads(text) if len(text) <= _LONGEST_ECHO else f"{text[:_LONGEST_ECHO]}…"
    return echoed


def _quote(text: str) -> str:
    return json.dumps(text if len(text) <= 60 else f"{text[:59]}…")


def _dotted_path(loc: Json) -> str:
    return ".".join(str(step) for step in loc) if isinstance(loc, list) else str(loc)
