"""Misbehaviour on demand: the next calls of a method are limited, fail, hang, or lose their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from adk_confirm.sandbox.reading import JsonObject

Kind = Literal["limit", "fail", "cut", "hang", "slow", "garble", "refuse"]
Where = Callable[[JsonObject], bool]


@dataclass(slots=True)
class Fault:
    """One rule. `acted` means that Slack did what the app asked before it failed: only the answer is lost."""

    method: str
    kind: Kind
    acted: bool = False
    left: int | None = 1
    where: Where | None = None
    status: int = 500
    seconds: float = 0.0
    code: str = ""
    met: int = 0
    _reached: asyncio.Event = field(default_factory=asyncio.Event)
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    async def reached(self) -> None:
        """Waits until a call meets this fault."""
        await self._reached.wait()

    def release(self) -> None:
        """Lets the calls that hang in it continue."""
        self._released.set()

    async def hold(self) -> None:
        await self._released.wait()

    def meet(self) -> None:
        self.met += 1
        self._reached.set()
        if self.left is not None:
            self.left -= 1


class Faults:
    """The rules. `method` is Slack's name or a shell pattern; a rule is for `times` calls (None: until cleared)."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []

    def limits(
        self, method: str, *, retry_after: float = 1, times: int | None = 1, where: Where | None = None
    ) -> Fault:
        """429 with Retry-After."""
        return self._add(Fault(method, "limit", seconds=retry_after, left=times, where=where))

    def fails(
        self,
        method: str,
        *,
        status: int = 500,
        acted: bool = False,
        times: int | None = 1,
        where: Where | None = None,
    ) -> Fault:
        return self._add(Fault(method, "fail", status=status, acted=acted, left=times, where=where))

    def cuts(self, method: str, *, acted: bool = False, times: int | None = 1, where: Where | None = None) -> Fault:
        """The connection breaks without an answer."""
        return self._add(Fault(method, "cut", acted=acted, left=times, where=where))

    def hangs(self, method: str, *, acted: bool = False, times: int | None = 1, where: Where | None = None) -> Fault:
        """No answer until the rule is released."""
        return self._add(Fault(method, "hang", acted=acted, left=times, where=where))

    def slows(self, method: str, seconds: float, *, times: int | None = 1, where: Where | None = None) -> Fault:
        return self._add(Fault(method, "slow", seconds=seconds, left=times, where=where))

    def garbles(
        self, method: str, kind: str = "application/json", *, times: int | None = 1, where: Where | None = None
    ) -> Fault:
        """A 200 whose body is not JSON, and of this kind."""
        return self._add(Fault(method, "garble", acted=True, left=times, where=where, code=kind))

    def refuses(self, method: str, code: str, *, times: int | None = 1, where: Where | None = None) -> Fault:
        return self._add(Fault(method, "refuse", code=code, left=times, where=where))

    def clear(self, method: str = "*") -> None:
        """Removes the rules, and lets the calls that hang continue."""
        for fault in self._rules:
            if fnmatchcase(fault.method, method):
                fault.left = 0
                fault.release()
        self._rules = [fault for fault in self._rules if fault.left != 0]

    def take(self, method: str, args: JsonObject) -> Fault | None:
        for fault in self._rules:
            fits = fnmatchcase(method, fault.method) and (fault.where is None or fault.where(args))
            if fits and fault.left != 0:
                fault.meet()
                return fault
        return None

    def _add(self, fault: Fault) -> Fault:
        self._rules.append(fault)
        return fault
