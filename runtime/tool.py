"""Tools: what the model may call, and the gate in front of it.

A gate is part of a tool's declaration (`require_confirmation=`) or of its body (`tool_context.request_confirmation`).
A tool never sees who approved, and never runs unless the runner says so.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar, runtime_checkable

from adk_confirm.runtime.adk.type_checks import misfits, with_defaults
from adk_confirm.runtime.bounded.bounded_check import SCHEMAS, BoundedCheck, CheckBroke, TooCostly
from adk_confirm.runtime.context import ToolContext, lost_result
from adk_confirm.runtime.errors import ConfirmError, Invalid, message_of
from adk_confirm.runtime.fence import Failed, TooLong, fenced, in_thread
from adk_confirm.runtime.jsontypes import LARGEST, Json, JsonObject, as_json, find_non_finite, is_larger
from adk_confirm.runtime.signature import BadArguments, BadTool, Bound, Signature
from adk_confirm.runtime.titles import as_title, title_fields

__all__ = [
    "BadArguments",
    "BadTool",
    "Bound",
    "ConfirmationPolicy",
    "Declaration",
    "FunctionTool",
    "Tool",
    "ToolOutcomeUnknown",
    "Toolset",
    "as_tool",
    "end_threads",
    "tool_threads",
]

Predicate = Callable[..., object]
V = TypeVar("V")

# Each synchronous function runs in its own thread. If one hangs, the event loop, other tools and gates go on.
_THREAD_NAME = "adk-confirm-tool"
_CHECKING = "adk-confirm-check"


def tool_threads() -> list[threading.Thread]:
    """The threads in which synchronous tools run now. Nothing can stop such a thread."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(_THREAD_NAME)]


def end_threads(*, patience: float) -> bool:
    """Call this before the process stops, after its event loop: waits for synchronous tools. Returns whether all that
    ran have ended."""
    until = time.monotonic() + patience
    for thread in tool_threads():
        thread.join(max(0.0, until - time.monotonic()))
    return not tool_threads()


class ToolOutcomeUnknown(ConfirmError):
    """Raise this in a tool if its connection broke after the call was sent: it may have taken effect."""


@dataclass(frozen=True)
class Declaration:
    """A tool as the model sees it."""

    name: str
    description: str
    schema: JsonObject


_PROBLEMS = BoundedCheck(SCHEMAS)


class Tool:
    """Anything that the model can call. A tool of your own has a `name`, a `description`, a JSON `schema` of its
    arguments, and `run`. It may have more: `requires_confirmation`, and as in `FunctionTool` a `hint`, `idempotent`,
    `verify`, `title(args, context)` and `preview(args, context)`."""

    name: str
    description: str = ""
    schema: JsonObject = {"type": "object", "properties": {}}  # noqa: RUF012  (each tool has its own)
    hint: str | None = None
    idempotent: bool = False
    may_ask = True
    """Whether people may be asked about any call of this tool."""
    always_asks = False
    """Whether people are asked about every call of this tool."""

    @property
    def declaration(self) -> Declaration:
        return Declaration(self.name, self.description, self.schema)

    def requires_confirmation(self, args: JsonObject) -> bool:  # noqa: ARG002  (for those that override it)
        """Whether people are asked before this call runs. Evaluated once for each call."""
        return False

    async def gated(self, args: JsonObject, context: ToolContext) -> bool:  # noqa: ARG002  (likewise)
        """Whether the call needs confirmation, like `requires_confirmation`, for a tool that needs the context or has
        to wait."""
        return await in_thread(lambda: self.requires_confirmation(args), _CHECKING, daemon=True)

    def bind(self, args: JsonObject, *, strict: bool = False) -> Bound:  # noqa: ARG002  (a schema is always strict)
        """The arguments as the tool gets them: with defaults. `gated`, `run` and `verify` get these. Raises
        `BadArguments` if the tool can't run with them. `strict` is for people's edits. The schema may be a stranger's,
        so this uses another process and blocks until that has answered.

        Names that the schema does not declare, at any depth, are refused: a tool ignores them, and people would believe
        them."""
        whole = with_defaults(self.schema, args)
        if problems := misfits(self.schema, args) | schema_problems(self.schema, whole):
            raise BadArguments(self.name, problems)
        return Bound(whole, tuple(name for name in whole if name not in args))

    async def run(self, args: JsonObject, context: ToolContext) -> Json:
        raise NotImplementedError

    async def verify(self, args: JsonObject, context: ToolContext) -> Json:  # noqa: ARG002  (for those that override it)
        """After a crash: `True` or a result if the call took effect, `False` if it did not, `None` if the tool can't
        say."""
        return None


