"""The fields of a form: which values can be edited, how, and what was entered."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from blocks import words
from blocks.fields import ACTION, UNTOUCHED, Choice, FieldError, JsonField, Kind, Number, OneOf, Read, Text, as_lines
from blocks.full_view import FIELD_BYTES, MOST_FIELDS
from blocks.ids import Ref
from blocks.kit import JsonObject, input_block, label
from blocks.readable import readable_name
from blocks.schema import FormSchema, Shape
from blocks.text import INPUT, plain, units, visible
from bot.confirmation.shown import ABSENT, Absent, Argument

_LABEL, _HINT = 150, 200
_MULTILINE = 60
_MENU = 100


@dataclass(frozen=True, slots=True)
class Field:
    """A value that can be edited, and the block that holds it."""

    name: str
    label: str
    block_id: str
    current: JsonValue | Absent
    kind: Kind
    shape: Shape

    def block(self) -> JsonObject:
        hints = [words.HINT_JSON] if isinstance(self.kind, JsonField) else []
        hints += [words.HINT_EMPTY_NULL] if self.shape.nullable and not isinstance(self.kind, Choice) else []
        hints += [plain(self.shape.description, _HINT)] if self.shape.description.strip() else []
        shown, hint = label(self.label, _LABEL), words.DOT.join(hints)
        return input_block(shown, self.kind.draw(), self.block_id, optional=self._optional, hint=hint)

    @property
    def _optional(self) -> bool:
        if self.current is ABSENT:
            return not self.shape.required
        return self.shape.nullable or self.current in (None, "") or not self._shows_current

    @property
    def _shows_current(self) -> bool:
        """Whether the input shows the value at first. A menu can't if the value is not one of its options."""
        return not isinstance(self.kind, Choice) or self.kind.knows_current

    def read(self, values: Mapping[str, object]) -> Read:
        """Reads what was entered. It is not checked against the schema yet."""
        block = values.get(self.block_id)
        entry = block.get(ACTION) if isinstance(block, Mapping) else None
        if block is None:
            found: Read = UNTOUCHED
        else:
            found = self.kind.read(entry) if isinstance(entry, Mapping) else FieldError(words.FIELD_UNREADABLE)
        if found is UNTOUCHED:
            missing = self.current is ABSENT and self.shape.required
            return FieldError(words.FIELD_REQUIRED) if missing else UNTOUCHED
        return found


@dataclass(frozen=True, slots=True)
class FieldsRead:
    """The result of reading a form: errors by block id, or changes without any error."""

    changes: dict[str, JsonValue] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fieldset:
    fields: tuple[Field, ...]
    fixed: tuple[Argument, ...]
    """The values that are only shown."""
    long: tuple[str, ...]
    """Which of them could be edited if they were not too long for an input."""
    crowded: bool
    """Whether some of them are only shown because a form has no room for more fields."""
    schema: FormSchema | None = None

    def read(self, values: Mapping[str, object]) -> FieldsRead:
        changes: dict[str, JsonValue] = {}
        errors: dict[str, str] = {}
        for one in self.fields:
            found = one.read(values)
            if isinstance(found, FieldError):
                errors[one.block_id] = found.sentence
            elif found is not UNTOUCHED:
                changes[one.name] = found
        wrong = self.schema.problems(changes) if self.schema is not None and changes else {}
        errors |= {one.block_id: wrong[one.name] for one in self.fields if one.name in wrong}
        return FieldsRead({}, errors) if errors else FieldsRead(changes)

    def errors_at(self, sentences: Mapping[str, str]) -> dict[str, str]:
        """Errors by block id, from sentences by field name. One without a field here goes to the first field."""
        ids = {one.name: one.block_id for one in self.fields}
        errors: dict[str, str] = {}
        for name, sentence in sentences.items():
            at = ids.get(name) or (self.fields[0].block_id if self.fields else "")
            errors[at] = f"{errors[at]} {sentence}" if at in errors else sentence
        return errors


