"""Reads JSON schemas, and says what is wrong with a value. Run by `bounded_check`, because both may be hostile.

A schema is JSON Schema of any draft, or Gemini's dialect of it (`nullable`, types in capitals), which a form's schema
is rewritten from. Nothing is fetched: a reference leads into the same schema, or a value can't be checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from jsonschema.exceptions import SchemaError, ValidationError  # type: ignore[import-untyped]  # it ships no types
from jsonschema.validators import extend, validator_for  # type: ignore[import-untyped]  # it ships no types
from referencing import Registry
from referencing.exceptions import Unresolvable

Rules = dict[str, Any]
"""A schema. What is inside may be anything."""

_LONGEST = 200
_MOST_PROBLEMS = 100
_HOPS = 20
_DESCRIPTION = 500
_MOST_OPTIONS = 50_000
"""Characters of all options together. A field with more is written by hand, and checked when the form is sent."""

_KINDS = {
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_SENTENCES = {
    "enum": "must be one of: {}",
    "const": "must be one of: {}",
    "minimum": "must be {} or more",
    "exclusiveMinimum": "must be more than {}",
    "maximum": "must be {} or less",
    "exclusiveMaximum": "must be less than {}",
    "minLength": "takes at least {} characters",
    "maxLength": "takes at most {} characters",
    "minItems": "needs at least {} items",
    "maxItems": "takes at most {} items",
    "multipleOf": "must be a multiple of {}",
    "pattern": "must match the pattern {}",
    "uniqueItems": "must not have an item twice",
}


def check(what: str, schema: Rules, asked: Any) -> Any:  # JSON in, JSON out
    match what:
        case "valid":
            return _is_valid(schema)
        case "arguments":
            return _misfits(schema, asked)
        case "shapes":
            return _shapes(_plain(schema), asked)
    return _problems(_plain(schema), asked)


# -- values


def _is_valid(schema: Rules) -> bool:
    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError:
        return False
    return True


def _misfits(schema: Rules, args: Rules) -> dict[str, str]:
    """What is wrong with the arguments of a call, by place."""
    problems: dict[str, str] = {}
    try:
        problems.update(_undeclared(schema, args))
        if problems:
            return problems
        for error in _validator(schema).iter_errors(args):
            if len(problems) >= _MOST_PROBLEMS:
                break
            where, problem = _told(error)
            problems.setdefault(".".join(map(str, where)) or "arguments", problem)
    except Unresolvable as error:
        why = str(error)[:_LONGEST]
        problems["arguments"] = f"cannot be checked, since the schema refers to something that is not there: {why}"
    return problems


def _problems(root: Rules, values: Rules) -> dict[str, Any]:
    """The first problem of each value that a form changes: the place inside the value, and a text. 1.0 is no whole
    number, since people would be shown another value than the one that they wrote."""
    found = {}
    strict = _validator(root)
    integers = strict.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    strict = extend(type(strict), type_checker=integers)(root, registry=Registry())
    for name, rules in _properties(root).items():
        errors = strict.evolve(schema=rules).iter_errors(values[name]) if name in values else ()
        if error := min(errors, key=lambda one: one.validator != "type", default=None):
            found[name] = _told(error)
    return found


def _validator(schema: Rules) -> Any:  # of jsonschema, which ships no types
    return validator_for(schema, default=Draft202012Validator)(schema, registry=Registry())


def _told(error: ValidationError) -> tuple[list[str | int], str]:
    """Where a value is wrong, and how, for people. Of a choice of one schema or null: what is wrong by the schema."""
    while error.validator in ("anyOf", "oneOf"):
        causes = [one for one in error.context if one.validator_value != "null"]
        if not causes or len({one.schema_path[0] for one in causes}) > 1:
            break
        error = causes[0]
    where, limit, value = list(error.absolute_path), error.validator_value, error.instance
    match error.validator:
        case "required":
            return [*where, next(name for name in limit if name not in value)], "is missing"
        case "type":
            return where, f"must be {_kinds_in_words([error])}"
        case "anyOf" | "oneOf":
            return where, f"must be {_kinds_in_words(error.context)}"
        case "additionalProperties" if isinstance(value, dict) and limit is False:
            odd = next(name for name in value if name not in error.schema.get("properties", {}))
            return [*where, odd], "is not known here"
    if sentence := _SENTENCES.get(str(error.validator)):
        several = limit if error.validator == "enum" else [limit]
        told = ", ".join(one if isinstance(one, str) else json.dumps(one) for one in several)
        return where, sentence.format(told)[:_LONGEST]
    return where, f"is not what the tool takes: {error.message}"[:_LONGEST]


def _kinds_in_words(errors: Sequence[ValidationError]) -> str:
    kinds = {kind for one in errors if one.validator == "type" for kind in _listed(one.validator_value)}
    return " or ".join(word for kind, word in _KINDS.items() if kind in kinds) or "another kind of value"


def _undeclared(schema: Rules, args: Rules) -> dict[str, str]:
    """Names that the schema declares nowhere. JSON Schema allows them unless it is told otherwise; here they are
    allowed only where the schema says so."""
    own = schema.get("properties")
    declared = own if isinstance(own, dict) else {}
    strange = [name for name in args if name not in declared]
    if not strange or schema.get("additionalProperties", False) is not False:
        return {}
    closed = Draft202012Validator({"unevaluatedProperties": False, **schema}, registry=Registry())
    known = {name: value for name, value in args.items() if name in declared}
    problem = f"is not an argument (there are: {', '.join(sorted(declared)) or 'none'})"[:_LONGEST]
    return {
        name: problem
        for name in strange[:_MOST_PROBLEMS]
        if any(error.validator == "unevaluatedProperties" for error in closed.iter_errors({**known, name: args[name]}))
    }


# -- Gemini's dialect


def _plain(rules: Any) -> Any:  # a stranger's
    """The schema as plain JSON Schema. What is no schema is left out, since then the tool alone knows what it takes."""
    if not isinstance(rules, dict):
        return rules if isinstance(rules, bool) else True
    found = {key: value for key, value in rules.items() if key not in ("type", "nullable")}
    for key in ("properties", "$defs", "definitions", "patternProperties"):
        inside = found.pop(key, None)
        if isinstance(inside, dict):
            found[key] = {name: _plain(one) for name, one in inside.items()}
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        inside = found.pop(key, None)
        if isinstance(inside, list) and inside:
            found[key] = [_plain(one) for one in inside]
    for key in {"items", "additionalProperties", "not"} & {*found}:
        found[key] = _plain(found[key])
    if not isinstance(found.get("enum", [0]), list) or not found.get("enum", [0]):
        del found["enum"]
    kinds = [kind.lower() for kind in _listed(rules.get("type")) if isinstance(kind, str) and kind.lower() in _KINDS]
    nullable = rules.get("nullable") is True or ("null" in kinds and len(kinds) > 1)
    if kinds := [kind for kind in kinds if kind != "null" or not nullable]:
        found["type"] = kinds[0] if len(kinds) == 1 else kinds
    return {"anyOf": [found, {"type": "null"}]} if nullable else found


def _listed(value: Any) -> list[Any]:  # a stranger's
    return value if isinstance(value, list) else [value]


# -- shapes


def _shapes(root: Rules, names: list[str]) -> dict[str, Rules]:
    """What a form needs to know of the values with these names."""
    return _shapes_in(_followed(root, root)[0], root, names)


def _shapes_in(rules: Rules, root: Rules, names: list[str] | None = None) -> dict[str, Rules]:
    """The shapes of an object's members. Without names, those of an object in a list, whose own lists stay closed."""
    required, found = _listed(rules.get("required")), {}
    properties = rules.get("properties", {})
    for name in properties if names is None else names:
        if isinstance(properties.get(name), dict):
            inner, nullable = _followed(properties[name], root)
            found[name] = {**_shape(inner, nullable), "required": name in required, "items": {}}
            if names is not None and isinstance(inner.get("properties"), dict):
                found[name]["items"] = _shapes_in(inner, root)
            elif names is not None and isinstance(items := inner.get("items"), dict):
                each, nullable = _followed(items, root)
                found[name] |= {"items": _shapes_in(each, root), "each": _shape(each, nullable)}
    return found


