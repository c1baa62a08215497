"""Servers of slow libraries, forked from a process that has imported these: each starts at once.

    google_adk = Nursery("google.adk.cli.fast_api")

    server = google_adk.begin("tests.support.foreign.google", env={"PORT": "0"})
    server.stdout.readline()
    server.kill()

A server is a process of its own, as `python -m MODULE ARGUMENT …` is. It does not outlive the tests.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]


class Begun:
    """The parts of `subprocess.Popen` that the tests use."""

    def __init__(self, nursery: Nursery, pid: int, stdout: IO[str]) -> None:
        self._nursery, self.pid, self.stdout = nursery, pid, stdout

    def kill(self) -> None:
        """SIGKILL. Returns when nothing of the process is left."""
        if not self.stdout.closed:
            self.stdout.close()
            self._nursery.end(self.pid)


class Nursery:
    """Its process starts, and imports these modules, with the first server. Modules that are not installed are left
    out."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._socket: socket.socket | None = None

    def begin(self, module: str, *arguments: str, env: Mapping[str, str], loud: bool = False) -> Begun:
        """`loud`: its stderr is shown."""
        read, write = os.pipe()
        pid = self._ask({"begin": [module, *arguments], "env": {**env}, "loud": loud}, write)
        os.close(write)
        return Begun(self, pid, os.fdopen(read))

    def end(self, pid: int) -> None:
        self._ask({"end": pid})

    def _ask(self, told: dict[str, Any], *files: int) -> int:
        if self._socket is None:
            self._socket = self._started()
        body = json.dumps(told).encode()
        socket.send_fds(self._socket, [len(body).to_bytes(4, "big")], files)
        self._socket.sendall(body)
        return int.from_bytes(self._socket.recv(4, socket.MSG_WAITALL), "big")

    def _started(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        command = (sys.executable, "-m", __name__, str(theirs.fileno()), *self._modules)
        with theirs:
            process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()])
        atexit.register(process.wait)
        atexit.register(ours.close)  # runs first
        return ours


def main(asked: socket.socket, *modules: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in modules:
            with suppress(ImportError):
                importlib.import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    alive = set[int]()
    while True:
        length, files, *_ = socket.recv_fds(asked, 4, 1)
        if not length:
            break
        told = json.loads(asked.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL))
        pid = told.get("end") or os.fork()
        if pid == 0:
            asked.close()
            become(told, *files)
            return
        for file in files:
            os.close(file)
        alive.add(pid)
        if "end" in told:
            ended(pid)
            alive.discard(pid)
        asked.sendall(pid.to_bytes(4, "big"))
    for pid in alive:
        ended(pid)


def ended(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def become(told: dict[str, Any], stdout: int) -> None:
    os.dup2(stdout, 1)
    os.close(stdout)
    if not told["loud"]:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(told["env"])
    module, *_ = sys.argv = told["begin"]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), *sys.argv[2:])
