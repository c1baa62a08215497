"""The FIFOs at which a lingering tool waits, in the directory that TOOL_FIFO names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def hold(room: Path, word: str) -> None:
    """Lets the tool wait when it gets to this word."""
    os.mkfifo(_fifo(room, word))


def let_go(room: Path, word: str) -> None:
    """Lets the tool go on, now or when it gets there. Does not wait."""
    fifo = _fifo(room, word)
    open_both_ways = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)  # a reader that waits already is let through
    ended = fifo.with_name(f"ended-{word}")
    ended.touch()
    ended.replace(fifo)  # and a later one finds an empty file
    os.close(open_both_ways)


@contextmanager
def all_let_go(room: Path) -> Iterator[None]:
    """Lets every tool go on when the block ends: if a test fails in the middle, no tool may hang."""
    try:
        yield
    finally:
        for fifo in room.glob("fifo-*"):
            let_go(room, fifo.name.removeprefix("fifo-"))


def _fifo(room: Path, word: str) -> Path:
    return room / f"fifo-{word}"
