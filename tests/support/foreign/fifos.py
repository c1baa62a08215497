"""The FIFOs at which a lingering tool waits, in the room that TOOL_FIFO names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def hold(room: Path, word: str) -> None:
    """The tool will linger over this word until it may go on."""
    os.mkfifo(_fifo(room, word))


def let_go(room: Path, word: str) -> None:
    """It goes on, now or when it gets there. Waits for nobody."""
    fifo = _fifo(room, word)
    open_both_ways = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)  # whoever waits to read there is let in
    ended = fifo.with_name(f"ended-{word}")
    ended.touch()
    ended.replace(fifo)  # and whoever comes later finds an empty file
    os.close(open_both_ways)


@contextmanager
def all_let_go(room: Path) -> Iterator[None]:
    """No tool waits any more when the block ends: where a test fails in the middle, the rest of them must not hang."""
    try:
        yield
    finally:
        for fifo in room.glob("fifo-*"):
            let_go(room, fifo.name.removeprefix("fifo-"))


def _fifo(room: Path, word: str) -> Path:
    return room / f"fifo-{word}"
