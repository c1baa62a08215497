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
    properties = (schema or {}).get("properties")
    if not isinstance(properties, dict):
        return
    for name, value in amended.items():
        if name not in properties:
            known = ", ".join(properties) or "none"
            raise Invalid(f"The call {call} has no argument {name!r}; it has {known}. Nothing was stored.")
        kinds = _declared_kinds(properties[name])
        if kinds and not any(_is_kind(value, kind) for kind in kinds):
            raise Invalid(f"{name!r} of the call {call} must be of type {' or '.join(kinds)}. Nothing was stored.")


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
    kind = declared.get("type") if isinstance(declared, dict) else None
    kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
    return [one.lower() for one in kinds if isinstance(one, str) and one.lower() in _KINDS]


def _is_kind(value: Json, kind: str) -> bool:
    if isinstance(value, bool) and kind in ("integer", "number"):
        return False
    if isinstance(value, float) and kind == "integer":
        return value.is_integer()
    return isinstance(value, _KINDS[kind])
