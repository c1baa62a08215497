"""What a command writes to a terminal or a pipe."""

from __future__ import annotations

import contextlib
import os


def whole(file: int) -> str:
    """All that is written until the other end is closed, which a terminal reports as an error. A terminal holds only
    some 4 kB that nobody reads."""
    parts: list[bytes] = []
    with contextlib.suppress(OSError):
        while part := os.read(file, 65_536):
            parts.append(part)
    os.close(file)
    return b"".join(parts).decode()
