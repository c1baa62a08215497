"""Do the tests notice when the code is wrong? Makes each deliberate slip in a copy, where its tests must fail.

    make mutants                        all of them
    python -m bench.mutants ledger      those whose list, file or description has the word in it

The slips are data, in `tests/mutants/*.toml`. One whose old text is not found exactly once is an error: the code has
moved on, and the slip has to follow it; `make check` says so. The exit code is 0 when nine in ten are caught and there
was no error.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

ROOT = Path(__file__).parents[1]
LISTS = ROOT / "tests" / "mutants"
FOLDERS = ("bench", "blocks", "bot", "docs", "examples", "runtime", "tests")
FILES = ("adk_confirm.py", "CHANGELOG.md", "README.md", "manifest.yml", "pyproject.toml")
ENOUGH = 0.9
PATIENCE = 300.0


class Result(Enum):
    CAUGHT = "caught"
    MISSED = "MISSED"
    ERROR = "ERROR"


@dataclass(frozen=True)
class Slip:
    list: str
    file: str
    says: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def known_by(self) -> str:
        return f"{self.list}.toml {self.file} {self.says}"

    @property
    def wrong(self) -> str | None:
        """Why the slip can't be made; empty if it can."""
        found = (ROOT / self.file).read_text(encoding="utf-8").count(self.old) if (ROOT / self.file).exists() else 0
        if found != 1:
            return f"the old text is there {found} times: {self.old.strip().splitlines()[0]}"
        missing = [test for test in self.tests if not (ROOT / test.partition("::")[0]).exists()]
        return f"there is no {missing[0]}" if missing else None


@dataclass(frozen=True)
class Ran:
    slip: Slip
    result: Result
    seconds: float
    said: str = ""
    by: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("words", nargs="*", help="only slips that have one of these in list, file or description")
    parser.add_argument("--jobs", type=int, default=2, help="copies that are tested at the same time")
    parser.add_argument(
        "--at-once", action="store_true", help="without looking first whether the tests pass as they are"
    )
    parser.add_argument("--check", action="store_true", help="only look whether each slip still fits its file")
    args = parser.parse_args(argv)
    slips = [slip for slip in read() if not args.words or any(word in slip.known_by for word in args.words)]
    stale = [Ran(slip, Result.ERROR, 0.0, slip.wrong) for slip in slips if slip.wrong]
    for ran in stale:
        _print(ran)
    if args.check:
        return 1 if stale else 0
    sound = [slip for slip in slips if not slip.wrong]
    with tempfile.TemporaryDirectory(prefix="adk-confirm-mutants-") as folder:
        copies = [_copy(Path(folder) / str(number)) for number in range(args.jobs)]
        if not args.at_once and (failed := _run_unchanged(copies[0], sound)) is not None:
            print(f"The tests fail without any slip:\n{failed}")
            return 2
        done = stale + _run_all(sound, copies)
    return _verdict(done)


def read() -> list[Slip]:
    return [
        Slip(path.stem, one["file"], one["says"], one["old"], one["new"], tuple(one["tests"]))
        for path in sorted(LISTS.glob("*.toml"))
        for one in tomllib.loads(path.read_text("utf-8"))["slip"]
    ]


def _copy(to: Path) -> Path:
    for name in FOLDERS:
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, to / name)
    return to


def _run_unchanged(copy: Path, slips: Sequence[Slip]) -> str | None:
    """Runs the slips' tests on the unchanged code. Returns the output if they fail, None if they pass."""
    tests = sorted({test for slip in slips for test in slip.tests})
    print(f"{len(slips)} slips. First their tests as they are: {len(tests)} files and cases.", flush=True)
    ran = _pytest(copy, tests, "-n", "2", timeout=PATIENCE * 12)
    return None if ran.returncode == 0 else ran.stdout[-4000:]


def _run_all(slips: Sequence[Slip], copies: Sequence[Path]) -> list[Ran]:
    free: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)
    done: list[Ran] = []
    with ThreadPoolExecutor(len(copies)) as pool:
        for finished in as_completed([pool.submit(_run_one, slip, free) for slip in slips]):
            done.append(finished.result())
            _print(done[-1])
    return done


def _run_one(slip: Slip, free: queue.SimpleQueue[Path]) -> Ran:
    copy, began = free.get(), time.monotonic()
    file = copy / slip.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole.replace(slip.old, slip.new), encoding="utf-8")
    try:
        ran = _pytest(copy, slip.tests, timeout=PATIENCE)
        result = {0: Result.MISSED, 1: Result.CAUGHT}.get(ran.returncode, Result.ERROR)
        said = ran.stdout[-2000:] if result is Result.ERROR else ""
        failed = re.search(r"^(?:FAILED|ERROR) \S*::(\w+)", ran.stdout, re.MULTILINE)
        by = failed[1] if failed else ""
    except subprocess.TimeoutExpired:
        result, said, by = Result.CAUGHT, "", "a time-out"  # the tests hang; they did not without the slip
    finally:
        file.write_text(whole, encoding="utf-8")
        free.put(copy)
    return Ran(slip, result, time.monotonic() - began, said, by)


def _pytest(copy: Path, tests: Sequence[str], *more: str, timeout: float) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        "--timeout",
        "120",
        "--tb=native",  # pytest's own tracebacks parse the code, and Python 3.11 can crash on SQLAlchemy's
        *more,
        *tests,
    ]
    # Without bytecode: Python would not notice a slip of the same length that is made within the same second.
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy)}
    return subprocess.run(
        command,
        cwd=copy,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )


def _print(ran: Ran) -> None:
    print(
        f"{ran.result.value:7} {ran.seconds:5.1f} s  {ran.slip.file}: {ran.slip.says}{ran.by and f' ({ran.by})'}",
        flush=True,
    )
    if ran.said:
        print(f"        {ran.said}", flush=True)


def _verdict(done: Sequence[Ran]) -> int:
    by_file: dict[str, Counter[Result]] = {}
    for ran in done:
        by_file.setdefault(ran.slip.file, Counter())[ran.result] += 1
    print(f"\n{'file':40} caught missed errors")
    for file, counted in sorted(by_file.items()):
        print(f"{file:40} {counted[Result.CAUGHT]:6} {counted[Result.MISSED]:6} {counted[Result.ERROR]:6}")
    all_ = Counter(ran.result for ran in done)
    caught, tried = all_[Result.CAUGHT], all_[Result.CAUGHT] + all_[Result.MISSED]
    print(f"\n{caught} of {tried} caught; {all_[Result.ERROR]} errors.")
    return 0 if tried and caught >= ENOUGH * tried and not all_[Result.ERROR] else 1


if __name__ == "__main__":
    sys.exit(main())