def schema_problems(schema: JsonObject, args: JsonObject) -> dict[str, str]:
    """The problems of the arguments, by place."""
    try:
        problems = _PROBLEMS("arguments", schema, args)
    except (TooCostly, CheckBroke) as error:
        return {"arguments": f"cannot be checked against the tool's schema: {error}"}
    assert isinstance(problems, dict)
    return {where: str(problem) for where, problem in problems.items()}


@runtime_checkable
class Toolset(Protocol):
    """Tools that are known only at run time."""

    async def tools(self) -> Sequence[Tool]: ...
    async def close(self) -> None: ...


class FunctionTool(Tool):
    """A Python function, sync or async, as a tool.

    Its name, description and schema are the function's, unless others are given. A `schema` is for a function that
    takes `**arguments`, since no signature says what these are.

    `require_confirmation` is a bool, or a predicate over the call's arguments (and the context, if it names it).
    `title` says in one sentence what a call will do, for the people who are asked: a format string over the arguments,
    such as "Deploy {service} to {env}", or a function of them.
    `preview` says what the call would do, such as a plan or a diff, and must have no effect: a function of the same
    arguments that returns a text or JSON. People see it with the call. It runs again right before the tool does, for at
    most `preview_timeout` seconds each time, and if it differs, people are asked anew.
    `idempotent=True` says that the function may run again after a crash with the same `tool_context.idempotency_key`;
    `verify=` is a function of the same arguments that says whether the effect happened. After `timeout` seconds the run
    stops waiting, and the outcome is unknown. Without a timeout the session waits as long as the function takes.

    A denied call is refused. With `on_denied="call"` a function that asked by itself is called once more, as in
    google-adk: `tool_context.tool_confirmation.confirmed` is False, and what it returns is the call's result. After a
    crash it may be called again.
    """

    def __init__(
        self,
        func: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
        schema: JsonObject | None = None,
        require_confirmation: bool | Predicate = False,
        hint: str | None = None,
        title: str | Callable[..., str] | None = None,
        preview: Callable[..., object] | None = None,
        preview_timeout: float = 10.0,
        idempotent: bool = False,
        verify: Callable[..., object] | None = None,
        timeout: float | None = None,
        on_denied: Literal["refuse", "call"] = "refuse",
    ) -> None:
        self.func = func
        if on_denied not in ("refuse", "call"):
            raise BadTool(f'on_denied of {func!r} must be "refuse" or "call", not {on_denied!r}.')
        self.on_denied = on_denied
        self.hint = hint
        self.idempotent = idempotent
        self.timeout = timeout
        for given in (func, verify, preview):
            if given is not None and not callable(given):
                raise BadTool(f"{given!r} cannot be called: a tool is made of functions.")
        own = Signature.of(func)
        self._signature = own if name is None else replace(own, name=name)
        self.name = self._signature.name
        if not self.name.isidentifier():
            raise BadTool(f"A tool cannot be called {self.name}: give it a name=, or write a function with one.")
        if schema is not None and (self._signature.names or not self._signature.takes_anything):
            raise BadTool(f"{self.name} has a signature, so its schema comes from there: schema= is for **arguments.")
        if schema is not None and _PROBLEMS("valid", schema, None) is not True:
            raise BadTool(f"The schema of {self.name} is no valid JSON Schema.")
        _ = self._signature.defaults  # a default that can't be shown is reported here
        self.description = own.description if description is None else description
        self._has_own_schema = schema is not None
        self.schema = self._signature.schema if schema is None else schema
        self._verify = self._companion(verify, "verify") if verify else None
        self._title = self._check_title(title) if title is not None else None
        self._preview = self._companion(preview, "preview") if preview else None
        self._preview_timeout = preview_timeout
        self._gate = (
            self._companion(require_confirmation, "require_confirmation")
            if callable(require_confirmation)
            else bool(require_confirmation)
        )

    def __repr__(self) -> str:
        return f"FunctionTool({self.name})"

    @property
    def may_ask(self) -> bool:  # type: ignore[override]  # it follows from the function
        """A function that takes the context can ask by itself."""
        return bool(self._gate) or self._signature.context_name is not None

    @property
    def always_asks(self) -> bool:  # type: ignore[override]  # it follows from the gate
        return self._gate is True

    async def gated(self, args: JsonObject, context: ToolContext) -> bool:
        if isinstance(self._gate, bool):
            return self._gate
        verdict = await self._call_companion(self._gate, args, context)
        if verdict is None:
            raise BadTool(f"{self._gate.name} returned nothing: a predicate says True or False.")
        return bool(verdict)

    async def title(self, args: JsonObject, context: ToolContext) -> str | None:
        """The title of this call: a format string over its arguments."""
        if isinstance(self._title, Signature):
            return as_title(str(await self._call_companion(self._title, args, context)))
        return self._title

    async def preview(self, args: JsonObject, context: ToolContext) -> Json:
        """What this call would do; None if the tool has no preview."""
        if self._preview is None:
            return None
        return await preview_in_time(self._call_companion(self._preview, args, context), self._preview_timeout)

    def _check_title(self, title: str | Callable[..., str]) -> str | Signature:
        if callable(title):
            return self._companion(title, "title")
        try:
            names = {name.split(".")[0] for name in title_fields(title)}
        except ValueError as error:
            raise BadTool(f"The title of {self.name} {error}.") from None
        strange = sorted(names - self._signature.names)
        if strange and not self._signature.takes_anything:
            known = ", ".join(sorted(self._signature.names)) or "none"
            raise BadTool(
                f"The title of {self.name} names {strange[0]}, which is not an argument (there are: {known})."
            )
        return title

    def bind(self, args: JsonObject, *, strict: bool = False) -> Bound:
        if not self._has_own_schema:
            return self._signature.bind(args, strict=strict)
        bound = super().bind(args)
        return replace(bound, values=dict(bound.args))

    async def run(self, args: JsonObject, context: ToolContext) -> Json:
        value = await self._in_time(_call(self._signature, lambda: self.bind(args).values, context))
        try:
            result = as_json(value)
        except Invalid as error:
            return lost_result(self.name, str(error))
        # Like ADK, show the model a map as it is, and anything else under `result`, even if it becomes a map here.
        return {"result": result} if isinstance(result, dict) and not isinstance(value, dict) else result

    async def verify(self, args: JsonObject, context: ToolContext) -> Json:
        if self._verify is None:
            return None
        return as_json(await self._call_companion(self._verify, args, context))

    async def _in_time(self, running: Awaitable[object]) -> object:
        try:
            async with asyncio.timeout(self.timeout) as timer:
                return await running
        except TimeoutError as error:
            if not timer.expired():
                raise
            raise ToolOutcomeUnknown(
                f"{self.name} did not end within {self.timeout:g} s: nobody knows whether it took effect."
            ) from error

    def _companion(self, function: Predicate, role: str) -> Signature:
        """A function of the tool's own arguments, all of them or some."""
        companion = Signature.of(function)
        strange = sorted(companion.required - self._signature.names)
        if strange and not self._signature.takes_anything:
            known = ", ".join(sorted(self._signature.names)) or "none"
            raise BadTool(
                f"{role} of {self.name} takes {strange[0]}, which is not an argument of it (there are: {known})."
            )
        return companion

    async def _call_companion(self, companion: Signature, args: JsonObject, context: ToolContext) -> object:
        """Calls a companion with the arguments as the tool gets them, defaults included."""
        return await _call(companion, lambda: _taken_by(companion, self.bind(args).values), context)


