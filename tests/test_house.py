"""What README and CONTRIBUTING say about the code is true: one-way imports, rooms, files, states, commands."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from adk_confirm.bot.confirmation.states import DECISIONS

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"""(?:\]\(|src=")([^)"#][^)"]*)""")
MAY_IMPORT = {
    "bot": {"bot", "blocks", "runtime"},
    "runtime": {"runtime"},
    "blocks": {"blocks", "runtime"},
    "sandbox": {"sandbox"},
    "demo": {"demo", "sandbox", "bot", "blocks", "runtime", "examples"},
}


def modules_imported(path: Path) -> set[str]:
    """The modules and names that a file imports: ours without the name under which all are installed, and what comes
    from that name itself as the runtime's."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = "runtime" if node.module == "adk_confirm" else node.module
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("adk_confirm.") for name in found}


def test_ours_are_imported_under_the_one_name_that_is_installed() -> None:
    bare = re.compile(r"^\s*(?:from|import) (?:bot|runtime|blocks|sandbox|demo|examples)\b", re.MULTILINE)
    paths = [path for path in ROOT.rglob("*.py") if not path.is_relative_to(ROOT / ".venv")]
    assert len(paths) > 500
    assert [str(path) for path in paths if bare.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_imports_point_one_way(package: str) -> None:
    ours = {*MAY_IMPORT, "examples", "tests", "bench"}
    paths = list((ROOT / package).rglob("*.py"))
    wrong: dict[str, set[str]] = {}
    for path in paths:
        if names := ours.intersection(name.split(".")[0] for name in modules_imported(path)) - MAY_IMPORT[package]:
            wrong[str(path)] = names
    assert paths
    assert wrong == {}


BOTS_ROOMS = (
    *("policy", "audit", "config", "confirmation", "hosts", "store", "slack", "telemetry"),
    *("cards", "agents", "home", "worker", "inbound", "door", "app", "ops", "cli"),
)
"""Ground floor first: a room imports only from itself and from rooms before it."""


def test_rooms_import_one_way() -> None:
    wrong: list[str] = []
    for path in (ROOT / "bot").rglob("*.py"):
        room = path.relative_to(ROOT / "bot").with_suffix("").parts[0]
        if room == "__init__":
            continue
        above = BOTS_ROOMS[BOTS_ROOMS.index(room) + 1 :]
        used = [name for name in modules_imported(path) if name.startswith("bot.") and name.split(".")[1] in above]
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in used]
    assert wrong == []


RUNTIMES_ROOMS = ("telemetry", "bounded", "adk", "calls", "store", "models", "mcp", "run", "rest")
"""Likewise. The modules at the top of `runtime` are what its users import. They may use every room, in no circle."""


def test_the_runtimes_rooms_import_one_way() -> None:
    rooms = {path.parent.name for path in (ROOT / "runtime").glob("*/__init__.py")}
    assert set(RUNTIMES_ROOMS) == rooms
    wrong: list[str] = []
    for number, room in enumerate(RUNTIMES_ROOMS):
        above = RUNTIMES_ROOMS[number + 1 :]
        for path in (ROOT / "runtime" / room).rglob("*.py"):
            names = [name.split(".")[1] for name in modules_imported(path) if name.startswith("runtime.")]
            wrong += [f"{path.relative_to(ROOT)}: {name}" for name in names if name in above]
    assert wrong == []


def test_nothing_imports_itself_in_a_circle() -> None:
    """Rooms, and modules at the top of `runtime`, `blocks` and `bot`; and single modules anywhere."""
    files = [path for package in ("bot", "blocks", "runtime") for path in (ROOT / package).rglob("*.py")]
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}

    def module_of(name: str) -> str:
        return name if name in modules or not name else module_of(name.rpartition(".")[0])

    def room_of(module: str) -> str:
        return ".".join(module.split(".")[:2])

    def circle(arrows: dict[str, set[str]]) -> list[str]:
        """What is left when those that import nothing that is left are taken away, again and again."""
        while ends := [one for one, used in arrows.items() if not used & arrows.keys()]:
            arrows = {one: used for one, used in arrows.items() if one not in ends}
        return sorted(arrows)

    by_module = {
        module: {found for name in modules_imported(path) if "." in (found := module_of(name))} - {module}
        for module, path in modules.items()
        if "." in module
    }
    by_room: dict[str, set[str]] = {}
    for module, used in by_module.items():
        by_room.setdefault(room_of(module), set()).update({room_of(one) for one in used} - {room_of(module)})
    assert len(by_module) > 150
    assert circle(by_module) == []
    assert circle(by_room) == []


def test_the_local_slack_speaks_of_nothing_of_ours() -> None:
    paths = list((ROOT / "sandbox").rglob("*.py"))
    assert paths
    assert [
        path for path in paths if re.search(r"adk(?!_confirm\.sandbox)|approv", path.read_text(), re.IGNORECASE)
    ] == []


def test_each_room_says_what_it_is_for_and_where_to_begin() -> None:
    rooms = [path for package in MAY_IMPORT for path in (ROOT / package).rglob("__init__.py")]
    said = {path: ast.get_docstring(ast.parse(path.read_text())) or "" for path in rooms}
    assert said
    assert [
        str(path.relative_to(ROOT)) for path, text in said.items() if len(re.findall(r"[.:](?=\s|$)", text)) < 3
    ] == []
    assert [str(path.relative_to(ROOT)) for path, text in said.items() if not re.search(r"\bBegin\b", text)] == []


def test_the_changelog_says_what_people_notice() -> None:
    """Its groups are what is new, what changed and what was mended, and a line is there once."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    groups, lines = re.findall(r"^### (.+)$", text, re.MULTILINE), re.findall(r"^- .+$", text, re.MULTILINE)
    assert [group for group in groups if not re.match(r"(New|Changed|Mended)\b", group)] == []
    assert len({*lines}) == len(lines) > 50
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[0] == version


def test_files_that_texts_name_are_there() -> None:
    rooms = ("bot", "blocks", "runtime", "sandbox", "demo", "examples", "bench", "tests", "docs")
    paths = [path for room in rooms for path in (ROOT / room).rglob("*.*") if path.suffix in (".py", ".md", ".sql")]
    texts = [*paths, *ROOT.glob("*.md")]
    there = {path.name for path in texts}
    assert [
        f"{path}: {name}"
        for path in texts
        for name in re.findall(r"`[\w/]*?(\w+\.(?:py|sql))`", path.read_text(encoding="utf-8"))
        if name not in there
    ] == []


PAGES = tuple(
    (ROOT / page).read_text(encoding="utf-8") for page in ("CONTRIBUTING.md", "docs/inside.md", "docs/guarantees.md")
)
"""What sends people to files of the code."""


def test_contributors_are_sent_to_files_that_are_there() -> None:
    for page in PAGES:
        text = page.partition("## Which tests hold it")[0]
        paths = re.findall(r"`((?:bot|blocks|runtime|sandbox|demo|tests|docs|examples)/[\w./-]+)`", text)
        assert paths
        assert [path for path in paths if not (ROOT / path).exists()] == []
    contributing, inside, _ = PAGES
    ways = contributing.partition("### How a click is handled")[2].partition("## To change X")[0] + inside
    named = set(re.findall(r"`([\w/]+(?:\.py|/))`", ways))
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_each_room_begins_with_a_file_that_is_there() -> None:
    rooms = re.findall(r"^\| `(\w+)`[^|]*\|[^|]+\| ([^|]+) \|$", PAGES[0], re.MULTILINE)
    assert len(rooms) > 15
    for room, files in rooms:
        for file in re.findall(r"`([\w/]+\.py)`", files):
            assert (
                list(ROOT.glob(f"bot/{room}/{file}"))
                or list(ROOT.glob(f"runtime/*/{file}"))
                or list(ROOT.glob(f"bot/{file}"))
            ), file


def test_contributors_are_told_of_every_room() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tables = text.partition("## The house")[2].partition("### How a click is handled")[0]
    named = set(re.findall(r"`([\w.]+?)(?:\.py|/)?`", tables))
    rooms = {path.parent.name for package in ("bot", "runtime") for path in (ROOT / package).glob("*/__init__.py")}
    assert "confirmation" in rooms
    assert rooms - named == set()


def test_contributors_are_told_what_every_table_holds() -> None:
    text = (ROOT / "docs" / "inside.md").read_text(encoding="utf-8")
    schemas = "".join((ROOT / package / "store" / "schema.sql").read_text() for package in ("bot", "runtime"))
    tables = set(re.findall(r"CREATE TABLE (\w+)", schemas))
    assert "jobs" in tables
    assert tables - set(re.findall(r"`(\w+)[`.]", text)) == set()
    assert set(re.findall(r"`((?:bot|runtime)_\w+)", text)) - tables == set()


def test_only_one_module_knows_google_genai() -> None:
    knowing = {
        path.name
        for path in (ROOT / "runtime").rglob("*.py")
        if re.search(r"\bgoogle\.genai\b|from google import", path.read_text())
    }
    assert "gemini.py" in knowing
    assert {name for name in knowing if not name.startswith("gemini")} <= {"adk_plugin.py", "session_requests.py"}


def test_google_adk_is_imported_for_its_own_agents_only() -> None:
    """It is an extra, and takes seconds to import. The bot and its command: `test_cli.py`."""
    code = "import sys, adk_confirm, adk_confirm.bot.hosts.adk_in_process; sys.exit('google.adk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_strangers_decide_nothing_where_there_is_no_limit() -> None:
    """Bodies of requests and schemas of servers are read in one place each, which limits what they may cost."""
    reads = re.compile(
        r"request\.(?:read|text|json|post|content)\b(?!_)|schema import .*\b(?:check|problem|property_of)\b"
    )
    allowed = {"runtime/rest/listening.py"}
    paths = (path for room in ("bot", "runtime") for path in (ROOT / room).rglob("*.py"))
    found = {str(path.relative_to(ROOT)) for path in paths if reads.search(path.read_text(encoding="utf-8"))}
    assert found - allowed == set()


def test_the_readmes_state_diagram_is_the_codes() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    diagram = text.partition("<!-- states -->")[2].partition("<!-- /states -->")[0]
    drawn = set(re.findall(r"^\s+(\w+) --> (\w+)$", diagram, re.MULTILINE))
    real = {(str(state), str(after)) for state, moves in DECISIONS.items() for after in moves}
    assert drawn == real


def test_links_in_the_docs_lead_somewhere() -> None:
    pages = (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
    links = [(page, link.split("#")[0]) for page in pages for link in _LINK.findall(page.read_text(encoding="utf-8"))]
    ours = [(page, link) for page, link in links if not link.startswith("http")]
    assert ours
    assert [f"{page.name}: {link}" for page, link in ours if not (page.parent / link).exists()] == []


def test_every_dependency_has_an_exact_version_for_deployments() -> None:
    """After a change of the dependencies: `make lock`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        Requirement(text)
        for group in (project["dependencies"], *project["optional-dependencies"].values())
        for text in group
    ]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = (line.split()[0].split("==") for line in lines if not line.startswith("#"))
    pinned = {canonicalize_name(name): version for name, version in pins}
    assert wanted
    assert [str(one) for one in wanted if pinned.get(canonicalize_name(one.name), "") not in one.specifier] == []


def test_what_a_release_runs_is_pinned_by_what_it_holds() -> None:
    """A tag, a branch and a version can be moved to other code."""
    flows = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    used = re.findall(r"uses: (.+)", flows)
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", action)] == []
    for name in ("constraints.txt", "build.txt"):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()[1:]
        assert [line for line in lines if not re.fullmatch(r"[\w.-]+==\S+( --hash=sha256:[0-9a-f]{64})+", line)] == []


def test_the_examples_in_docstrings_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    packages = ("bot", "runtime", "blocks", "examples", "tests/support")
    paths = [path for package in packages for path in (ROOT / package).rglob("*.py") if ">>> " in path.read_text()]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    names = [name if name.startswith("tests.") else f"adk_confirm.{name}" for name in names]
    results = {name: doctest.testmod(importlib.import_module(name)) for name in names}
    monkeypatch.undo()
    time.tzset()
    assert results
    assert [name for name, result in results.items() if result.failed or not result.attempted] == []


MAY_SLEEP = {
    "support/waiting.py": "the one place that looks again until something is so",
    "support/skipping.py": "lets the loop run once",
    "support/lab.py": "a model that takes its time, and tools that get stuck",
    "support/failover.py": "PostgreSQL says nowhere when a standby follows",
    "bench/test_replicas.py": "time has to pass for three processes and a database",
    "bot/test_cost.py": "a person who looks at a card before they press",
    "bot/worker/test_freezes.py": "time has to pass for a database while a process is frozen",
    "bot/store/test_store_away.py": "how long a database is away is what the test is about",
    "bot/hosts/test_time_outs.py": "a server that says nothing",
    "bot/ops/test_cli.py": "a tool that does not end",
    "runtime/bounded/test_bounded.py": "a check that does not end",
    "runtime/run/test_runner_lives.py": "a process that stands still for a while",
    "storms/foreign.py": "time is virtual there",
    "storms/gestures.py": "time is virtual there",
    "storms/office.py": "time is virtual there",
    "storms/slack.py": "time is virtual there",
    "storms/store.py": "time is virtual there",
    "storms/storm.py": "time is virtual there",
}


def test_tests_wait_for_what_they_await() -> None:
    """Who needs to wait calls `tests.support.waiting.until`. A new sleep needs a reason in the table above."""
    sleeps = re.compile(r"(?<!pg_)\bsleep\((?!0\))")
    found = {
        str(path.relative_to(ROOT / "tests"))
        for path in (ROOT / "tests").rglob("*.py")
        if path.name != "test_house.py" and sleeps.search(path.read_text(encoding="utf-8"))
    }
    assert found == set(MAY_SLEEP)


def test_each_promise_has_tests_that_are_there() -> None:
    """In the page of guarantees a name without a path is in the file before it."""
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    promises, _, tables = page.partition("## Which tests hold it")
    assert re.findall(r"^### (\d+\. .+)$", tables, re.MULTILINE) == re.findall(
        r"^\*\*(\d+\. .+?)\.\*\* ", promises, re.MULTILINE
    )
    missing: list[str] = []
    for promise in re.split(r"^### ", tables, flags=re.MULTILINE)[1:]:
        named, path = re.findall(r"`([\w/]+\.py)?(?:::(\w+))?`", promise), ""
        assert named, promise
        for at, name in named:
            path = at or path
            text = (ROOT / "tests" / path).read_text(encoding="utf-8") if (ROOT / "tests" / path).is_file() else ""
            if not re.search(rf"(def|class) {name or 'test_'}", text) and "TestCase" not in text:
                missing.append(f"{path}::{name}")
    assert missing == []
