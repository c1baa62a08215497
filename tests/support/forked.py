"""Processes that are forked from one that has imported slow libraries: each starts at once.

    google_adk = ForkServer("google.adk.cli.fast_api")

    server = google_adk.begin("tests.support.foreign.google", env={"PORT": "0"})
    server.stdout.readline()
    server.kill()

    process = await forked("tests.bot.…", "a_function", ["an argument"], env=env)

Such a process is one of its own, as `python -m MODULE ARGUMENT …` is. It does not outlive the process that wanted it.
pytest-xdist's workers share the fork servers: see `workers.py`.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import importlib
import inspect
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from tests.support.hand_over import hand_over, received
from tests.support.scratch import SCRATCH

ROOT = Path(__file__).parents[2]
COMMAND = Path(__file__).with_name("hand_over.py")


class Fork:
    """A process that a fork server made."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self.pid = self._number()
        self._status: int | None = None
        server.setblocking(False)

    def fileno(self) -> int:
        """Can be read when the process has ended."""
        return self._server.fileno()

    def poll(self) -> int | None:
        """Its exit status, if it has ended: as in `subprocess`, negative after a signal."""
        if self._status is None:
            with suppress(BlockingIOError):
                self._status = self._number()
        return self._status

    def kill(self) -> None:
        """SIGKILL. Returns when nothing of the process is left."""
        if self.poll() is None:
            self._server.setblocking(True)
            self._server.shutdown(socket.SHUT_WR)
            self._status = self._number()
        self._server.close()

    def _number(self) -> int:
        number = self._server.recv(4, socket.MSG_WAITALL)
        if not number:
            raise RuntimeError("the process ended that forks others; its stderr says why")
        return received(number)


class Begun:
    """The parts of `subprocess.Popen` that the tests use."""

    def __init__(self, process: Fork, stdout: IO[str]) -> None:
        self._process, self.pid, self.stdout = process, process.pid, stdout

    def kill(self) -> None:
        """SIGKILL. Returns when nothing of the process is left."""
        if not self.stdout.closed:
            self.stdout.close()
            self._process.kill()


class ForkServer:
    """Its process imports these modules, but for those that are not installed. Without pytest-xdist it starts when
    it is first needed."""

    known: list[ForkServer] = []  # noqa: RUF012  (all of them, in every process)

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._address: str | None = None
        self.known.append(self)

    def begin(self, module: str, *arguments: str, env: Mapping[str, str], loud: bool = False) -> Begun:
        """`loud`: its stderr is shown."""
        read, write = os.pipe()
        with open(os.devnull, "r+b", buffering=0) as nothing, os.fdopen(write, "wb") as stdout:
            files = [nothing.fileno(), stdout.fileno(), 2 if loud else nothing.fileno()]
            return Begun(self.fork([module, *arguments], env, files), os.fdopen(read))

    def fork(self, begin: Sequence[str], env: Mapping[str, str], files: Sequence[int]) -> Fork:
        """Begins with a module, or with a function of one (`module:function`), and its arguments, in the root of the
        tree. The files are stdin, stdout and stderr."""
        return Fork(hand_over(self._listening_at(), begin, env, str(ROOT), files))

    def command(self, module: str, *arguments: str) -> list[str]:
        """What others can start in place of `python -m MODULE ARGUMENT …`."""
        return [sys.executable, "-I", "-S", str(COMMAND), self._listening_at(), module, *arguments]

    def starts(self, directory: str, stdin: int) -> subprocess.Popen[bytes]:
        """From now on others can connect: they wait until everything is imported. The process ends with its stdin."""
        self._address = f"{directory}/fork-server{self.known.index(self)}"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self._address)
            listening.listen(128)
            command = (sys.executable, "-m", __name__, str(listening.fileno()), *self._modules)
            return subprocess.Popen(command, cwd=ROOT, stdin=stdin, pass_fds=[listening.fileno()])

    def _listening_at(self) -> str:
        if self._address is None:
            directory = TemporaryDirectory(prefix="adk-confirm-fork-server-", dir=SCRATCH)
            atexit.register(directory.cleanup)
            process = self.starts(directory.name, subprocess.PIPE)
            atexit.register(process.communicate)  # closes its stdin
        assert self._address is not None
        return self._address


BOT = ForkServer("adk_confirm.bot.app", "tests.support.serving")
CLI = (f"{__name__}:command", str(ROOT))
"""With a command's arguments it is what `ForkServer.command` needs in place of `adk-confirm`."""


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
            with suppress(ProcessLookupError):  # it has ended, and its status is on its way here
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


Process = Forked | asyncio.subprocess.Process
Errors = IO[bytes] | int | None


async def forked(
    module: str, function: str, arguments: Sequence[str], *, env: Mapping[str, str], errors: Errors = None
) -> Forked:
    """Runs a function, which may be async, in a process of its own, in the root of the tree and with this environment.
    `errors` gets its stderr, which else is ours. -2, as in `subprocess`, is its stdout."""
    (their_in, our_in), (our_out, their_out) = os.pipe(), os.pipe()
    begin, files = [f"{module}:{function}", *arguments], [their_in, their_out]
    try:
        stderr = 2 if errors is None else their_out if isinstance(errors, int) else errors.fileno()
        process = await asyncio.to_thread(BOT.fork, begin, env, [*files, stderr])
    finally:
        for file in files:
            os.close(file)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(our_out, "rb", buffering=0)
    )
    return Forked(process, os.fdopen(our_in, "wb", buffering=0), reader)


@asynccontextmanager
async def adk_confirm(
    *arguments: str, cwd: Path, env: Mapping[str, str], anew: bool = False, errors: Errors = None
) -> AsyncIterator[Process]:
    """The command, until the block ends. `anew`: in a Python that begins with nothing imported."""
    process: Process
    if anew:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "adk_confirm", *arguments), cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=errors
        )
    else:
        process = await forked(__name__, "command", [str(cwd), *arguments], env=env, errors=errors)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        if isinstance(process, Forked):
            await process.close()


def command(directory: str, *arguments: str) -> None:
    """Runs in the child: `adk-confirm` in this directory."""
    os.chdir(directory)
    sys.exit(importlib.import_module("adk_confirm.bot.cli").main(arguments))


def readable(*files: socket.socket | int) -> list[socket.socket | int]:
    """Those of them, when there are any."""
    return select.select(files, [], [])[0]


def read_request(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """What somebody hands over. `ValueError`: the other side is gone."""
    length, files, *_ = socket.recv_fds(connection, 4, 3)
    return json.loads(connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)), files


def take_over(files: Sequence[int]) -> None:
    """In a fork: makes them stdin, stdout and stderr."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored if the tests run in the background


def main(listening: socket.socket, *modules: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in modules:
            with suppress(ImportError):
                importlib.import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    gc.freeze()
    alive: dict[socket.socket, int] = {}
    while 0 not in (ready := readable(0, woken, listening, *alive)):
        if woken in ready:
            os.read(woken, 1 << 12)
        for connection, pid in [*alive.items()]:
            if connection in ready:  # nobody wants it any more
                os.kill(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, 0 if connection in ready else os.WNOHANG)
            if ended:
                del alive[connection]
                tell(connection, os.waitstatus_to_exitcode(status))
                connection.close()
        if listening in ready:
            connection = listening.accept()[0]
            try:
                request, files = read_request(connection)
            except ValueError:
                connection.close()
                continue
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for file in (woken, wakes, *(each.detach() for each in (listening, connection, *alive))):
                    os.close(file)
                become(request, files)
                return
            for file in files:
                os.close(file)
            alive[connection] = pid
            tell(connection, pid)
    for pid in alive.values():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def tell(connection: socket.socket, number: int) -> None:
    with suppress(ConnectionError):
        connection.sendall(number.to_bytes(4, "big", signed=True))


def become(request: dict[str, Any], files: Sequence[int]) -> None:
    take_over(files)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    begin, *arguments = sys.argv = request["begin"]
    module, _, function = begin.partition(":")
    if not function:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    elif inspect.iscoroutine(running := getattr(importlib.import_module(module), function)(*arguments)):
        asyncio.run(running)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), *sys.argv[2:])
