"""Runs an MCP server that we start as a command, and passes on its output, with a limit for each line.

The SDK reads a line of any length into memory. This is a separate program between the two, so it works with any version
of the SDK: `python -I bounded_stdio.py BYTES COMMAND [ARGUMENT …]`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import FrameType

_PART = 1 << 16


def main(most: int, command: list[str]) -> int:
    # A stop signals the whole process group. This waits until the server has ended.
    signal.signal(signal.SIGTERM, _leave_it_to_the_server)
    try:
        server = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603  (what the configuration names)
    except OSError as error:
        return _fail(f"{command[0]} does not start: {error.strerror or error}")
    assert server.stdout is not None
    said, held = server.stdout.fileno(), 0
    while part := os.read(said, _PART):
        first, last = part.find(b"\n"), part.rfind(b"\n")
        if held + (len(part) if first < 0 else first) > most:
            server.kill()
            return _fail(f"{command[0]} sent a line of more than {most >> 20} MB, and was ended.")
        held = held + len(part) if first < 0 else len(part) - last - 1
        try:
            _write(part)
        except OSError:  # nobody listens any more
            server.stdout.close()
            break
    return server.wait()


def _write(part: bytes) -> None:
    rest = memoryview(part)
    while rest:
        rest = rest[os.write(1, rest) :]


def _fail(what: str) -> int:
    print(what, file=sys.stderr)
    return 1


def _leave_it_to_the_server(number: int, frame: FrameType | None) -> None:
    """Handles a signal by doing nothing. Ignoring it would be inherited by the server."""


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
