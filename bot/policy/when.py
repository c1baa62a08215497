"""`when`: a CEL expression about a call. Faulty expressions are found at the start; one that fails later refuses the
call.

The result depends only on the call. `bounded` limits the cost. `cel` is imported with the first expression.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from adk_confirm.runtime.bounded.bounded_check import BoundedCheck, CheckBroke, TooCostly
from adk_confirm.runtime.errors import ConfirmError, Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, canonical
from adk_confirm.runtime.recent_dict import RecentDict

NAMES = ("tool", "args", "session", "asker", "channel", "agent", "app")
"""The names that an expression can use."""

_CONVERSIONS = {"bool", "bytes", "double", "int", "string", "uint"}
_FUNCTIONS = _CONVERSIONS - {"bool"} | {
    *("contains", "dyn", "duration", "endsWith", "has", "matches", "size", "startsWith", "timestamp", "type"),
    *("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds"),
    *("getMinutes", "getMonth", "getSeconds"),
}
_TYPES = _CONVERSIONS | {"list", "map", "null_type", "type"}
_TEXT = re.compile(r"[rRbB]{0,2}(?:\"{3}.*?\"{3}|'{3}.*?'{3}|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')", re.DOTALL)
_BOUND = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,")
_FIELD = re.compile(r"\.\s*([A-Za-z_]\w*)\b(?!\s*\()")
_INDEXED = re.compile(r"(?<=[\w)\]])\[\s*(['\"])(.*?)\1\s*\]")
_ARGUMENT = re.compile(r"\bargs((?:\.[A-Za-z_]\w*\b(?!\s*\())+)")
_INDEXED_ARGUMENT = re.compile(r"\bargs\[\s*(['\"])(.*?)\1\s*\]")
_NESTED = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_LIMIT = re.compile(r"args\.([A-Za-z_]\w*)\s*([<>]=?)\s*(-?(?:0|[1-9]\d{0,14})(?:\.\d{1,9})?)")
_NAMED = re.compile(r"[A-Za-z]\w*")


class ExpressionFailed(ConfirmError):
    """The expression gave neither true nor false for this call."""


_EVALUATED = BoundedCheck(Path(__file__).with_name("cel_expression.py"))


def check_expression(expression: str) -> None:
    """Raises `Invalid` with what is wrong if the expression can't be evaluated for calls.

    >>> check_expression("args.env == 'prod' && agrs.size > 2")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    adk_confirm.runtime.errors.Invalid: there is no `agrs`; an expression can use tool, args, session, asker...
    >>> check_expression("args.env = 'prod'")
    Traceback (most recent call last):
    adk_confirm.runtime.errors.Invalid: is not a CEL expression: use == to compare, as in args.env == 'prod'
    """
    from adk_confirm.bot.policy.cel_expression import compile_expression

    try:
        # An empty call may lack what the expression asks for, which says nothing about it.
        said = as_object(_EVALUATED(expression, {**dict.fromkeys(NAMES, ""), "args": {}}))
        program = compile_expression(expression)
    except (TooCostly, CheckBroke) as error:
        raise Invalid(str(error)) from error
    except ValueError as error:
        bare = _TEXT.sub("''", expression)
        meant = next((said for pattern, said in _OPERATORS if pattern.search(bare)), None)
        raise Invalid(f"is not a CEL expression: {meant or _syntax(str(error))}") from error
    bound = set(_BOUND.findall(_TEXT.sub("''", expression)))
    for name in program.variables():
        if name not in bound and name not in NAMES and name not in _TYPES:
            meant = f"Write args.{name} for the call's argument, or '{name}' for the text"
            if near := get_close_matches(name, NAMES, n=1):
                meant = f"Did you mean {near[0]}?"
            raise Invalid(f"there is no `{name}`; an expression can use {', '.join(NAMES)}. {meant}")
    for name in program.functions():
        if _NAMED.fullmatch(name) and name not in _FUNCTIONS:
            raise Invalid(f"there is no function `{name}`; CEL has {', '.join(sorted(_FUNCTIONS))}")
    if kind := said.get("gives"):
        raise Invalid(f"must give true or false for a call; `{expression}` gives {kind}")


def names_read(expression: str) -> set[str]:
    """The names of the values that an expression reads, as far as it spells them.

    >>> sorted(names_read("args.auth.token != '' && args['pin'] > 3 && args.env.startsWith('a.b')"))
    ['auth', 'env', 'pin', 'token']
    """
    fields = _FIELD.findall(_TEXT.sub("''", expression))
    return {*fields, *(name for _, name in _INDEXED.findall(expression))}


def arguments_read(expression: str) -> list[str]:
    """The arguments that an expression reads, as paths, as far as it spells them.

    >>> arguments_read("args.to.id == 'args.x' && args.env.startsWith('a') && args['pin'] > 3")
    ['to.id', 'env', 'pin']
    """
    paths = [path[1:] for path in _ARGUMENT.findall(_TEXT.sub("''", expression))]
    return list(dict.fromkeys([*paths, *(name for _, name in _INDEXED_ARGUMENT.findall(expression))]))


def limits_of(expression: str, name: str) -> tuple[tuple[str, float], ...] | None:
    """The comparisons with a number that an argument passes wherever the expression is true. Empty if it does not read
    the argument; None if it may say something else of it.

    >>> limits_of("args.amount <= 2000 && args.env == 'prod'", "amount")
    (('<=', 2000),)
    """
    bare = _TEXT.sub("''", expression)
    read = [path.split(".")[1] for path in _ARGUMENT.findall(bare)]
    if len(read) != len(re.findall(r"\bargs\b", bare)):
        return None  # it looks at arguments without their names
    if name not in read:
        return ()
    outside, before = bare, ""
    while outside != before:
        before, outside = outside, _NESTED.sub("", outside)
    found = [limit for part in outside.split("&&") if (limit := _LIMIT.fullmatch(part.strip())) and limit[1] == name]
    if any(sign in outside for sign in ("||", "?", "//")) or len(found) != read.count(name):
        return None
    return tuple((limit[2], json.loads(limit[3])) for limit in found)


def holds(expression: str, facts: Mapping[str, Json]) -> bool:
    """Whether the expression is true for the call. Raises `ExpressionFailed` if it gives no answer within its limits.

    The arguments come from an agent and CEL's loops can be nested, so another process evaluates it, which takes a
    while. Results are cached: evaluate in a thread first, so that the same evaluation in a transaction is fast.
    """
    names = dict(facts)
    key = _digest(expression, names)
    said = _answers.get(key)
    if said is None:
        try:
            answer = _EVALUATED(expression, names)
        except TooCostly as error:
            said = str(error)
        except CheckBroke as error:
            raise ExpressionFailed(str(error)) from error
        else:
            assert isinstance(answer, dict)
            said = str(answer["failed"]) if "failed" in answer else answer["holds"] is True
        _answers.keep(key, said)
    if isinstance(said, str):
        raise ExpressionFailed(said)
    return said


_MOST_ANSWERS, _FAILURES_FOR = 4096, 60.0


class _Answers:
    """A cache of the latest few thousand results. A failure is kept only briefly, since the evaluation may be faster in
    a minute."""

    def __init__(self) -> None:
        self._known: RecentDict[bytes, tuple[bool | str, float]] = RecentDict(_MOST_ANSWERS)
        self._lock = threading.Lock()  # threads use it

    def get(self, key: bytes) -> bool | str | None:
        with self._lock:
            said, at = self._known.get(key, (None, 0.0))
        return None if isinstance(said, str) and time.monotonic() > at + _FAILURES_FOR else said

    def keep(self, key: bytes, said: bool | str) -> None:
        with self._lock:
            if key:
                self._known[key] = said, time.monotonic()


def _digest(expression: str, names: JsonObject) -> bytes:
    """The cache key. Empty for arguments without a canonical spelling, which are not cached."""
    try:
        text = canonical([expression, names])
    except (ValueError, RecursionError):
        return b""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


_answers = _Answers()


# CEL's operators, in place of another language's.
_OPERATORS = (
    (re.compile(r"(?<![=!<>])=(?!=)"), "use == to compare, as in args.env == 'prod'"),
    (re.compile(r"===|!=="), "use == or != to compare, as in args.env == 'prod'"),
    (re.compile(r"\band\b"), "use && for \"and\", as in args.env == 'prod' && args.count > 1"),
    (re.compile(r"\bor\b"), "use || for \"or\", as in args.env == 'prod' || args.env == 'live'"),
    (re.compile(r"\bnot\b"), "use ! for \"not\", as in !args.dry_run or !(args.env in ['test', 'dev'])"),
    (re.compile(r"\bis\b"), "use == to compare, as in args.env == 'prod'"),
)


def _syntax(message: str) -> str:
    found = re.search(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?([^\n]+)", message)
    if found is None:
        return " ".join(message.split())[:200]
    line, column, what = found.groups()
    return f"line {line}, column {column}: {what[:160]}"
