"""Reads the JSON schema of a tool or a payload: what kind of value a field takes, and what is wrong with a value.

It supports what pydantic, google-genai and MCP servers write: `$ref`, `anyOf` with null, `nullable`, lists of types,
types in capitals. Anything else is accepted here; the tool checks again.

A stranger may have written the schema so that reading it takes hours. Forms therefore get a `FormSchema`, which passes
each question to a function. The bot's function runs `check` in a process with limits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import JsonValue

from blocks import words
from blocks.text import plain
from blocks.values import json_text, same, spell_on_one_line

Schema = Mapping[str, JsonValue]
AskSchema = Callable[[dict[str, JsonValue], list[str] | None, dict[str, JsonValue] | None], JsonValue]
"""Calls `check`."""

_HOPS = 20
_DEEPEST = 30
_DESCRIPTION = 500
_MOST_OPTIONS = 50_000
"""Characters of all options together. A field with more is written by hand, and checked when the form is sent."""
_LIMIT = 40


@dataclass(frozen=True, slots=True)
class Shape:
    """What a schema says about a value. No kinds means any kind."""

    kinds: frozenset[str] = frozenset()
    nullable: bool = False
    options: tuple[JsonValue, ...] | None = None
    format: str | None = None
    description: str = ""
    required: bool = True
    least: float | int | None = None
    most: float | int | None = None


@dataclass(frozen=True, slots=True)
class FormSchema:
    """A schema as a form uses it. `ask` decides where it is evaluated."""

    root: dict[str, JsonValue]
    ask: AskSchema

    def shapes(self, names: Sequence[str]) -> dict[str, Shape]:
        """The shapes of those names that the schema has."""
        found = self.ask(self.root, [*names], None)
        return {name: _shape(shape) for name, shape in found.items()} if isinstance(found, dict) else {}

    def problems(self, values: Mapping[str, JsonValue]) -> dict[str, str]:
        """What is wrong with values, as a sentence for each name."""
        found = self.ask(self.root, None, {**values})
        return {name: str(sentence) for name, sentence in found.items()} if isinstance(found, dict) else {}


def check(
    root: dict[str, JsonValue], names: list[str] | None, values: dict[str, JsonValue] | None
) -> dict[str, JsonValue]:
    """The shapes of these names, or what is wrong with these values. JSON in, JSON out."""
    found: dict[str, JsonValue] = {}
    if names is not None:
        required = _resolve(root, root)[0].get("required")
        must = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
        schemas = _properties(root)
        for name in names:
            if isinstance(schema := schemas.get(name), dict):
                found[name] = asdict(shape_of(schema, root, required=name in must), dict_factory=_as_json)
    for name, value in (values or {}).items():
        inner = property_of(root, name)
        if inner is not None and (wrong := problem(value, inner, root)):
            found[name] = wrong
    return found


def _as_json(fields: list[tuple[str, Any]]) -> dict[str, Any]:  # as `dataclasses` hands them over
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in fields}


def _shape(fields: JsonValue) -> Shape:
    stored: dict[str, Any] = fields if isinstance(fields, dict) else {}  # as `_as_json` wrote it
    options = stored["options"]
    options = None if options is None else tuple(options)
    return Shape(**{**stored, "kinds": frozenset(stored["kinds"]), "options": options})


def property_of(schema: Schema | None, name: str) -> Schema | None:
    """The schema of one argument, if the tool's schema has it."""
    found = None if schema is None else _properties(schema).get(name)
    return found if isinstance(found, dict) else None


def _properties(root: Schema) -> dict[str, JsonValue]:
    properties = _resolve(root, root)[0].get("properties")
    return properties if isinstance(properties, dict) else {}


def property_names(schema: Schema | None) -> tuple[str, ...]:
    """The names at the top of a schema. It follows no reference, so any schema may be asked anywhere."""
    properties = (schema or {}).get("properties")
    return tuple(properties) if isinstance(properties, dict) else ()


def shape_of(schema: Schema, root: Schema, *, required: bool) -> Shape:
    rules, nullable = _resolve(schema, root)
    options = _options(rules)
    described, format_ = rules.get("description"), rules.get("format")
    if options is not None and len(json_text(options, enough=_MOST_OPTIONS)) > _MOST_OPTIONS:
        options = None
    return Shape(
        kinds=_kinds(rules) - {"null"},
        nullable=nullable or (options is not None and any(option is None for option in options)),
        options=tuple(option for option in options if option is not None) if options is not None else None,
        format=format_ if isinstance(format_, str) and len(format_) <= _LIMIT else None,
        description=described[:_DESCRIPTION] if isinstance(described, str) else "",
        required=required,
        least=_number(rules, "minimum"),
        most=_number(rules, "maximum"),
    )


def problem(value: JsonValue, schema: Schema, root: Schema, where: str = words.THIS, depth: int = 0) -> str | None:
    """The first problem of a value, as a sentence that names the place. None if there is none."""
    if depth > _DEEPEST:
        return None
    rules, nullable = _resolve(schema, root)
    if value is None and nullable:
        return None
    branches = _branches(rules)
    if branches and not any(problem(value, branch, root, where, depth + 1) is None for branch in branches):
        return words.FIELD_KIND.format(where=where, kind=_alternatives(branches, root))
    kinds = _kinds(rules)
    if kinds and not any(_is_kind(value, kind) for kind in kinds):
        names = [words.KINDS[kind] for kind in words.KINDS if kind in kinds]
        return words.FIELD_KIND.format(where=where, kind=" or ".join(names)) if names else None
    options = _options(rules)
    if options is not None and not any(_is_option(value, option) for option in options):
        return words.FIELD_ONE_OF.format(where=where, options=_list_options(options))
    return _out_of_bounds(value, rules, where) or _problem_inside(value, rules, root, where, depth)


