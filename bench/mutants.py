"""Do the tests notice when the code is wrong? Makes each deliberate slip in a copy, where its tests must fail.

    make mutants                        all of them
    python -m bench.mutants ledger      those whose list, place or description has the word in it

The slips are data, in `tests/mutants/*.toml`, one a line, below the tests that must notice them:

    ["tests/bot/confirmation/test_votes.py"]
    "a vote at the very deadline counts" = 'count: vote.stored_at >= _ -> vote.stored_at > _'
    "a vote on an older revision counts" = 'count: drop if vote.revision != row.revision.number'

A slip names a function, class or constant of the product, and a change in its syntax tree: files, line breaks and
comments do not matter. Where several modules define the name, a package or module goes before it: `confirmation.count`.
`A -> B` puts B in the place of A. `drop A` removes a statement, an operand, an argument or an entry. `_` is any
expression, and in B again the one that it stood for. `...` as the last argument stands for all the others. `if A` and
other heads stand for the whole statement. A must be there exactly once. If the code moves on, the slip follows it or
goes: `make check` says so. The exit code is 0 when nine in ten are caught and there was no error.
"""

from __future__ import annotations

import argparse
import ast
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
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LISTS = ROOT / "tests" / "mutants"
PRODUCT = ("blocks", "bot", "runtime")
FOLDERS = (*PRODUCT, "bench", "demo", "docs", "examples", "sandbox", "src", "tests")
FILES = ("CHANGELOG.md", "CONTRIBUTING.md", "README.md", "constraints.txt", "manifest.yml", "pyproject.toml")
ENOUGH = 0.9
PATIENCE = 300.0


class Result(Enum):
    CAUGHT = "caught"
    MISSED = "MISSED"
    ERROR = "ERROR"


@dataclass(frozen=True)
class Slip:
    list: str
    says: str
    change: str
    tests: tuple[str, ...]

    @property
    def known_by(self) -> str:
        return f"{self.list}.toml {self.change.partition(': ')[0]}: {self.says}"

    @property
    def wrong(self) -> str | None:
        """Why the slip can't be made; empty if it can."""
        for test in self.tests:
            file, _, name = test.partition("::")
            text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).exists() else ""
            if f"def {name.partition('[')[0]}" not in text:
                return f"there is no {test}: name the tests that must notice the slip"
        try:
            mutate(self.change)
        except ValueError as error:
            return str(error)
        return None


@dataclass(frozen=True)
class Ran:
    slip: Slip
    result: Result
    seconds: float
    said: str = ""
    by: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("words", nargs="*", help="only slips that have one of these in list, place or description")
    parser.add_argument("--jobs", type=int, default=2, help="copies that are tested at the same time")
    parser.add_argument(
        "--at-once", action="store_true", help="without looking first whether the tests pass as they are"
    )
    parser.add_argument("--check", action="store_true", help="only look whether each slip can still be made")
    args = parser.parse_args(argv)
    slips = [slip for slip in read() if not args.words or any(word in slip.known_by for word in args.words)]
    stale = [Ran(slip, Result.ERROR, 0.0, wrong) for slip in slips if (wrong := slip.wrong)]
    for ran in stale:
        _print(ran)
    if args.check:
        return 1 if stale else 0
    sound = [slip for slip in slips if slip not in [ran.slip for ran in stale]]
    with tempfile.TemporaryDirectory(prefix="adk-confirm-mutants-") as folder:
        copies = [_copy(Path(folder) / str(number)) for number in range(args.jobs)]
        if not args.at_once and (failed := _run_unchanged(copies[0], sound)) is not None:
            print(f"The tests fail without any slip:\n{failed}")
            return 2
        done = stale + _run_all(sound, copies)
    return _verdict(done)


def read() -> list[Slip]:
    return [
        Slip(path.stem, says, change, tuple(tests.split()))
        for path in sorted(LISTS.glob("*.toml"))
        for tests, slips in tomllib.loads(path.read_text("utf-8")).items()
        for says, change in slips.items()
    ]


