"""The one maker of what is kept beside a store. Only its user may use it: it holds tokens, arguments and votes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

FILE, FOLDER = 0o600, 0o700


def open_private(path: Path) -> int:
    """Opens the file, and creates it if there is none. An existing one keeps its mode."""
    return os.open(path, os.O_RDWR | os.O_CREAT, FILE)


def make_private_file(path: Path) -> Path:
    """For a library that opens files with the mode from the umask. SQLite gives the files beside a database its mode.
    What can't be made here is left to the library, which has a better error. A file that everybody may use, such as a
    backup that was put back, is its user's alone from now on.

    An existing file is not even opened. Closing it would drop the locks that SQLite holds on it in this process. Then
    another process that closes the store would believe that it is the last one, and delete the write-ahead log."""
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE))
    for one in (path, *(path.with_name(f"{path.name}-{part}") for part in ("wal", "shm"))):
        _mend(one, FILE)
    return path


def make_private_folder(path: Path) -> Path:
    """Nobody else gets to the files in it, whatever their modes are."""
    with suppress(OSError):
        path.mkdir(FOLDER)
    _mend(path, FOLDER)
    return path


def _mend(path: Path, mode: int) -> None:
    """Nobody chooses that everybody may use it. Who lets a group use it may have had a reason: backups, for example."""
    with suppress(OSError):
        if path.stat().st_mode & 0o007:
            path.chmod(mode)
