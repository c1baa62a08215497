"""Processes with the bot already imported, because they are forked from one that has it.

Starting Python and importing the bot takes a second of CPU, and the tests start hundreds of processes.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["bot.app", "tests.support.serving"])


class Forked:
    """The parts of `asyncio.subprocess.Process` that the tests use."""

    def __init__(self, process: ForkServerProcess, stdin: IO[bytes], stdout: asyncio.StreamReader) -> None:
        self._process = process
        self.stdin, self.stdout = stdin, stdout

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._process.sentinel)
        assert self.returncode is not None
        return self.returncode

    async def close(self) -> None:
        """Waits for the end of the process, and reads all of its output."""
        self.stdin.close()
        await self.stdout.read()
        await self.wait()
        self._process.close()


async def forked(
    module: str, function: str, arguments: Sequence[str], *, env: Mapping[str, str], errors: IO[bytes] | None = None
) -> Forked:
    """Runs a function, which may be async, in a process of its own, in the root of the tree and with this environment.
    Without `errors` it shares our stderr."""
    (their_in, our_in), (our_out, their_out) = os.pipe(), os.pipe()
    theirs = Connection(their_in), Connection(their_out), Connection(os.dup(errors.fileno() if errors else 2))
    process = _context.Process(target=_run_child, args=(theirs, dict(env), module, function, *arguments))
    await asyncio.to_thread(process.start)
    for each in theirs:
        each.close()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(our_out, "rb", buffering=0)
    )
    return Forked(process, os.fdopen(our_in, "wb", buffering=0), reader)


def _run_child(ours: Sequence[Connection], env: Mapping[str, str], module: str, function: str, *arguments: str) -> None:
    for number, each in enumerate(ours):
        os.dup2(each.fileno(), number)
        each.close()
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1))
    os.environ.clear()
    os.environ.update(env)
    os.chdir(ROOT)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored if the tests run in the background
    running = getattr(importlib.import_module(module), function)(*arguments)
    if inspect.iscoroutine(running):
        asyncio.run(running)


def command(directory: str, *arguments: str) -> None:
    """Runs in the child: `adk-confirm` in this directory."""
    os.chdir(directory)
    sys.exit(importlib.import_module("bot.cli").main(arguments))