def mutate(slip: str, root: Path = ROOT) -> tuple[str, str]:
    """The file that `place: change` is in, and its text after the change. A ValueError says why it can't be made."""
    place, _, change = slip.partition(": ")
    files = sorted(_places().get(place, ()))
    if not files:
        raise ValueError(f"nothing is called {place} any more: let the slip follow the code, or delete it")
    if len(files) > 1:
        raise ValueError(f"{place} is in {' and in '.join(files)}: put a package or module before it, with a dot")
    return files[0], changed((root / files[0]).read_text(encoding="utf-8"), place, change)


def changed(source: str, place: str, text: str) -> str:
    change, tree = Change(text), ast.parse(source)
    try:
        for name, node in _definitions(tree.body):
            if place == name or place.endswith(f".{name}"):
                change.generic_visit(node)
        after = ast.unparse(tree)
        ast.parse(after)
    except (AttributeError, SyntaxError) as error:
        raise ValueError(f"{place} is no Python after `{text}`: write the change anew") from error
    if change.found != 1:
        what = "say more of what is around it" if change.found else "let the slip follow the code, or delete it"
        raise ValueError(f"{place} has `{change.like}` {change.found} times: {what}")
    return after


@cache
def _places() -> dict[str, set[str]]:
    """Where what a slip may name is defined."""
    places: dict[str, set[str]] = {}
    for package in PRODUCT:
        for path in (ROOT / package).rglob("*.py"):
            file = path.relative_to(ROOT)
            for name, _ in _definitions(ast.parse(path.read_text(encoding="utf-8")).body):
                for room in ("", *(f"{part}." for part in file.with_suffix("").parts)):
                    places.setdefault(room + name, set()).add(str(file))
    return places


def _definitions(body: Iterable[ast.stmt], inside: str = "") -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield inside + name, node
            case ast.ClassDef(name=name):
                yield inside + name, node
                yield from _definitions(node.body, f"{inside}{name}.")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield inside + name, node


class Entry(ast.AST):
    """An entry of a dictionary. Python's syntax tree keeps keys and values apart."""

    _fields = ("key", "value")
    key: ast.expr | None
    value: ast.expr

    def __init__(self, *pair: Any) -> None:
        super().__init__()
        if pair:  # `deepcopy` makes an empty one
            self.key, self.value = pair


class Change(ast.NodeTransformer):
    """`A -> B` or `drop A`: changes each node that is like A, and counts them."""

    def __init__(self, text: str) -> None:
        self.found = 0
        drop = text.startswith("drop ")
        self.like, _, new = text.removeprefix("drop ").partition(" -> ")
        self._old, self._new = _forms(self.like), _forms(new)
        if not self._old or bool(self._new) is drop:
            raise ValueError(f"`{text}` is neither `A -> B` nor `drop A`, or not Python: write the change anew")

    def visit(self, node: ast.AST) -> ast.AST | None:
        for old in self._old:
            stood_for: list[ast.AST] = []
            if _is_like(old, node, stood_for):
                self.found += 1
                return self._replacement(old, stood_for)
        if isinstance(node, ast.Expr):
            value = self.visit(node.value)
            return ast.Expr(value) if isinstance(value, ast.expr) else value
        if isinstance(node, ast.Dict):
            visited = [self.visit(Entry(key, value)) for key, value in zip(node.keys, node.values, strict=True)]
            entries = [entry for entry in visited if isinstance(entry, Entry)]
            return ast.Dict([entry.key for entry in entries], [entry.value for entry in entries])
        self.generic_visit(node)
        if isinstance(node, ast.BoolOp) and len(node.values) == 1:
            return node.values[0]
        if getattr(node, "body", None) == []:
            node.body = [ast.Pass()]  # type: ignore[attr-defined]  # it has one: a list that became empty
        return node

    def _replacement(self, old: ast.AST, stood_for: list[ast.AST]) -> ast.AST | None:
        if not self._new:
            return None
        kind = next((kind for kind in (Entry, ast.keyword, ast.stmt) if isinstance(old, kind)), ast.expr)
        new = next((form for form in self._new if isinstance(form, kind)), self._new[0])
        filled: ast.AST = _Fill(stood_for).visit(deepcopy(new))
        return ast.Expr(filled) if kind is ast.stmt and isinstance(filled, ast.expr) else filled


