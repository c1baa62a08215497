"""Python environments for versions of a library that can't be installed beside each other."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def environment(*instead: str) -> Path:
    """The Python of an environment with these versions; everything else is as in this environment.

    It is made once and kept outside the tree. Only what differs is installed in it; the rest comes from
    this environment.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or tempfile.gettempdir()) / "adk-confirm-tests"
    name = hashlib.sha256("\n".join([sys.version, sys.prefix, *instead]).encode()).hexdigest()[:16]
    python = caches / name / "bin" / "python"
    if not python.exists():
        caches.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=caches) as making:
            fresh = Path(making) / "environment"
            run(sys.executable, "-m", "venv", "--without-pip", str(fresh))
            (own,) = fresh.glob("lib/python*/site-packages")
            (own / "_below.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
            run(str(fresh / "bin" / "python"), "-m", "pip", "install", "--quiet", *instead)
            try:
                fresh.rename(caches / name)  # renamed at the end, so that nobody finds half of one
            except OSError:
                if not python.exists():  # another worker was faster
                    raise
    return python


def run(*command: str) -> str:
    alone = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"}
    ran = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True)
    assert ran.returncode == 0, f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout
