"""The command that pytest-xdist starts as a worker's Python: see `workers.py`. It imports little, to start at once."""

import os
import signal
import socket
import sys


def main(address: str, *python: str) -> None:
    """Hands the code and our files to a fork, and ends when the fork ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the fork gets it as well
    with socket.socket(socket.AF_UNIX) as fork:
        fork.connect(address)
        socket.send_fds(fork, [python[-1].encode()], [0, 1, 2])
        os.close(0)
        os.close(1)
        fork.recv(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
