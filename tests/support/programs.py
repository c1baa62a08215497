"""The ADK servers of other languages in tests/servers: each is built once, from its language's registry.

`python -m tests.support.programs` builds those whose tools are installed. A program is kept outside the tree under the
hash of its sources, as `environments` keeps Python's.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "servers"
BUILT = ".built"


@dataclass(frozen=True)
class Program:
    """Commands, run beside a copy of its sources. What is written in `kept` serves later builds, too."""

    name: str
    build: tuple[tuple[str, ...], ...]
    start: tuple[str, ...]
    kept: str | None = None

    @property
    def missing(self) -> list[str]:
        wanted = {command[0] for command in (*self.build, self.start) if "{" not in command[0]}
        return sorted(tool for tool in wanted if shutil.which(tool) is None)


JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")

PROGRAMS = {
    one.name: one
    for one in (
        Program(
            "js",
            (("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"),),
            ("node", "{room}/server.mjs"),
        ),
        Program("go", (("go", "build", "-p", "2", "-o", "server", "."),), ("{room}/server",)),
        Program(
            "rust",
            (("cargo", "build", "--quiet", "--jobs", "2"), ("cp", "{kept}/debug/adk-confirm-test-server", "server")),
            ("{room}/server",),
            kept="CARGO_TARGET_DIR",
        ),
        Program(
            "java",
            (
                (
                    "mvn",
                    "-B",
                    "-q",
                    "dependency:copy-dependencies",
                    "-DoutputDirectory=libraries",
                    "-DincludeScope=runtime",
                ),
                ("javac", "-parameters", "-cp", "libraries/*", "-d", ".", "Server.java"),
            ),
            ("java", *JVM, "-cp", "{room}:{room}/libraries/*", "Server"),
        ),
    )
}


class ToolsMissing(Exception):
    """The program can't be built on this machine."""


def built(name: str) -> tuple[str, ...]:
    """The command that starts the server."""
    program, sources = PROGRAMS[name], SOURCES / name
    if program.missing:
        raise ToolsMissing(
            f"{' and '.join(program.missing)} not installed: the real ADK server in {name} is not tested"
        )
    digest = hashlib.sha256(repr(program).encode())
    for file in sorted(one for one in sources.rglob("*") if one.is_file()):
        digest.update(f"{file.relative_to(sources)}\n".encode() + file.read_bytes())
    caches = Path(os.environ.get("XDG_CACHE_HOME") or tempfile.gettempdir()) / "adk-confirm-tests"
    room, kept = caches / f"{name}-{digest.hexdigest()[:16]}", caches / f"{name}-kept"
    caches.mkdir(parents=True, exist_ok=True)
    with (caches / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers wait for it
        if not (room / BUILT).exists():
            shutil.rmtree(room, ignore_errors=True)
            shutil.copytree(sources, room)
            for step in program.build:
                _run(tuple(word.format(room=room, kept=kept) for word in step), room, program.kept, kept)
            (room / BUILT).touch()
    return tuple(word.format(room=room) for word in program.start)


def _run(step: tuple[str, ...], room: Path, variable: str | None, kept: Path) -> None:
    env = {**os.environ, **({variable: str(kept)} if variable else {})}
    ran = subprocess.run(step, cwd=room, env=env, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(step)} ended with {ran.returncode} in {room}:\n{ran.stdout}\n{ran.stderr}")


def main() -> None:
    for name in PROGRAMS:
        began = time.monotonic()
        try:
            built(name)
            print(f"{name}: ready after {time.monotonic() - began:.0f} s", flush=True)
        except ToolsMissing as missing:
            print(missing, flush=True)
            if os.environ.get("CI"):
                sys.exit(1)


if __name__ == "__main__":
    main()
