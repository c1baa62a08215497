"""Runs checks of untrusted input in a process with limits on time and memory.

A schema of an MCP server, or a condition about a call's arguments, can be written so that it takes hours, or all memory
or stack, and no library counts its steps. So such a check is a function in a file of its own, which a small process
runs, with limits of CPU time (which a busy machine does not shorten) and of memory. The process has none of our
secrets.

    check = BoundedCheck(Path(__file__).with_name("my_check.py"))   # has `def check(...)`: JSON in, JSON out
    check("kind", {"a": 1})
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.jsontypes import Json

MOST_SECONDS = 0.1
MOST_BYTES = 10 * 1024 * 1024

SCHEMAS = Path(__file__).with_name("schemas.py")
"""The check of JSON schemas."""

_CHILD = Path(__file__).with_name("child.py")
_PATIENCE = 30.0
"""How long the process may take to start and answer on a busy machine, even if it was stopped or swapped out."""

_LOADER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The only environment variables that the process gets: some Pythons do not start without them."""

_OVER_THE_LIMIT = {-signal.SIGPROF, -signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, -signal.SIGTRAP}
"""The signals that end a process over its limit. Others come from outside and say nothing about the check."""


class TooCostly(ConfirmError):
    """The check was stopped, or could not be started."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it takes more than {seconds:g} s or {MOST_BYTES >> 20} MB to check")


class CheckBroke(ConfirmError):
    """The check itself raised an exception; this has its message."""


class BoundedCheck:
    """Calls the `check` of a file, one call after the other. A call blocks until it has the answer; any thread may
    call."""

    def __init__(self, file: Path, seconds: float = MOST_SECONDS) -> None:
        self._file, self._seconds = file, seconds
        self._lock = threading.Lock()
        self._process: _Process | None = None

    def close(self) -> None:
        """Ends the process. A later call starts another one."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                process.end()

    def __call__(self, *args: Json) -> Json:
        """Raises `TooCostly` and `CheckBroke`."""
        try:
            asked = json.dumps(args).encode()
        except (RecursionError, ValueError) as error:  # too deep, or a number of thousands of digits
            raise TooCostly(self._seconds) from error
        if len(asked) > MOST_BYTES:
            raise TooCostly(self._seconds)
        with self._lock:
            answer = self._answer(asked)
        if answer is None:
            raise TooCostly(self._seconds)
        reply = json.loads(answer)
        if "over" in reply:
            raise TooCostly(self._seconds)
        if "broke" in reply:
            raise CheckBroke(reply["broke"])
        value: Json = reply["value"]
        return value

    def _answer(self, asked: bytes) -> bytes | None:
        """The answer, or None if the check went over its limit. A process that ended for another reason is replaced
        once."""
        for _ in range(2):
            process = self._ensure_process()
            try:
                return process.exchange(asked)
            except BaseException as error:  # on any error: the next answer must not be taken for this one
                self._process = None
                over = process.end()
                if not isinstance(error, OSError):
                    raise
                if over:
                    self._ensure_process()  # it starts in the background
                    return None
        raise CheckBroke("the process that checks it does not start, or was ended from outside")

    def _ensure_process(self) -> _Process:
        if self._process is None or self._process.owner != os.getpid():  # after a fork, a new one
            self._process = _Process(self._file, self._seconds)
        return self._process


class _Process:
    def __init__(self, file: Path, seconds: float) -> None:
        self.owner = os.getpid()
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(_PATIENCE)
        self._answers = self._socket.makefile("rb")
        limits = [str(seconds), str(MOST_BYTES)]
        with theirs:
            self._popen = subprocess.Popen(  # noqa: S603  (our own file)
                [sys.executable, "-I", str(_CHILD), json.dumps(sys.path), str(file), *limits],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _LOADER if name in os.environ},
            )
        atexit.register(self.end)

    def exchange(self, asked: bytes) -> bytes:
        """A line each way. Raises `OSError` when the process is gone."""
        self._socket.sendall(asked + b"\n")
        answer = self._answers.readline()
        if not answer.endswith(b"\n"):
            raise ConnectionResetError
        return answer

    def end(self) -> bool:
        """Ends the process. Returns whether it had ended by itself because of its limit."""
        atexit.unregister(self.end)
        self._answers.close()
        self._socket.close()
        if self.owner != os.getpid():
            return False
        try:
            self._popen.wait(1)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
            return True  # it did not answer in time
        return self._popen.returncode in _OVER_THE_LIMIT
