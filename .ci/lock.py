"""Writes constraints.txt and build.txt: exact versions, with the hashes of their wheels for Linux."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

TEXTS = {
    "constraints.txt": "The versions that a deployment installs, with the hashes of their wheels for Linux.",
    "build.txt": "What builds the wheel, by hash.",
}
BUILD = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
WANTED = {"constraints.txt": [".[adk,mcp,otel,postgres]"], "build.txt": BUILD}


def pip(python: str, *arguments: str) -> str:
    command = [python, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603  (our own words)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def lock(file: str, directory: Path) -> None:
    venv.create(directory / "venv", with_pip=True)
    python = str(directory / "venv" / "bin" / "python")
    pip(python, "install", "--quiet", *WANTED[file])
    frozen = [line for line in pip(python, "freeze", "--exclude", "adk-confirm").splitlines() if "==" in line]
    (directory / "frozen").write_text("\n".join(frozen))
    for machine in ("x86_64", "aarch64"):
        kinds = [f"--platform={kind}_{machine}" for kind in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")]
        exact = ["--no-deps", "--only-binary=:all:", "--python-version=3.13", "--implementation=cp", *kinds]
        pip(sys.executable, "download", "--quiet", *exact, f"--dest={directory / machine}", f"-r{directory / 'frozen'}")
    hashes: dict[tuple[str, str], set[str]] = {}
    for wheel in directory.glob("*/*.whl"):
        name, version = wheel.name.split("-")[:2]
        hashes.setdefault((normal(name), version), set()).add(hashlib.sha256(wheel.read_bytes()).hexdigest())
    lines = [f"# {TEXTS[file]} Made by `make lock`: do not edit."]
    for pin in frozen:
        name, version = pin.split("==")
        lines.append(" ".join([pin, *(f"--hash=sha256:{one}" for one in sorted(hashes[normal(name), version]))]))
    Path(file).write_text("\n".join(lines) + "\n", encoding="utf-8")


for file in WANTED:
    with tempfile.TemporaryDirectory() as temporary:
        lock(file, Path(temporary))
