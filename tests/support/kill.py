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

    await process.until(slack_got_it())     # anything else that the child does

`here` blocks the thread that calls it until the test says `go_on()`, also in the middle of a transaction.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from tempfile import TemporaryFile
from typing import IO, TypeVar

from tests.support.forked import ROOT, Forked, forked

T = TypeVar("T")

MARK = "@here "


def here(point: str) -> None:
    """In the child: reports this point, and waits. If the parent is gone, the child ends."""
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
        """Waits until the child is at this point. It passes other points before it."""
        while (at := await self._next_point()) != point:
            if at is None:
                raise AssertionError(await self._obituary(point))
            self.go_on()

    async def until(self, happens: Awaitable[T]) -> T:
        """Waits for something that the child does. Fails with its last words if it ends before."""
        waits = asyncio.ensure_future(happens), asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not waits[0].done():
                raise AssertionError(await self._obituary("what the test waits for"))
            return await waits[0]
        finally:
            for one in waits:
                one.cancel()
            await asyncio.wait(waits)

    def go_on(self) -> None:
        self._process.stdin.write(b"\n")

    def kill(self) -> None:
        self._process.kill()

    def freezes(self) -> None:
        """Stops the process with all its threads, until it thaws."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaws(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def asks_it_to_end(self) -> None:
        self._process.send_signal(signal.SIGINT)

    async def gone(self) -> int:
        """Its exit status, once the operating system has taken back everything that belonged to the process."""
        return await self._process.wait()

    async def finished(self) -> list[str]:
        """Lets it run to its end, which must be a success. Returns its output."""
        while await self._next_point() is not None:
            self.go_on()
        if await self._process.wait() != 0:
            raise AssertionError(await self._obituary("its end"))
        return self.said

    async def next_lines(self, count: int) -> list[str]:
        """Lines that it prints between two points."""
        return [(await self._process.stdout.readline()).decode().rstrip("\n") for _ in range(count)]

    async def last_lines(self) -> list[str]:
        """Lines that it had printed before it was killed. A line that is cut off does not count."""
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
    """Runs an async function of a test module in a process of its own. The process ends with the block."""
    with TemporaryFile() as errors:  # not a pipe: if nobody read it, it would fill up and block the child
        every = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src", **(env or {})}
        process = await forked(function.__module__, function.__qualname__, arguments, env=every, errors=errors)
        running = Child(process, errors)
        try:
            yield running
        finally:
            await running.close()
