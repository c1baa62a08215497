"""Checks arguments against an MCP server's JSON schema. Run by `bounded`, because both may be hostile."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]  # it ships no types
from jsonschema.validators import validator_for  # type: ignore[import-untyped]  # it ships no types
from referencing import Registry
from referencing.exceptions import Unresolvable

_LONGEST_PROBLEM = 200
_MOST_PROBLEMS = 100


def check(schema: dict[str, Any], args: dict[str, Any] | None) -> dict[str, str] | bool:
    """The problems of arguments, by place. Without arguments, whether the schema itself is valid."""
    kind = validator_for(schema, default=Draft202012Validator)
    if args is not None:
        return _problems(kind, schema, args)
    try:
        kind.check_schema(schema)
    except SchemaError:
        return False
    return True


def _problems(kind: Any, schema: dict[str, Any], args: dict[str, Any]) -> dict[str, str]:  # a class of jsonschema's
    """References to other documents are not followed: nothing is fetched."""
    problems: dict[str, str] = {}
    try:
        problems.update(_undeclared(schema, args))
        if problems:
            return problems
        for error in kind(schema, registry=Registry()).iter_errors(args):
            if len(problems) >= _MOST_PROBLEMS:
                break
            where = ".".join(str(step) for step in error.absolute_path) or "arguments"
            if error.validator == "required":
                missing = next((name for name in error.validator_value if name not in error.instance), "")
                place = f"{where}.{missing}" if error.absolute_path else str(missing)
                problems.setdefault(place, "is missing")
            else:
                problems.setdefault(where, str(error.message)[:_LONGEST_PROBLEM])
    except Unresolvable as error:
        why = str(error)[:_LONGEST_PROBLEM]
        problems["arguments"] = f"cannot be checked, since the schema refers to something that is not there: {why}"
    return problems


def _undeclared(schema: dict[str, Any], args: dict[str, Any]) -> dict[str, str]:
    """Names that the schema declares nowhere. JSON Schema allows them unless it is told otherwise; here they are
    allowed only where the schema says so."""
    own = schema.get("properties")
    declared = own if isinstance(own, dict) else {}
    strange = [name for name in args if name not in declared]
    if not strange or schema.get("additionalProperties", False) is not False:
        return {}
    closed = Draft202012Validator({"unevaluatedProperties": False, **schema}, registry=Registry())
    known = {name: value for name, value in args.items() if name in declared}
    problem = f"is not an argument (there are: {', '.join(sorted(declared)) or 'none'})"[:_LONGEST_PROBLEM]
    return {
        name: problem
        for name in strange[:_MOST_PROBLEMS]
        if any(error.validator == "unevaluatedProperties" for error in closed.iter_errors({**known, name: args[name]}))
    }
