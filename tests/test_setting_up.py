"""What `make` says if a newcomer's machine lacks something, and whether the README's commands and files are right."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import click
import pytest

from adk_confirm import Agent, FunctionTool
from adk_confirm.bot.cli import COMMANDS, commands
from adk_confirm.bot.config.settings import Environment, load_settings
from tests.support.browser import chromium

ROOT = Path(__file__).resolve().parent.parent
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"\badk-confirm ([a-z]+)\b([^`\n]*)")


def blocks(kind: str) -> list[tuple[str, str]]:
    """Page and text of each."""
    return [
        (page.name, "\n".join(line.removeprefix(indent) for line in text.splitlines()))
        for page in DOCS
        for indent, named, text in _BLOCK.findall(page.read_text(encoding="utf-8"))
        if named == kind
    ]


# make


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Without what a surrounding make would hand on.
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", *arguments], cwd=checkout, env=plain, capture_output=True, text=True, check=False)


def test_an_old_python_is_named_as_what_is_wrong(checkout: Path) -> None:
    old = checkout / "python3.10"
    old.write_text("#!/bin/sh\nexit 1\n")  # what the question after the version comes to there
    old.chmod(0o755)
    run = make(checkout, "demo", f"PYTHON={old}")
    assert run.returncode != 0
    assert "adk-confirm needs Python 3.11 or newer; say which one: make demo PYTHON=python3.12" in run.stdout
    assert not (checkout / ".venv").exists()


def test_an_environment_that_could_not_be_made_is_not_left_half_made(checkout: Path) -> None:
    broken = checkout / "python3"
    broken.write_text(  # says yes to the question after the version
        '#!/bin/sh\n[ "$1" = -c ] && exit 0\n'
        "mkdir -p .venv/bin && touch .venv/bin/python && chmod +x .venv/bin/python\n"
        "echo 'install python3-venv' >&2; exit 1\n"
    )
    broken.chmod(0o755)
    run = make(checkout, "setup", f"PYTHON={broken}")
    assert run.returncode != 0
    assert "install python3-venv" in run.stderr
    assert not (checkout / ".venv").exists()


def test_a_second_run_finds_what_the_first_has_made(checkout: Path) -> None:
    assert make(checkout, "--question", "setup").returncode == 1
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / ".installed").touch()
    assert make(checkout, "--question", "setup").returncode == 0
    for given, run in (
        ("PORT=4040", "--port 4040"),
        ("AGENT=garden:agent", "--agent garden:agent"),
        ("CONFIG=own.toml", "--config own.toml"),
    ):
        said = make(checkout, "--dry-run", "demo", given).stdout.split()
        assert said == [".venv/bin/adk-confirm", "demo", *run.split()]


@pytest.mark.parametrize(
    ("ci", "ends", "words"),
    [
        ("", pytest.skip.Exception, "need Chromium or Chrome, which is not here; on Debian: apt-get install chromium"),
        ("true", AssertionError, "CI needs a Chromium"),
    ],
)
async def test_browser_tests_are_skipped_with_a_word_and_never_in_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str, ends: type[BaseException], words: str
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CI", ci)
    with pytest.raises(ends, match=words):
        async with chromium():
            pass


# Containers


def test_the_container_holds_every_extra_and_gets_every_variable() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    found = re.findall(r"\[([a-z,]+)\]'", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert found == [",".join(sorted(extras))]
    wanted = {str(field.validation_alias) for field in Environment.model_fields.values()} - {
        "SLACK_API_URL",
        "ADK_CONFIRM_LISTEN",
    }  # the image sets this one
    compose = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    assert {name for name in wanted if not re.search(rf"^      {name}: ", compose, re.MULTILINE)} == set()


def test_who_kills_the_service_waits_for_the_drain_that_the_example_has() -> None:
    (drain,) = re.findall(
        r'^#drain = "(\d+)s"$', (ROOT / "examples" / "adk-confirm.toml").read_text("utf-8"), re.MULTILINE
    )
    unit, compose = ((ROOT / path).read_text("utf-8") for path in ("docs/adk-confirm.service", "compose.yaml"))
    assert re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE) == [str(int(drain) + 15)]
    assert re.findall(r"^    stop_grace_period: (\d+)s", compose, re.MULTILINE) == [str(int(drain) + 15)]


def test_a_command_beside_the_service_is_run_as_the_unit_runs_it() -> None:
    unit, docs = ((ROOT / path).read_text("utf-8") for path in ("docs/adk-confirm.service", "docs/operations.md"))
    (recipe,) = re.findall(r"^sudo systemd-run (.*?)^```", docs, re.DOTALL | re.MULTILINE)
    has = dict(re.findall(r"^(User|WorkingDirectory|EnvironmentFile|ExecStart)=(.*)$", unit, re.MULTILINE))
    for part in (f"--uid={has['User']} ", f"={has['WorkingDirectory']} ", *has["ExecStart"].split(" serve ")):
        assert part in recipe
    assert f"EnvironmentFile={has['EnvironmentFile']} " in recipe


# README and docs


@pytest.mark.parametrize(("page", "text"), blocks("toml"))
def test_a_configuration_in_the_docs_can_be_read(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "adk-confirm.toml"
    file.write_text(text, encoding="utf-8")
    assert load_settings(file, {"ADK_CONFIRM_SECRET": "x" * 32}) is not None


@pytest.mark.parametrize(("page", "text"), blocks("python"))
def test_python_in_the_docs_speaks_of_what_there_is(page: str, text: str) -> None:
    names = [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "adk_confirm"
        for alias in node.names
    ]
    for module, name in names:
        assert hasattr(__import__(module, fromlist=[name]), name), f"{page}: {module} has no {name}"


def test_the_readmes_agent_is_one() -> None:
    [garden, text] = [text for page, text in blocks("python") if page == "README.md"]
    assert garden == (ROOT / "examples" / "garden.py").read_text(encoding="utf-8").partition("\n\n")[2].rstrip()
    found: dict[str, object] = {}
    exec(compile(text, "README.md", "exec"), found)
    agent = found["agent"]
    assert isinstance(agent, Agent)
    assert [tool.name for tool in agent.tools if isinstance(tool, FunctionTool)] == ["reimburse", "request_time_off"]


def command_named(name: str) -> click.Command:
    command = commands.get_command(click.Context(commands), name)
    assert command is not None
    return command


def options_of(command: click.Command) -> set[str]:
    """Its own and those of its subcommands."""
    nested = command.commands.values() if isinstance(command, click.Group) else ()
    own = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return own.union(*map(options_of, nested))


def test_commands_in_the_docs_are_there_with_their_options() -> None:
    mentions = [
        (page.name, command, re.findall(r"--[a-z-]+", rest))
        for page in DOCS
        for command, rest in _COMMAND.findall(page.read_text(encoding="utf-8"))
        if command in COMMANDS
    ]
    assert {command for _, command, _ in mentions} >= {"serve", "api", "explain", "pause"}
    for page, command, options in mentions:
        assert set(options) <= options_of(command_named(command)), f"{page}: adk-confirm {command}"


def test_the_docs_name_every_command() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS)
    audit = command_named("audit")
    assert isinstance(audit, click.Group)
    named = [*COMMANDS, *(f"audit {name}" for name in audit.commands)]
    assert [name for name in named if not re.search(rf"`(adk-confirm )?{name}\b", text)] == [], "no document names it"


def test_make_targets_in_the_docs_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {
        target for page in DOCS for target in re.findall(r"\bmake ([a-z-]+)\b(?=[` \n])", page.read_text("utf-8"))
    }
    wanted = {target for target in targets if target in ("demo", "test", "check", "setup", "test-slow", "bench")}
    assert wanted >= {"demo", "test", "check"}
    assert {target for target in wanted if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()
