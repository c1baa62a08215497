"""Makes a store's files and folders. Only their user may use them: they hold tokens, arguments and votes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

FILE, FOLDER = 0o600, 0o700


def open_private(path: Path) -> int:
    """Opens the file, and creates it if there is none. An existing one keeps its mode."""
    return os.open(path, os.O_RDWR | os.O_CREAT, FILE)


def make_private_file(path: Path) -> Path:
    """Makes a file for a library that would give it the mode from the umask. SQLite's files beside a database get its
    mode. A file that can't be made here is left to the library, which has a better error. A file that everybody may
    use, such as a backup that was put back, is its user's alone from now on.

    An existing file is not even opened. Closing it would drop the locks that SQLite holds on it in this process. Then
    another process that closes the store would believe that it is the last one, and delete the write-ahead log."""
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE))
    for one in (path, *(path.with_name(f"{path.name}-{part}") for part in ("wal", "shm"))):
        _mend(one, FILE)
    return path


def make_private_folder(path: Path) -> Path:
    """Makes a folder: nobody else gets to the files in it, whatever their modes are."""
    with suppress(OSError):
        path.mkdir(FOLDER)
    _mend(path, FOLDER)
    return path


def _mend(path: Path, mode: int) -> None:
    """Takes a file or folder from everybody. A group may keep it: there may be a reason, such as backups."""
    with suppress(OSError):
        if path.stat().st_mode & 0o007:
            path.chmod(mode)
