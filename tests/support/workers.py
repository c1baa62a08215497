"""Workers of pytest-xdist, forked from one process that has imported the tests.

xdist starts a worker as a command, and talks to it over its stdin and stdout. Here the command (`hand_over.py`) hands
both over to a fork. The process also starts the fork servers, for all of the workers.
"""

from __future__ import annotations

import gc
import importlib
import os
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

from tests.support.forked import COMMAND, ROOT, ForkServer, read_request, readable, take_over

WITH_FORK_SERVERS = ("tests.support.forked", "tests.support.foreign.rig", "tests.support.mcp_servers")


@contextmanager
def forking(arguments: Sequence[str], inside: Path) -> Iterator[str]:
    """Starts a process that imports what pytest collects with these arguments. Its forks are workers, and the value is
    the command that starts one. Its socket is `inside` this directory."""
    with TemporaryDirectory(prefix="adk-confirm-workers-", dir=inside) as directory:
        address = f"{directory}/socket"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address)
            listening.listen()
            fork = (sys.executable, "-m", __name__, str(listening.fileno()), os.getcwd(), *arguments)
            inherited, stdin, stdout = [listening.fileno()], subprocess.PIPE, subprocess.DEVNULL
            # Hundreds of processes are started. Without byte code each of them would compile the whole product again.
            env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
            process = subprocess.Popen(fork, cwd=ROOT, env=env, stdin=stdin, stdout=stdout, pass_fds=inherited)
        with process:  # closes its stdin, which ends it
            yield shlex.join([sys.executable, "-I", "-S", str(COMMAND), address])


def main(listening: socket.socket, cwd: str, *arguments: str) -> None:
    os.chdir(cwd)
    for module in WITH_FORK_SERVERS:
        importlib.import_module(module)
    # They import what they need while this process collects, which keeps one core busy.
    servers = [server.starts(os.path.dirname(listening.getsockname()), 0) for server in ForkServer.known]
    pytest.main([*arguments, "--collect-only", "-n0", "--dist=no"])  # the workers say what it can't import
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while 0 not in (ready := readable(0, listening)):
        if listening in ready:
            command = listening.accept()[0]
            if os.fork() == 0:
                listening.close()
                become(command)
                return
            command.close()
    for server in servers:
        server.wait()
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def become(command: socket.socket) -> None:
    request, files = read_request(command)
    take_over(files)
    command.detach()  # the end of this process closes it
    sys.argv = ["-c"]
    sys.modules["__main__"] = python = ModuleType("__main__")
    exec(request["begin"][-1], vars(python))


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), *sys.argv[2:])