async def _call(signature: Signature, values: Callable[[], dict[str, object]], context: object) -> object:
    """Calls a function with the values: an async one on the loop, any other in a thread. The values are bound in a
    thread in either case. The function gets the context if it takes it."""

    def bound() -> Callable[[], object]:
        own = {signature.context_name: context} if signature.context_name else {}
        return signature.callable_with({**values(), **own})

    def called(function: Callable[[], object]) -> object:
        if isinstance(context, ToolContext):
            context.begins()
        return function()

    if signature.is_async:
        result = called(await in_thread(bound, _CHECKING, daemon=True))
    else:
        run = contextvars.copy_context().run
        result = await in_thread(lambda: run(lambda: _list_generated(called(bound()))), _THREAD_NAME)
    if inspect.isasyncgen(result):
        return [item async for item in result]
    return await result if inspect.isawaitable(result) else result


def _list_generated(result: object) -> object:
    return list(result) if inspect.isgenerator(result) else result


async def preview_in_time(running: Awaitable[object], seconds: float) -> Json:
    try:
        shows = as_json(await fenced(running, seconds))
    except TooLong as error:
        raise BadTool(f"The preview took longer than {seconds:g} s.") from error
    if shows is None:
        raise BadTool("The preview returned nothing.")
    return shows


async def call_with_some(function: Signature, args: JsonObject, context: object) -> object:
    """Calls a function with those of the arguments that it takes."""
    return await _call(function, lambda: function.bind(_taken_by(function, args)).values, context)


