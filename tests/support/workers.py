"""Workers of pytest-xdist, forked from one process that has imported the tests.

xdist starts a worker as a command, and talks to it over its stdin and stdout. Here the command (`worker_command.py`)
hands both over to a fork.
"""

from __future__ import annotations

import gc
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import pytest

COMMAND = Path(__file__).with_name("worker_command.py")


@contextmanager
def forking(arguments: Sequence[str], inside: Path) -> Iterator[str]:
    """Starts a process that imports what pytest collects with these arguments. Its forks are workers, and the value is
    the command that starts one. Its socket is `inside` this directory."""
    with TemporaryDirectory(prefix="adk-confirm-workers-", dir=inside) as directory:
        address = f"{directory}/socket"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address)
            listening.listen()
            fork = (sys.executable, __file__, str(listening.fileno()), *arguments)
            process = subprocess.Popen(
                fork, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[listening.fileno()]
            )
        with process:  # closes its stdin, which ends it
            yield shlex.join([sys.executable, "-I", "-S", str(COMMAND), address])


def main(listening: socket.socket, *arguments: str) -> None:
    pytest.main([*arguments, "--collect-only", "-n0", "--dist=no"])  # the workers say what it can't import
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    either: list[socket.socket | int] = [listening, 0]
    while listening in select.select(either, [], [])[0]:
        command = listening.accept()[0]
        if os.fork() == 0:
            listening.close()
            become(command)
            return
        command.close()
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def become(command: socket.socket) -> None:
    code, files, *_ = socket.recv_fds(command, 1 << 12, 3)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1))
    command.detach()  # the end of this process closes it
    sys.argv = ["-c"]
    sys.modules["__main__"] = python = ModuleType("__main__")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    exec(code, vars(python))


if __name__ == "__main__":
    del sys.path[0]  # tests import nothing from this directory
    main(socket.socket(fileno=int(sys.argv[1])), *sys.argv[2:])
