"""Makes a tool from a Python function: its declaration for the model, and its arguments from and to JSON."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, partial

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError

from adk_confirm.runtime.context import ReadonlyContext
from adk_confirm.runtime.errors import ConfirmError, Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_json, canonical, find_non_finite, same
from adk_confirm.runtime.wire import json_text

CONTEXT_NAME = "tool_context"
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


_LONGEST_PROBLEM = 2000
"""Characters kept of what a validator says about one argument: it may quote the whole argument."""


class BadArguments(Invalid):
    """The arguments do not fit the tool. `fields` names those that do not."""

    def __init__(self, tool: str, fields: Mapping[str, str]) -> None:
        self.fields = {name: f"{problem:.{_LONGEST_PROBLEM}}" for name, problem in fields.items()}
        listed = "; ".join(f"{name}: {problem}" for name, problem in self.fields.items())
        super().__init__(f"The arguments of {tool} do not fit: {listed}.")


class BadTool(ConfirmError):
    """A function that can't be a tool. The message says why."""


@dataclass(frozen=True)
class Bound:
    """The arguments of a call as its tool gets them. Only this form is stored, shown and run.

    `args` has all of them as JSON: first those that were given, then the tool's defaults, which `defaults` names.
    Binding `args` again gives the same. `values` are the same arguments for a Python function.
    """

    args: JsonObject
    defaults: tuple[str, ...] = ()
    values: dict[str, object] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Signature:
    """The parameters of a function, without its context."""

    name: str
    description: str
    function: Callable[..., object]

    @classmethod
    def of(cls, function: Callable[..., object]) -> Signature:
        bare = _unwrap(function)
        name = str(getattr(bare, "__name__", "__call__"))
        name = type(function).__name__ if name == "__call__" else name
        return cls(name, inspect.cleandoc(inspect.getdoc(bare) or ""), function)

    @cached_property
    def _parameters(self) -> tuple[inspect.Parameter, ...]:
        try:
            return tuple(inspect.signature(self.function).parameters.values())
        except (TypeError, ValueError) as error:
            raise BadTool(f"{self.name} has no readable signature; wrap it in a function that has one.") from error

    @cached_property
    def _hints(self) -> dict[str, object]:
        """The types of the arguments. Those of the context and the result are often available only to type checkers."""
        bare = _unwrap(self.function)
        source: object = bare.__init__ if isinstance(bare, type) else bare  # type: ignore[misc]  # a class is called
        stand_in = types.FunctionType(_no_op.__code__, getattr(inspect.unwrap(bare), "__globals__", {}))
        written: dict[str, object] = getattr(source, "__annotations__", {})
        stand_in.__annotations__ = {k: v for k, v in written.items() if k not in ("return", CONTEXT_NAME)}
        try:
            return typing.get_type_hints(stand_in, include_extras=True)
        except NameError as error:
            raise BadTool(f"{self.name}: {error}; import the annotation's type where the tool is defined.") from error

    @cached_property
    def context_name(self) -> str | None:
        """The parameter for the context: annotated `ToolContext`, or with that name."""
        for parameter in self._parameters:
            if parameter.name == CONTEXT_NAME or _is_context(self._hints.get(parameter.name)):
                return parameter.name
        return None

    @property
    def takes_anything(self) -> bool:
        return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in self._parameters)

    @cached_property
    def _arguments(self) -> tuple[inspect.Parameter, ...]:
        return tuple(p for p in self._parameters if p.name != self.context_name and p.kind not in _VARIADIC)

    @cached_property
    def model(self) -> type[BaseModel]:
        """The arguments as one pydantic model, which gives both validation and JSON schema."""
        return self._model_of(self._arguments)

    def _model_of(self, parameters: Iterable[inspect.Parameter]) -> type[BaseModel]:
        from docstring_parser import parse  # a service in front of somebody else's agent has no functions to describe

        documented = {p.arg_name: p.description or "" for p in parse(self.description).params}
        fields: dict[str, tuple[object, object]] = {}
        try:
            for parameter in parameters:
                default = ... if parameter.default is inspect.Parameter.empty else parameter.default
                annotation = self._hints.get(parameter.name, typing.Any)
                if default is None and not _takes_none(annotation):
                    annotation = typing.Optional[annotation]  # noqa: UP045  (a type that is known at run time)
                said = documented.get(parameter.name)
                about: dict[str, typing.Any] = {"description": said} if said else {}
                # The alias allows names that pydantic reserves, such as `schema` or `_x`.
                fields[f"arg_{parameter.name}"] = (annotation, Field(default, alias=parameter.name, **about))
            return create_model(  # type: ignore[no-any-return, call-overload]  # the fields are only known now
                self.name, __config__=ConfigDict(arbitrary_types_allowed=False, allow_inf_nan=False), **fields
            )
        except PydanticUserError as error:
            raise self._no_json(error) from error

    def _no_json(self, error: PydanticUserError) -> BadTool:
        message = error.message.splitlines()[0].rstrip(".")
        why = f" ({message})" if message.startswith("Please") else ""
        for name in (p.name for p in self._arguments if p.name in self._hints):
            kind: typing.Any = self._hints[name]
            try:
                TypeAdapter(kind).json_schema()
            except PydanticUserError:
                shown = kind.__name__ if isinstance(kind, type) else str(kind)
                return BadTool(
                    f"{self.name}: the argument {name} is of type {shown}, which has no JSON form{why}; use plain "
                    "types, dataclasses or pydantic models."
                )
        return BadTool(f"{self.name} takes arguments that have no JSON form: {message}.")

    @cached_property
    def schema(self) -> JsonObject:
        try:
            schema: JsonObject = self.model.model_json_schema(by_alias=True)
        except PydanticUserError as error:
            raise self._no_json(error) from error
        schema.pop("title", None)
        properties = schema.get("properties")
        if isinstance(properties, dict):
            for value in properties.values():
                if isinstance(value, dict):
                    value.pop("title", None)
        if self.takes_anything:
            schema["additionalProperties"] = True
        return schema

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the arguments, without the context."""
        return frozenset(p.name for p in self._arguments)

    @cached_property
    def required(self) -> frozenset[str]:
        return frozenset(p.name for p in self._arguments if p.default is inspect.Parameter.empty)

    @cached_property
    def defaults(self) -> JsonObject:
        """The values of the arguments that are left out. Raises `BadTool` if a value can't be
        shown to people."""
        optional = [p for p in self._arguments if p.name not in self.required]
        model, found = self._model_of(optional), JsonObject()
        for parameter in optional:
            name, value = parameter.name, parameter.default
            try:
                if wrong := find_non_finite({name: value}):
                    raise BadArguments(self.name, wrong)
                found[name] = self._read(model, {name: as_json(value)}).args[name]
            except Invalid as error:
                raise BadTool(
                    f"{self.name}: the default of {name} ({_short_repr(value)}) can't be shown on a card as it "
                    f"would reach the function: use None, or a plain value of the annotated type. ({error})"
                ) from error
        return found

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(_unwrap(self.function))

    def callable_with(self, arguments: Mapping[str, object]) -> Callable[[], object]:
        """The function with its arguments, positional-only ones in their places."""
        only = [p for p in self._parameters if p.kind is inspect.Parameter.POSITIONAL_ONLY]
        while only and only[-1].name not in arguments:
            only.pop()
        positional = [arguments.get(p.name, p.default) for p in only]
        taken = {p.name for p in only}
        named = {name: value for name, value in arguments.items() if name not in taken}
        return functools.partial(self.function, *positional, **named)

    def bind(self, args: JsonObject, *, strict: bool = False) -> Bound:
        """The arguments in their declared types, with the defaults of those that are left out. Raises `BadArguments`,
        also for names that the function does not take: it would never see them, but people would. `strict` does not
        accept text for a number; it is for people's edits.

        A number that is not finite is refused, also if a text such as "nan" becomes one: `nan > limit` is never true.
        """
        left = {name: value for name, value in self.defaults.items() if name not in args}
        bound = self._read(self.model, {**args, **left}, strict=strict)
        # What is shown must be what runs: read again, it may not become something else.
        again = self._read(self.model, bound.args)
        if changed := [
            name
            for name, value in bound.args.items()
            if not same(again.args.get(name), value) or again.values[name] != bound.values[name]
        ]:
            raise BadArguments(self.name, dict.fromkeys(changed, "cannot be shown as the tool would get it"))
        return Bound(bound.args, tuple(left), bound.values)

    def _read(self, model: type[BaseModel], args: JsonObject, *, strict: bool = False) -> Bound:
        wrong = find_non_finite(args) or self._unknown(args)
        try:
            if wrong:
                model.model_validate(args)  # to name all that is wrong at once
                raise BadArguments(self.name, wrong)
            found = model.model_validate_json(json_text(args), strict=True) if strict else model.model_validate(args)
            given = {str(about.alias): name for name, about in model.model_fields.items() if about.alias in args}
            for alias, name in given.items():
                if isinstance(getattr(found, name), Iterator):
                    setattr(found, name, self._read_iterable(alias, getattr(found, name)))
            values = {alias: _keep_int(args[alias], getattr(found, name)) for alias, name in given.items()}
            if wrong := find_non_finite(values):
                raise BadArguments(self.name, wrong)
            dump = partial(
                found.model_dump, include=set(given.values()), by_alias=True, round_trip=True, warnings=False
            )
            spelled, plain = dump(mode="json"), dump()
        except ValidationError as error:
            raise BadArguments(self.name, {**wrong, **_problems(error)}) from error
        except PydanticSerializationError as error:
            raise BadArguments(self.name, {"arguments": f"cannot be written as JSON: {error}"}) from error
        shown = {
            name: _spell(value, spelled[name], plain[name]) if name in spelled else value
            for name, value in args.items()
        }
        return Bound(shown, values={name: values.get(name, value) for name, value in args.items()})

    def _read_iterable(self, name: str, bound: Iterator[object]) -> list[object]:
        """Reads an `Iterable`, which pydantic validates while it is read: here, and not in the middle of a predicate or
        a tool."""
        try:
            return list(bound)
        except ValidationError as error:
            wrong = {f"{name}.{where}": problem for where, problem in _problems(error).items()}
            raise BadArguments(self.name, wrong) from error

    def _unknown(self, args: JsonObject) -> dict[str, str]:
        """Names that the function does not take. A function with `**kwargs` takes all but the name of its context."""
        strange = sorted(set(args) - self.names)
        if self.takes_anything:
            strange = [name for name in strange if name == self.context_name]
        known = ", ".join(sorted(self.names)) or "none"
        return dict.fromkeys(strange, f"is not an argument (there are: {known})")


def _spell(given: Json, spelled: Json, value: object) -> Json:
    """A value's JSON. A whole number stays the number that people saw, 1500 and not 1500.0; a `Decimal` is a number,
    so that rules can compare it, where a number can be exactly that; a set has an order."""
    if isinstance(value, Decimal) and isinstance(spelled, str):
        number = float(value)
        spelled = number if Decimal(repr(number)) == value else spelled
    if isinstance(spelled, float) and type(given) is int and given == spelled:
        return given
    if isinstance(spelled, dict) and isinstance(value, Mapping) and len(value) == len(spelled):
        own = given if isinstance(given, dict) else {}
        pairs = zip(spelled.items(), value.values(), strict=True)
        return {name: _spell(own.get(name), inner, part) for (name, inner), part in pairs}
    if not isinstance(spelled, list) or not isinstance(value, Collection) or len(value) != len(spelled):
        return spelled
    if isinstance(value, set | frozenset):
        return sorted((_spell(None, *pair) for pair in zip(spelled, value, strict=True)), key=canonical)
    if isinstance(value, list | tuple):
        listed = given if isinstance(given, list) and len(given) == len(spelled) else [None] * len(spelled)
        return [_spell(*each) for each in zip(listed, spelled, value, strict=True)]
    return spelled


def _takes_none(annotation: typing.Any) -> bool:
    try:
        TypeAdapter(annotation).validate_python(None)
    except ValidationError:
        return False
    return True


def _unwrap(function: Callable[..., object]) -> Callable[..., object]:
    """The function with the name, the annotations and the docstring: a partial's function, or a callable object's
    method."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    method: Callable[..., object] = type(function).__call__.__get__(function)
    return method


def _no_op() -> None: ...


def _is_context(annotation: object) -> bool:
    """Whether the type is `ToolContext`, or a union with it."""
    if isinstance(annotation, type):
        return issubclass(annotation, ReadonlyContext)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated):
        return any(_is_context(part) for part in typing.get_args(annotation))
    return False


def _keep_int(given: object, bound: object) -> object:
    """Keeps an int for a float parameter (PEP 484), so that it stays the number that people saw: 1500, not 1500.0."""
    if isinstance(bound, float) and isinstance(given, int) and not isinstance(given, bool):
        return given
    return bound


def _problems(error: ValidationError) -> dict[str, str]:
    problems: dict[str, str] = {}
    for detail in error.errors(include_url=False, include_context=False):
        where = ".".join(str(step) for step in detail["loc"]) or "arguments"
        missing = detail["type"] == "missing"
        got = "" if missing else f", not {_short_repr(detail['input'])}"
        problems.setdefault(where, "is missing" if missing else f"{detail['msg']}{got}")
    return problems


def _short_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
