"""Python environments of their own, for the versions of a library that can't be installed beside each other."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = ["hypothesis", "pytest", "pytest-asyncio", "pytest-timeout"]


def environment(*instead: str, alone: bool = False) -> Path:
    """The Python of an environment with our dependencies, these ones instead of the usual versions; `alone`, with these
    and nothing of ours. Made once, and kept outside the tree."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    replaced = tuple(wanted.split(">")[0] for wanted in instead)
    ours = [needed for needed in project["dependencies"] if not needed.startswith(replaced)]
    wanted = [*instead] if alone else [*instead, *ours, *TOOLS]
    caches = Path(os.environ.get("XDG_CACHE_HOME") or tempfile.gettempdir()) / "adk-confirm-tests"
    name = hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()[:16]
    python = caches / name / "bin" / "python"
    if not python.exists():
        caches.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=caches) as making:
            fresh = Path(making) / "environment"
            run(sys.executable, "-m", "venv", str(fresh))
            run(str(fresh / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted)
            fresh.rename(caches / name)  # whoever finds it finds it complete
    return python


def run(*command: str) -> str:
    alone = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True)
    assert ran.returncode == 0, f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout
