"""Refuses infinity and "not a number", because comparisons with them give surprising results. Pure."""

from __future__ import annotations

import cmath
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Set
from decimal import Decimal

from pydantic import BaseModel

NOT_FINITE = "is not a finite number"
_HARMLESS = frozenset({str, int, bool, type(None)})


def find_non_finite(values: Mapping[str, object]) -> dict[str, str]:
    """Where arguments have such numbers, at any depth, and what is wrong: `{"lines.0.amount": "is not …"}`."""
    return {where: f"{NOT_FINITE}, but {value}" for where, value in _find(values, "")}


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