def fieldset(arguments: Sequence[Argument], names: Sequence[str], schema: FormSchema | None, ref: Ref) -> Fieldset:
    """The fields for the arguments that `names` allows, in their order. Names that only the schema has come last,
    empty."""
    given = {argument.name for argument in arguments}
    may = dict.fromkeys(names)
    labels = Counter(readable_name(name) for name in {*given, *may})
    shapes = schema.shapes([*may]) if schema is not None and may else {}
    values: list[tuple[str, JsonValue | Absent, bool]] = [(a.name, a.value, a.masked) for a in arguments]
    values += [(name, ABSENT, False) for name in may if name not in given and name in shapes]
    fields: list[Field] = []
    fixed, long, room, crowded = [], [], FIELD_BYTES, False
    for index, (name, value, masked) in enumerate(values):
        if name in may and not masked:
            crowded = crowded or len(fields) == MOST_FIELDS
            called = readable_name(name) if labels[readable_name(name)] == 1 else name
            block_id = f"field.{ref.encode()}.{index}"
            shape = shapes.get(name, Shape())
            kind = None if crowded else _kind(value, shape)
            if kind is not None:
                found = Field(name, called, block_id, value, kind, shape)
                room -= len(json.dumps(found.block()))
                crowded = room < 0
                if not crowded:
                    fields.append(found)
                    continue
            elif not crowded:
                long.append(name)
        if value is not ABSENT:
            fixed.append(Argument(name, value, masked))
    return Fieldset(tuple(fields), tuple(fixed), tuple(long), crowded, schema)


def _kind(current: JsonValue | Absent, shape: Shape) -> Kind | None:
    """The best kind that can show the current value exactly. JSON if no other can. None if it is too long."""
    if shape.options is not None:
        return _options(current, shape)
    kinds = {*shape.kinds} or _kinds_of(current)
    unset = current is None or current is ABSENT
    if kinds == {"boolean"} and (unset or isinstance(current, bool)):
        return Choice(current, (True, False, None) if shape.nullable else (True, False), radio=True)
    if kinds in ({"integer"}, {"number"}, {"integer", "number"}):
        number = _numeric(current, whole=kinds == {"integer"})
        if unset or number is not None:
            return Number(number, shape.nullable, kinds == {"integer"}, shape.minimum, shape.maximum)
    if kinds == {"string"} and (unset or isinstance(current, str)):
        found = _textual(current if isinstance(current, str) else None, shape)
        if found is not None:
            return found
    written = JsonField(current, shape.nullable)
    return written if units(written.drawn()) <= INPUT else None


def _options(current: JsonValue | Absent, shape: Shape) -> Kind:
    options = (*(shape.options or ()), *((None,) if shape.nullable else ()))
    choice = Choice(current, options)
    return choice if len(options) <= _MENU and choice.distinct else OneOf(current, options)


def _kinds_of(current: JsonValue | Absent) -> frozenset[str]:
    """Without a schema: the kind of the value itself."""
    match current:
        case bool():
            return frozenset({"boolean"})
        case int() | float():
            return frozenset({"number"})
        case str():
            return frozenset({"string"})
    return frozenset()


def _numeric(current: JsonValue | Absent, *, whole: bool) -> int | float | None:
    if isinstance(current, bool) or not isinstance(current, int | float):
        return None
    if isinstance(current, int):
        return current if current.bit_length() <= 10_000 else None
    finite = abs(current) < float("inf")
    return current if finite and (not whole or current.is_integer()) else None


def _textual(current: str | None, shape: Shape) -> Kind | None:
    """A text field shows what people can see and type. Other strings are shown as JSON, with escapes."""
    text = current or ""
    lines = as_lines(text)
    if (
        visible(lines, keep="\n\t") != lines
        or units(lines) > INPUT
        or (lines != text and lines.count("\n") != text.count("\r\n"))
    ):
        return None
    return Text(current, shape.nullable, "\n" in lines or units(lines) > _MULTILINE, shape.format)
