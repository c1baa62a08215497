"""Compares arguments, edits and answers with a schema, without a library. Pure; nothing is fetched."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from itertools import chain

from runtime.errors import Invalid
from runtime.jsontypes import Json, JsonObject, as_object, as_text, objects, texts

_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def check_edit(amended: JsonObject, schema: JsonObject | None, call: str) -> None:
    """Raises `Invalid`, naming the argument, for an argument that the tool does not have or of another type."""
    if problem := misfit(amended, schema, f"the call {call}"):
        raise Invalid(f"{problem}. Nothing was stored.")


def misfit(arguments: JsonObject, schema: JsonObject | None, whose: str) -> str | None:
    """What is wrong with these arguments: names that the tool does not have, or a value of another type."""
    properties = (schema or {}).get("properties")
    if not isinstance(properties, dict):
        return None
    unknown = [name for name in arguments if name not in properties]
    if unknown and not (schema or {}).get("additionalProperties"):
        known = ", ".join(properties) or "none"
        return f"T{whose[1:]} has no argument {', '.join(map(repr, unknown))}; it has {known}"
    places = ((name, value, properties.get(name)) for name, value in arguments.items())
    for where, value, rules in chain.from_iterable(_places(schema or {}, *place) for place in places):
        kinds = _declared_kinds(rules, schema)
        if kinds and not any(_is_kind(value, kind) for kind in kinds):
            return f"{where!r} of {whose} must be of type {' or '.join(kinds)}"
    return None


def undeclared_inside(schema: JsonObject, arguments: JsonObject) -> list[str]:
    """The names inside arguments that the schema does not declare. Where it declares none, anything goes."""
    found: list[str] = []
    for name, rules in _properties([*_parts(schema, schema)]).items():
        for where, value, one in _places(schema, name, arguments.get(name), rules):
            parts = [*_parts(schema, one)]
            known, is_open = (
                _properties(parts),
                any(part.get(key, False) is not False for part in parts for key in _OPEN),
            )
            if isinstance(value, dict) and not is_open and any("properties" in part for part in parts):
                found += [f"{where}.{inner}" for inner in value if inner not in known]
    return found


def with_defaults(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    """The arguments with the defaults that the schema declares for what is left out, at any depth."""
    whole = copy.deepcopy(arguments)
    for number, (_, value, rules) in enumerate(_places(schema, "", whole, schema)):
        if number > _MOST_PLACES:
            raise Invalid("The defaults in the tool's schema have no end, so nobody could be shown them.")
        parts = [*_parts(schema, rules, branches=False)]
        required = {name for part in parts for name in texts(part.get("required"))}
        for name, inner in _properties(parts).items() if isinstance(value, dict) else ():
            values = [part["default"] for part in _parts(schema, inner, branches=False) if "default" in part]
            if isinstance(value, dict) and values and name not in {*value, *required}:
                value[name] = copy.deepcopy(values[0])
    return whole


_DEEPEST, _MOST_PLACES = 64, 10_000
_OPEN = ("additionalProperties", "unevaluatedProperties", "patternProperties")


def _places(
    root: JsonObject, where: str, value: Json, rules: Json, levels: int = _DEEPEST
) -> Iterator[tuple[str, Json, Json]]:
    """The value and all that is inside it, each with the rules for it. What is inside is looked at last."""
    yield where, value, rules
    parts = [*_parts(root, rules)] if levels and isinstance(value, dict | list) else []
    for name, inner in _properties(parts).items():
        if isinstance(value, dict) and name in value:
            yield from _places(root, f"{where}.{name}" if where else name, value[name], inner, levels - 1)
    items = [part["items"] for part in parts if "items" in part]
    for at, item in enumerate(value if isinstance(value, list) and items else ()):
        yield from _places(root, f"{where}.{at}", item, _either(items), levels - 1)


def _properties(parts: list[JsonObject]) -> JsonObject:
    """The names that the parts declare. One that several declare may be what any of them says."""
    found: dict[str, list[Json]] = {}
    for part in parts:
        for name, rules in as_object(part.get("properties")).items():
            found.setdefault(name, []).append(rules)
    return {name: _either(rules) for name, rules in found.items()}


def _either(rules: list[Json]) -> Json:
    return rules[0] if len(rules) == 1 else {"anyOf": rules}


def _parts(root: JsonObject, rules: Json, *, branches: bool = True) -> Iterator[JsonObject]:
    """The schemas that are about one value: the given one, what it refers to and what it is made of, each once.
    Without `branches` only those that hold whatever the value is, and one that is an alternative to none but null."""
    waiting, seen = [rules], set[int]()
    for part in waiting:  # which grows
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        waiting += [_target(root, as_text(part.get("$ref"))), *objects(part.get("allOf"))]
        for options in (objects(part.get("anyOf")), objects(part.get("oneOf"))):
            real = [one for one in options if one.get("type") != "null"]
            waiting += options if branches else real if len(real) == 1 else []


def _target(root: JsonObject, reference: str) -> Json:
    """What a reference into the same schema names, or None."""
    found: Json = root if reference.startswith("#") else None
    for step in reference.split("/")[1:]:
        found = as_object(found).get(step.replace("~1", "/").replace("~0", "~"))
    return found


def check_answer(value: Json, schema: JsonObject | None, request: str) -> None:
    """Raises `Invalid`, naming the field, for an answer of another kind than the question's schema. Without a schema
    the answer is a text."""
    rules = schema or {"type": "string"}
    kinds = _declared_kinds(rules)
    if kinds and not any(_is_kind(value, kind) for kind in kinds):
        raise Invalid(f"The answer to {request} must be of type {' or '.join(kinds)}. Nothing was stored.")
    properties, required = rules.get("properties"), rules.get("required")
    if not isinstance(value, dict) or not isinstance(properties, dict):
        return
    for name in required if isinstance(required, list) else ():
        if name not in value:
            raise Invalid(f"The answer to {request} lacks {name!r}. Nothing was stored.")
    for name, item in value.items():
        kinds = _declared_kinds(properties.get(name))
        if kinds and not any(_is_kind(item, kind) for kind in kinds):
            raise Invalid(
                f"{name!r} of the answer to {request} must be of type {' or '.join(kinds)}. Nothing was stored."
            )


def _declared_kinds(declared: Json, root: JsonObject | None = None) -> list[str]:
    """The types that a schema allows. Empty if it does not say."""
    parts = [part for part in _parts(root or {}, declared, branches=False) if {"type", "anyOf"} & set(part)]
    if not parts:
        return []
    declared = parts[0]
    either = declared.get("anyOf")
    if isinstance(either, list) and "type" not in declared:
        inner = [_declared_kinds(one, root) for one in either]
        return [kind for kinds in inner for kind in kinds] if all(inner) else []
    kind = declared.get("type")
    kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
    found = [one.lower() for one in kinds if isinstance(one, str) and one.lower() in _KINDS]
    return [*found, "null"] if found and declared.get("nullable") is True else found


def _is_kind(value: Json, kind: str) -> bool:
    if isinstance(value, bool) and kind in ("integer", "number"):
        return False
    if isinstance(value, float) and kind == "integer":
        return value.is_integer()
    return isinstance(value, _KINDS[kind])
