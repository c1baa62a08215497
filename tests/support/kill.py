"""Processes that are stopped, or killed, at a named point. A kill is a SIGKILL: no `finally`, no `atexit`.

    async def half_done(url: str) -> None:              # at the top of a test module; runs in the child
        database = await Database.open(url)
        await database.run(write_something)
        here("written")
        await database.run(write_more)

    async def test_…(database_url: str) -> None:
        async with child(half_done, database_url) as process:
            await process.reached("written")
            process.kill()

`here` blocks the thread that calls it until the test says `go_on()`, also in the middle of a transaction.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from tempfile import TemporaryFile
from typing import IO

from tests.support.forked import ROOT, Forked, forked

MARK = "@here "


def here(point: str) -> None:
    """In the child: says where it is, and waits. Without a parent there is nothing left to do."""
    sys.stdout.flush()
    os.write(1, f"{MARK}{point}\n".encode())
    if sys.stdin.readline() == "":
        os._exit(3)


class Child:
    def __init__(self, process: Forked, errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self.said: list[str] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    async def reached(self, point: str) -> None:
        """Returns when the child stands there; other points before it are passed."""
        while (at := await self._next_point()) != point:
            if at is None:
                raise AssertionError(await self._obituary(point))
            self.go_on()

    def go_on(self) -> None:
        self._process.stdin.write(b"\n")

    def kill(self) -> None:
        self._process.kill()

    def freezes(self) -> None:
        """It stands still, with all its threads, until it thaws."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaws(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def is_told_to_end(self) -> None:
        self._process.send_signal(signal.SIGINT)

    async def gone(self) -> None:
        """Returns when the operating system has taken back all that was the process's."""
        await self._process.wait()

    async def finished(self) -> list[str]:
        """Lets it run to its end, which must be a good one; what it printed."""
        while await self._next_point() is not None:
            self.go_on()
        if await self._process.wait() != 0:
            raise AssertionError(await self._obituary("its end"))
        return self.said

    async def next_lines(self, count: int) -> list[str]:
        """What it prints meanwhile, between two points."""
        return [(await self._process.stdout.readline()).decode().rstrip("\n") for _ in range(count)]

    async def last_lines(self) -> list[str]:
        """What it had still printed when it was killed; a line cut off does not count."""
        *whole, _ = (await self._process.stdout.read()).decode().split("\n")
        return whole

    async def close(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.close()

    async def _next_point(self) -> str | None:
        while line := (await self._process.stdout.readline()).decode():
            if line.startswith(MARK):
                return line.removeprefix(MARK).rstrip("\n")
            self.said.append(line.rstrip("\n"))
        return None

    async def _obituary(self, point: str) -> str:
        status = await self._process.wait()
        self._errors.seek(0)
        return f"the child ended before {point}, with {status}:\n{self._errors.read().decode()}"


@asynccontextmanager
async def child(
    function: Callable[..., Awaitable[None]], *arguments: str, env: dict[str, str] | None = None
) -> AsyncIterator[Child]:
    """Runs an async function of a test module in a process of its own. Nothing of it outlives the block."""
    with TemporaryFile() as errors:  # not a pipe: one that nobody reads would fill and block the child
        every = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        process = await forked(function.__module__, function.__qualname__, arguments, env=every, errors=errors)
        running = Child(process, errors)
        try:
            yield running
        finally:
            await running.close()
