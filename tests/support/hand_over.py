"""Hands files over to a process that forks: see `forked.py` and `workers.py`.

As a command, it hands over its own, and ends with the fork. It imports little, to start at once.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence


def hand_over(
    address: str, begin: Sequence[str], env: Mapping[str, str], cwd: str, files: Sequence[int]
) -> socket.socket:
    """The fork's stdin, stdout and stderr are these files. The socket is closed when it has ended."""
    body = json.dumps({"begin": begin, "env": {**env}, "cwd": cwd}).encode()
    fork = socket.socket(socket.AF_UNIX)
    fork.connect(address)
    socket.send_fds(fork, [len(body).to_bytes(4, "big")], files)
    fork.sendall(body)
    return fork


def received(number: bytes) -> int:
    return int.from_bytes(number, "big", signed=True)


def main(address: str, *begin: str) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the fork gets it as well
    with hand_over(address, begin, os.environ, os.getcwd(), [0, 1, 2]) as fork:
        os.close(0)
        os.close(1)
        fork.recv(4, socket.MSG_WAITALL)  # its pid
        return received(fork.recv(4, socket.MSG_WAITALL))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
