"""Checks edited arguments and answers against the types in a schema, without a library. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.errors import Invalid
from runtime.jsontypes import Json, JsonObject

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
    for name, value in arguments.items():
        kinds = _declared_kinds(properties.get(name))
        if kinds and not any(_is_kind(value, kind) for kind in kinds):
            return f"{name!r} of {whose} must be of type {' or '.join(kinds)}"
    return None


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


def _declared_kinds(declared: Json) -> list[str]:
    """The types that a schema allows. Empty if it does not say."""
    if not isinstance(declared, dict):
        return []
    either = declared.get("anyOf")
    if isinstance(either, list) and "type" not in declared:
        inner = [_declared_kinds(one) for one in either]
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
