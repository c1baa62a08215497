"""Processes with the bot already imported, because they are forked from one that has it.

Starting Python and importing the bot takes a second of CPU, and the tests start hundreds of processes.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import IO

from tests.support.fork_server import ROOT, Fork, ForkServer

__all__ = ["ROOT", "Forked", "command", "forked"]

_BOT = ForkServer("adk_confirm.bot.app", "tests.support.serving")


class Forked:
    """The parts of `asyncio.subprocess.Process` that the tests use."""

    def __init__(self, process: Fork, stdin: IO[bytes], stdout: asyncio.StreamReader) -> None:
        self._process = process
        self.stdin, self.stdout = stdin, stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        if self.returncode is None:
            loop.add_reader(self._process, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(self._process)
        assert self.returncode is not None
        return self.returncode

    async def close(self) -> None:
        """Waits for the end of the process, and reads all of its output."""
        self.stdin.close()
        await self.stdout.read()
        await self.wait()
        self._process.kill()


async def forked(
    module: str, function: str, arguments: Sequence[str], *, env: Mapping[str, str], errors: IO[bytes] | None = None
) -> Forked:
    """Runs a function, which may be async, in a process of its own, in the root of the tree and with this environment.
    Without `errors` it shares our stderr."""
    (their_in, our_in), (our_out, their_out) = os.pipe(), os.pipe()
    begin, files = ["tests.support.calling", module, function, *arguments], [their_in, their_out]
    try:
        process = await asyncio.to_thread(_BOT.fork, begin, env, [*files, errors.fileno() if errors else 2])
    finally:
        for file in files:
            os.close(file)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(our_out, "rb", buffering=0)
    )
    return Forked(process, os.fdopen(our_in, "wb", buffering=0), reader)


def command(directory: str, *arguments: str) -> None:
    """Runs in the child: `adk-confirm` in this directory."""
    os.chdir(directory)
    sys.exit(importlib.import_module("adk_confirm.bot.cli").main(arguments))