class _Fill(ast.NodeTransformer):
    def __init__(self, stood_for: list[ast.AST]) -> None:
        self._next = iter(stood_for)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id != "_":
            return node
        if (found := next(self._next, None)) is None:
            raise ValueError("the new has more `_` than the old: write the change anew")
        return found


def _forms(text: str) -> list[ast.AST]:
    """What the text can be: a statement or its head, an expression, an entry, a named argument."""
    forms: list[ast.AST] = []
    for whole in (text, f"{text}: ..."):
        with suppress(SyntaxError):
            match ast.parse(whole).body:
                case [ast.Expr(value=value)]:
                    forms.append(value)
                case [statement]:
                    forms.append(statement)
        if forms:
            break
    with suppress(SyntaxError):
        match ast.parse(f"_(**{{{text}}})", mode="eval").body:
            case ast.Call(keywords=[ast.keyword(value=ast.Dict(keys=[key], values=[value]))]):
                forms.append(Entry(key, value))
    with suppress(SyntaxError):
        match ast.parse(f"_({text})", mode="eval").body:
            case ast.Call(args=[], keywords=[named]):
                forms.append(named)
    return forms


def _is_like(old: object, node: object, stood_for: list[ast.AST]) -> bool:
    """Whether they are the same but for wildcards. Also collects what each `_` stands for."""
    match old, node:
        case ast.Name(id="_"), ast.expr():
            stood_for.append(node)
            return True
        case [*first, ast.Constant(value=value)], list() if value is ...:
            return len(node) >= len(first) and _is_like(first, node[: len(first)], stood_for)
        case list(), list():
            pairs = zip(old, node, strict=False)
            return len(old) == len(node) and all(_is_like(*pair, stood_for) for pair in pairs)
        case ast.stmt(body=[ast.Expr(value=ast.Constant(value=value))]), _ if value is ...:  # type: ignore[misc]
            left_out = {"body", "orelse", "handlers", "finalbody"}
        case ast.Call(args=[*_, ast.Constant(value=value)], keywords=[]), _ if value is ...:
            left_out = {"keywords"}
        case ast.AST(), _:
            left_out = set()
        case _:
            return type(old) is type(node) and old == node
    fields = [field for field in old._fields if field not in left_out]
    return type(old) is type(node) and all(
        _is_like(getattr(old, field), getattr(node, field), stood_for) for field in fields
    )


def _copy(to: Path) -> Path:
    for name in FOLDERS:
        shutil.copytree(ROOT / name, to / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
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
    name, text = mutate(slip.change, copy)
    file = copy / name
    whole = file.read_text(encoding="utf-8")
    file.write_text(text, encoding="utf-8")
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
        "--tb=native",  # pytest's own tracebacks parse the code, on which Python 3.11 can crash
        *more,
        *tests,
    ]
    # Without bytecode: Python would not notice a slip of the same length that is made within the same second.
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": f"{copy}:{copy}/src"}
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
        f"{ran.result.value:7} {ran.seconds:5.1f} s  {ran.slip.known_by}{ran.by and f' ({ran.by})'}",
        flush=True,
    )
    if ran.said:
        print(f"        {ran.said}", flush=True)


def _verdict(done: Sequence[Ran]) -> int:
    by_list: dict[str, Counter[Result]] = {}
    for ran in done:
        by_list.setdefault(ran.slip.list, Counter())[ran.result] += 1
    print(f"\n{'list':12} caught missed errors")
    for name, counted in sorted(by_list.items()):
        print(f"{name:12} {counted[Result.CAUGHT]:6} {counted[Result.MISSED]:6} {counted[Result.ERROR]:6}")
    all_ = Counter(ran.result for ran in done)
    caught, tried = all_[Result.CAUGHT], all_[Result.CAUGHT] + all_[Result.MISSED]
    print(f"\n{caught} of {tried} caught; {all_[Result.ERROR]} errors.")
    return 0 if tried and caught >= ENOUGH * tried and not all_[Result.ERROR] else 1


if __name__ == "__main__":
    sys.exit(main())
