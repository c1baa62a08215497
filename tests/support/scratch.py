"""Where the tests keep temporary files: in memory where there is room.

Thousands of short-lived databases wait for a disk otherwise. Only a power cut would show a test the difference.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ENOUGH = 2 * 1024**3  # a container may have 64 MB


def _directory() -> Path:
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH:
        return _MEMORY
    return Path(tempfile.gettempdir())


SCRATCH = _directory()
