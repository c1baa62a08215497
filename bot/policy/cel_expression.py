"""Evaluates a CEL expression over a call's facts, in a process of `bounded`, because the arguments may be hostile.

Imports `cel` without the command line that its package loads, which would take a tenth of our start-up time.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from types import ModuleType
from typing import Any

_empty = ModuleType("cel.cli")
_found = sys.modules.setdefault(_empty.__name__, _empty)

import cel  # noqa: E402  (it imports typer, rich and prompt-toolkit for a prompt, in whose place the empty module is)

if _found is _empty:
    del sys.modules[_empty.__name__]


@lru_cache(maxsize=512)
def compile_expression(expression: str) -> cel.Program:
    return cel.compile(expression)


def check(expression: str, facts: dict[str, Any]) -> dict[str, bool | str]:
    """Whether the expression is true, or why that can't be determined: it fails, or `gives` something else."""
    try:
        answer: object = compile_expression(expression).execute(facts)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  (the library raises whatever Python would for the failure at hand)
        if isinstance(error, KeyError):
            return {"failed": f"the call has no {error}"}
        return {"failed": " ".join(str(error).split())[:200] or type(error).__name__}
    if answer is True or answer is False:
        return {"holds": answer}
    kind = _KINDS.get(type(answer), type(answer).__name__)
    return {"failed": f"it gave {kind}, neither true nor false", "gives": kind}


_KINDS = {str: "a text", int: "a number", float: "a number", list: "a list", dict: "an object", type(None): "null"}