def _shape(rules: Rules, nullable: bool) -> Rules:
    options = [rules["const"]] if "const" in rules else rules.get("enum")
    nullable = nullable or None in (options or ())
    if options is not None and len(json.dumps(options)) > _MOST_OPTIONS:
        options = None
    described = rules.get("description")
    return {
        "kinds": [kind for kind in _listed(rules.get("type", [])) if kind != "null"],
        "nullable": nullable,
        "options": None if options is None else [option for option in options if option is not None],
        "format": form if (form := rules.get("format")) in ("date", "date-time") else None,
        "description": described[:_DESCRIPTION] if isinstance(described, str) else "",
        **{key: limit if type(limit := rules.get(key)) in (int, float) else None for key in ("minimum", "maximum")},
    }


def _properties(root: Rules) -> Rules:
    properties: Rules = _followed(root, root)[0].get("properties", {})
    return properties


def _followed(rules: Rules, root: Rules) -> tuple[Rules, bool]:
    """The rules with references followed and null taken out of a choice: (the rest, whether null is allowed)."""
    nullable = False
    for _ in range(_HOPS):
        own = {key: value for key, value in rules.items() if key not in ("$ref", "anyOf", "oneOf", "allOf")}
        if isinstance(reference := rules.get("$ref"), str):
            rules = {**_target(reference, root), **own}
            continue
        branches: list[Any] = next((rules[key] for key in ("anyOf", "oneOf", "allOf") if key in rules), [])
        rest = [one for one in branches if one != {"type": "null"}]
        if len(rest) != 1 or not isinstance(rest[0], dict):
            return rules, nullable
        nullable = nullable or len(rest) < len(branches)
        rules = {**rest[0], **own}
    return {}, nullable


def _target(reference: str, root: Rules) -> Rules:
    found: Any = root
    for part in filter(None, reference.removeprefix("#").split("/")):
        key = part.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, dict) else {}
