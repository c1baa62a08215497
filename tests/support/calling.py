"""Calls a function, which may be async: `python -m tests.support.calling MODULE FUNCTION ARGUMENT …`."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys


def main(module: str, function: str, *arguments: str) -> None:
    running = getattr(importlib.import_module(module), function)(*arguments)
    if inspect.iscoroutine(running):
        asyncio.run(running)


if __name__ == "__main__":
    main(*sys.argv[1:])
