"""Allows one serving process per file. The operating system holds the lock, so it ends with the process, however that
ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from runtime.errors import StoreError
from runtime.store.private import open_private

if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        # Others can't read the locked byte, so it is far behind the note that says who holds the lock.
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(descriptor: int) -> None:
        # flock, not lockf: POSIX record locks are silently dropped when any descriptor of the file is closed,
        # and don't keep two stores in one process apart.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class LockFile:
    """The file `x.db.lock` next to `x.db`. It stays when the lock is released: if it were removed, two processes could
    hold the lock."""

    def __init__(self, database: Path) -> None:
        path = database.with_name(database.name + ".lock")
        try:
            self._descriptor = open_private(path)
        except OSError as error:
            raise StoreError(
                f"{path} can't be written ({error.strerror}). The store needs a directory that exists and "
                "that this process may write to."
            ) from error
        try:
            _take(self._descriptor)
        except OSError as error:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            holder = os.read(self._descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StoreError(
                f"{database} is already served by process {holder}. One process serves a SQLite store: stop that one "
                "first, or use PostgreSQL to run several."
            ) from error
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        os.close(self._descriptor)