def _taken_by(function: Signature, values: dict[str, V]) -> dict[str, V]:
    return values if function.takes_anything else {k: v for k, v in values.items() if k in function.names}


def bind(tool: Tool, args: JsonObject, *, strict: bool = False) -> Bound:
    """Binds arguments. Raises `BadArguments` for whatever the tool's own validators raise. Run it by `checked`."""
    if is_larger(args, *LARGEST):
        many = f"they have more than {LARGEST[0]:,} values or {LARGEST[1]:,} characters"
        raise BadArguments(tool.name, {"arguments": many})
    try:
        if wrong := find_non_finite(args):
            raise BadArguments(tool.name, wrong)
        return tool.bind(copy.deepcopy(args), strict=strict)
    except BadArguments:
        raise
    except BaseException as error:
        said = f"{type(error).__name__}: {message_of(error)}".removesuffix(": ")
        raise BadArguments(tool.name, {"arguments": f"the tool could not check them ({said})"}) from error


async def checked(check: Callable[[], V], tool: str, seconds: float) -> V:
    """Runs a check by the tool's own validators in a thread, as nobody knows how long it takes. Returns its result."""
    try:
        return await fenced(in_thread(check, _CHECKING, daemon=True), seconds)
    except TooLong as error:
        late = {"arguments": f"the tool did not check them within {seconds:g} s"}
        raise BadArguments(tool, late) from error
    except Failed as failed:
        raise failed.error from None


def as_tool(thing: Tool | Callable[..., object]) -> Tool:
    """Makes a tool of a plain function."""
    if isinstance(thing, Tool):
        return thing
    if callable(thing):
        return FunctionTool(thing)
    raise BadTool(f"{thing!r} is not a tool: give a function, a FunctionTool or a toolset.")


@dataclass(frozen=True)
class ConfirmationPolicy:
    """The tools of a toolset about which people are asked."""

    everything: bool = False
    names: frozenset[str] = frozenset()

    @classmethod
    def none(cls) -> ConfirmationPolicy:
        return cls()

    @classmethod
    def all(cls) -> ConfirmationPolicy:
        return cls(everything=True)

    @classmethod
    def named(cls, names: Iterable[str]) -> ConfirmationPolicy:
        if isinstance(names, str):
            raise BadTool(f"ConfirmationPolicy.named takes a set of names: {{{names!r}}}, not {names!r}.")
        return cls(names=frozenset(names))

    def holds(self, tool: str) -> bool:
        return self.everything or tool in self.names
