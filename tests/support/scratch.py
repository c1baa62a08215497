"""The directory for the tests' temporary files: in memory if there is room.

Otherwise thousands of short-lived databases wait for a disk. Only a power cut would make a difference to a test.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ENOUGH = 2 * 1024**3  # in a container it may have only 64 MB


def _directory() -> Path:
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH:
        return _MEMORY
    return Path(tempfile.gettempdir())


SCRATCH = _directory()
