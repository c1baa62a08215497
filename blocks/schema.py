"""A JSON schema of a tool or a payload, as a form uses it.

A stranger may have written the schema so that reading it takes hours. So a `FormSchema` passes each question to a
function, and the bot's runs `runtime/bounded/schemas.py` in a process with limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from blocks import words
from blocks.text import plain

Schema = Mapping[str, JsonValue]
AskSchema = Callable[[str, dict[str, JsonValue], Any], Any]
"""Asks for the `shapes` of names in a schema, or for the `problems` of values. JSON in, JSON out."""

_NAME, _PROBLEM = 60, 300


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


@dataclass(frozen=True, slots=True)
class FormSchema:
    root: dict[str, JsonValue]
    ask: AskSchema

    def shapes(self, names: Sequence[str]) -> dict[str, Shape]:
        """The shapes of those names that the schema has."""
        return {name: Shape(**shape) for name, shape in self.ask("shapes", self.root, [*names]).items()}

    def problems(self, values: Mapping[str, JsonValue]) -> dict[str, str]:
        """What is wrong with values, as a sentence for each name."""
        return {name: _sentence(*wrong) for name, wrong in self.ask("problems", self.root, {**values}).items()}


def _sentence(where: Sequence[str | int], problem: str) -> str:
    places = [plain(one, _NAME) if isinstance(one, str) else words.ITEM.format(number=one + 1) for one in where]
    if where and isinstance(where[0], int):
        places[0] = places[0].capitalize()
    return plain(f"{': '.join(places) or words.THIS} {problem}.", _PROBLEM)


def property_names(schema: Schema | None) -> tuple[str, ...]:
    """The names at the top of a schema. It follows no reference, so any schema may be asked anywhere."""
    properties = (schema or {}).get("properties")
    return tuple(properties) if isinstance(properties, dict) else ()
