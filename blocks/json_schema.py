"""A JSON schema of a tool or a payload, as a form uses it.

A stranger may have written it so that reading it takes hours. So it is read in a process with limits
(`runtime/bounded/schemas.py`), and `shapes` and `problems` block until that process has answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from adk_confirm.blocks import words
from adk_confirm.blocks.shown import PAYLOAD
from adk_confirm.blocks.text import plain
from adk_confirm.runtime.bounded.bounded_check import SCHEMAS, BoundedCheck, CheckBroke, TooCostly
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.jsontypes import Json, JsonObject

Schema = Mapping[str, JsonValue]

_NAME, _PROBLEM = 60, 300
_CHECKED = BoundedCheck(SCHEMAS)


class UnreadableSchema(ConfirmError):
    """No form can be made from this schema."""

    def __init__(self, why: str) -> None:
        super().__init__(words.FORM_UNREADABLE.format(why=why))


@dataclass(frozen=True, slots=True)
class Shape:
    """What a schema says about a value. No kinds means any kind."""

    kinds: list[str] = field(default_factory=list)
    nullable: bool = False
    options: list[JsonValue] | None = None
    format: str | None = None
    description: str = ""
    required: bool = True
    minimum: float | int | None = None
    maximum: float | int | None = None
    items: dict[str, Shape] = field(default_factory=dict)
    """Of an object, or a list of objects: the shapes of what each of them holds."""
    each: Shape | None = None
    """Of a list: the shape of its items, if they have one."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a value that was entered, and where inside it."""

    where: tuple[str | int, ...]
    what: str

    def sentence(self, inside: int = 0) -> str:
        """The sentence below a field. The first `inside` steps of `where` lead to that field, and are not said."""
        where = self.where[inside:]
        places = [plain(one, _NAME) if isinstance(one, str) else words.ITEM.format(number=one + 1) for one in where]
        if where and isinstance(where[0], int):
            places[0] = places[0].capitalize()
        return plain(f"{': '.join(places) or 'This'} {self.what}.", _PROBLEM)


def shapes(schema: Schema, names: Sequence[str]) -> dict[str, Shape]:
    """The shapes of those names that the schema has. Raises `UnreadableSchema`."""
    try:
        found: Any = _CHECKED("shapes", {**schema}, [*names])
    except (TooCostly, CheckBroke) as error:
        raise UnreadableSchema(str(error)) from error
    return {name: _shape(one) for name, one in found.items()}


def _shape(found: dict[str, Any]) -> Shape:
    items = {name: _shape(one) for name, one in found.get("items", {}).items()}
    return Shape(**found | {"items": items, "each": _shape(found["each"]) if "each" in found else None})


def problems(schema: Schema, values: Mapping[str, JsonValue]) -> dict[str, Problem]:
    """What is wrong first in each of the values. What can't be checked counts as wrong."""
    try:
        found: Any = _CHECKED("problems", {**schema}, {**values})
    except (TooCostly, CheckBroke):
        return {name: Problem((), words.FIELD_UNCHECKED) for name in values}
    return {name: Problem((*where,), what) for name, (where, what) in found.items()}


def property_names(schema: Schema | None) -> tuple[str, ...]:
    """The names at the top of a schema. It follows no reference, so any schema may be asked anywhere."""
    properties = (schema or {}).get("properties")
    return tuple(properties) if isinstance(properties, dict) else ()


def payload_fields(payload: Json, schema: Schema | None) -> JsonObject:
    """The parts of a payload that a form shows: a field for each name, or one for a payload without names."""
    if isinstance(payload, dict) and (payload or property_names(schema)):
        return payload
    return {PAYLOAD: payload}