def _is_option(value: JsonValue, option: JsonValue) -> bool:
    return value == option if isinstance(value, str) or isinstance(option, str) else same(value, option)


def _resolve(schema: Schema, root: Schema) -> tuple[Schema, bool]:
    """The schema with references followed and null taken out of a choice: (the rest, whether null is allowed)."""
    nullable = False
    for _ in range(_HOPS):
        nullable = nullable or schema.get("nullable") is True or "null" in _kinds(schema)
        if isinstance(reference := schema.get("$ref"), str):
            schema = {**_follow(reference, root), **{k: v for k, v in schema.items() if k != "$ref"}}
            continue
        only = _only_branch(schema)
        if only is None:
            return schema, nullable
        nullable = nullable or only[1]
        own = {k: v for k, v in schema.items() if k not in ("anyOf", "oneOf", "allOf")}
        schema = {**only[0], **own}
    return {}, nullable


def _follow(reference: str, root: Schema) -> Schema:
    found: object = root
    for part in filter(None, reference.removeprefix("#").split("/")):
        key = part.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _only_branch(schema: Schema) -> tuple[Schema, bool] | None:
    """The only branch of a choice that is not null, and whether null is allowed besides."""
    for key in ("anyOf", "oneOf", "allOf"):
        branches = _schemas(schema.get(key))
        rest = [branch for branch in branches if _kinds(branch) != {"null"}]
        if len(rest) == 1:
            return rest[0], len(rest) < len(branches)
    return None


def _branches(rules: Schema) -> list[Schema]:
    return _schemas(rules.get("anyOf")) or _schemas(rules.get("oneOf"))


def _schemas(value: JsonValue) -> list[Schema]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _kinds(rules: Schema) -> frozenset[str]:
    kind = rules.get("type")
    names = kind if isinstance(kind, list) else [kind]
    return frozenset(name.lower() for name in names if isinstance(name, str)) - {"type_unspecified"}


def _options(rules: Schema) -> list[JsonValue] | None:
    if "const" in rules:
        return [rules["const"]]
    options = rules.get("enum")
    return options if isinstance(options, list) and options else None


def _is_kind(value: JsonValue, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "null":
            return value is None
    return True  # a kind that JSON schema does not have


def _alternatives(branches: Iterable[Schema], root: Schema) -> str:
    kinds = {kind for branch in branches for kind in _kinds(_resolve(branch, root)[0])}
    return " or ".join(words.KINDS[kind] for kind in words.KINDS if kind in kinds) or words.ANOTHER_KIND


def _list_options(options: Iterable[JsonValue]) -> str:
    return plain(", ".join(spell_on_one_line(option) for option in options), 200)


def _number(rules: Schema, key: str) -> float | int | None:
    value = rules.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _out_of_bounds(value: JsonValue, rules: Schema, where: str) -> str | None:
    if isinstance(value, bool) or value is None or isinstance(value, dict):
        return None
    size = value if isinstance(value, int | float) else len(value)
    for key, sentence, wrong in _BOUNDS[type(value) if isinstance(value, str | list) else float]:
        limit = _number(rules, key)
        if limit is not None and wrong(size, limit):
            return sentence.format(where=where, limit=plain(spell_on_one_line(limit), _LIMIT))
    return None


_BOUNDS: dict[type, tuple[tuple[str, str, Callable[[float, float], bool]], ...]] = {
    float: (
        ("minimum", words.FIELD_MINIMUM, operator.lt),
        ("maximum", words.FIELD_MAXIMUM, operator.gt),
        ("exclusiveMinimum", words.FIELD_ABOVE, operator.le),
        ("exclusiveMaximum", words.FIELD_BELOW, operator.ge),
    ),
    str: (("minLength", words.FIELD_SHORT, operator.lt), ("maxLength", words.FIELD_LONG, operator.gt)),
    list: (("minItems", words.FIELD_FEW_ITEMS, operator.lt), ("maxItems", words.FIELD_MANY_ITEMS, operator.gt)),
}


def _problem_inside(value: JsonValue, rules: Schema, root: Schema, where: str, depth: int) -> str | None:
    if isinstance(value, list) and isinstance(items := rules.get("items"), dict):
        called = words.ITEM.capitalize() if where == words.THIS else words.ITEM
        numbered = ((called.format(number=index + 1), item, items) for index, item in enumerate(value))
        return _first_problem(numbered, root, where, depth)
    if not isinstance(value, dict):
        return None
    required = rules.get("required")
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in value:
            return words.FIELD_MISSING.format(where=where, name=plain(name, 60))
    properties = rules.get("properties")
    known = properties if isinstance(properties, dict) else {}
    if rules.get("additionalProperties") is False and (odd := [name for name in value if name not in known]):
        return words.FIELD_UNKNOWN.format(where=where, name=plain(odd[0], 60))
    other = rules.get("additionalProperties")
    inner = ((name, item, known.get(name, other)) for name, item in value.items())
    return _first_problem(inner, root, where, depth)


def _first_problem(
    inner: Iterable[tuple[str, JsonValue, JsonValue]], root: Schema, where: str, depth: int
) -> str | None:
    for name, item, schema in inner:
        place = plain(name, 60) if where == words.THIS else f"{where}: {plain(name, 60)}"
        found = problem(item, schema, root, place, depth + 1) if isinstance(schema, dict) else None
        if found:
            return found
    return None
