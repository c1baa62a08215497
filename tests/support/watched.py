"""A database whose transactions a test can watch: it can wait for a moment inside the runner, or kill it there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Concatenate, Literal, ParamSpec, TypeVar

from adk_confirm.runtime.store.database import Database, Tx

P = ParamSpec("P")
R = TypeVar("R")

When = Literal["before", "after"]
Watch = Callable[[When, str], Awaitable[None]]


class Watched(Database):
    """`watch` is awaited before and after each transaction, with the name of its function."""

    def __init__(self, opened: Database, watch: Watch) -> None:

        super().__init__(
            opened._engine,
            opened._hub,
            opened.url,
            read_only=opened.read_only,
            context=opened.context,
            clock=opened.clock,
        )
        self._watch = watch

    async def run(self, fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        await self._watch("before", getattr(fn, "__name__", ""))
        result = await super().run(fn, *args, **kwargs)
        await self._watch("after", getattr(fn, "__name__", ""))
        return result

    async def read(self, fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        await self._watch("before", getattr(fn, "__name__", ""))
        result = await super().read(fn, *args, **kwargs)
        await self._watch("after", getattr(fn, "__name__", ""))
        return result
