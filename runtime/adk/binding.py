"""What a tool of google-adk makes of a call's arguments, before it runs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool

from adk_confirm.runtime.adk.type_checks import misfit, with_defaults
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject, alike, as_json, find_non_finite, same, texts

_SAFETY = "safety_decision"
"""The model's word on whether to ask people. google-adk's tools for a computer read it, and their functions do not get
it."""

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def bind(tool: BaseTool, arguments: JsonObject) -> JsonObject:
    """What the tool gets beside these arguments: values for what is left out, and arguments that it completes. Raises
    `Invalid`, for the model, if the tool would not get an argument as it is written: google-adk drops unknown names and
    converts values."""
    schema = schema_of(tool)
    if schema is None:
        return {}
    function = tool if isinstance(tool, FunctionTool) else None
    if any(one.__name__ == "ComputerUseTool" for one in type(tool).__mro__):
        arguments = {name: value for name, value in arguments.items() if name != _SAFETY}
    try:
        # google-adk drops what a function does not take, whatever the schema says.
        if wrong := find_non_finite(arguments):
            raise Invalid("; ".join(f"{where!r} {why}" for where, why in wrong.items()))
        problem = misfit(schema if function is None else {**schema, "additionalProperties": False}, arguments)
        missing = [repr(name) for name in texts(schema.get("required")) if name not in arguments]
        if problem or missing:
            raise Invalid(problem or f"it needs {', '.join(missing)}")
        return _function_defaults(function, arguments) if function else _declared_defaults(schema, arguments)
    except Invalid as error:
        why = f"The call does not fit the tool {tool.name}: {error}".rstrip(".")
    raise Invalid(f"{why}. Nothing ran, and nobody was asked: call it again with what it takes.")


def _declared_defaults(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    whole = with_defaults(schema, arguments)
    return {name: value for name, value in whole.items() if name not in arguments or not same(value, arguments[name])}


def _function_defaults(tool: FunctionTool, arguments: JsonObject) -> JsonObject:
    """What the function's signature fills in, and pydantic models among its arguments."""
    preprocess = getattr(tool, "_preprocess_args_with_validation", None)  # since google-adk 2
    try:
        gets, wrong = preprocess(arguments) if preprocess is not None else (tool._preprocess_args(arguments), [])
    except BaseException as error:  # a model's validator may raise anything, and google-adk would call it again
        raise Invalid(f"the tool could not check it ({type(error).__name__})") from error
    if wrong:
        raise Invalid(" ".join(wrong))
    converted = {name: _plain(gets[name]) for name, value in arguments.items() if gets[name] is not value}
    completed = {name: value for name, value in converted.items() if _is_completed(arguments[name], value, name)}
    parameters: Mapping[str, inspect.Parameter] = inspect.signature(tool.func).parameters
    return completed | {
        name: _plain(one.default)
        for name, one in parameters.items()
        if one.default is not one.empty and one.kind not in _VARIADIC
        if name not in arguments and name not in tool._ignore_params
    }


def _is_completed(given: Json, gets: Json, where: str) -> bool:
    """Whether a converted value has more than the given one. Raises `Invalid` if it has less, or another value."""
    if isinstance(given, list) and isinstance(gets, list) and len(given) == len(gets):
        given, gets = ({str(at): one for at, one in enumerate(items)} for items in (given, gets))
    if not isinstance(given, dict) or not isinstance(gets, dict):
        if not alike(given, gets):
            raise Invalid(f"it would get {where} as {gets!r}, and not as {given!r}")
        return False
    if lost := [f"{where}.{name}" for name in given if name not in gets]:
        raise Invalid(f"it has no argument {', '.join(lost)}")
    inner = [_is_completed(value, gets[name], f"{where}.{name}") for name, value in given.items()]
    return any(inner) or len(gets) > len(given)


def _plain(value: object) -> Json:
    try:
        return repr(value) if find_non_finite({"": value}) else as_json(value)  # JSON would have a null for it
    except Invalid:
        return repr(value)


def schema_of(tool: BaseTool) -> JsonObject | None:
    """The tool's parameters as JSON schema, in whatever way it declares them. None if it does not."""
    declaration = tool._get_declaration()
    if declaration is None:
        return None
    if declaration.parameters_json_schema is not None:
        schema: JsonObject = declaration.parameters_json_schema
        return schema
    if declaration.parameters is None:
        return {"type": "object", "properties": {}}
    plain: JsonObject = declaration.parameters.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
    return plain
