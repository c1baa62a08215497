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
