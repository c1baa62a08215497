"""The command line: its help, its errors, how it starts and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from adk_confirm.bot.cli import COMMANDS, commands, main
from adk_confirm.bot.config.settings import load_settings
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.rest.guard import TOKEN_VARIABLE
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.counting import at_most
from tests.support.forked import Process, adk_confirm
from tests.support.office import ONE, config, environment
from tests.support.served import browsing
from tests.support.terminal import whole
from tests.support.twins.client import Client, responses
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Each command runs in a directory of its own, and leaves Python's as they were."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    forget_modules_in(tmp_path.parent)  # another test's may have the same name
    yield tmp_path
    forget_modules_in(tmp_path)


def forget_modules_in(folder: Path) -> None:
    for name, module in [*sys.modules.items()]:
        if str(folder) in str(getattr(module, "__file__", "")):
            del sys.modules[name]


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What is said when it cannot be done: one sentence, never a trace."""
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_only_a_terminal_that_wants_them_gets_colours(
    here: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], coloured: bool
) -> None:
    (here / "adk-confirm.toml").write_text('[agent]\nurl = "http://127.0.0.1:9"\napp = "oncall"\n')
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    said, at_terminal = printed(monkeypatch, pty.openpty())
    assert "settings" in said
    assert at_terminal
    assert ("\x1b[31mFIX " in said) is coloured
    said, at_terminal = printed(monkeypatch, os.pipe())
    assert "settings" in said
    assert not at_terminal
    assert "\x1b" not in said


def printed(monkeypatch: pytest.MonkeyPatch, ends: tuple[int, int]) -> tuple[str, bool]:
    """What `check` writes to the second end, and whether that is a terminal."""
    read, write = ends
    with os.fdopen(write, "w") as out, ThreadPoolExecutor(1) as reader:
        monkeypatch.setattr(sys, "stdout", out)
        reading = reader.submit(whole, read)
        assert main(["check"]) == 1
        at_terminal = out.isatty()
        out.close()
        return reading.result(), at_terminal


def test_it_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(re.search(rf"^  {name} +\w", said, re.MULTILINE) for name in COMMANDS)
    assert main([]) == 2
    assert main(["api", "--help"]) == 0
    assert "--allow-origin" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert "Did you mean `adk-confirm api`?" in refusal(capsys, "aip")
    assert "Did you mean `adk-confirm audit show`?" in refusal(capsys, "audit", "shw")
    assert "Did you mean `adk-confirm audit verify`?" in refusal(capsys, "verify")
    assert "Did you mean `adk-confirm audit show`?" in refusal(capsys, "history")
    assert "Did you mean `adk-confirm pending`?" in refusal(capsys, "audit", "pending")
    assert "People do that in Slack. `adk-confirm pending` lists what waits." in refusal(capsys, "approve")
    assert "No such command 'nothing'. `adk-confirm audit --help` lists them." in refusal(capsys, "audit", "nothing")
    assert "Did you mean '--dialect'?" in refusal(capsys, "api", "--dialct", "x")
    for command in (("explain",), ("audit", "list")):
        typed = f"adk-confirm {' '.join(command)} --tool deploy"
        assert f"extra argument (deploy). Did you mean `{typed}`?" in refusal(capsys, *command, "deploy")
    assert "Did you mean `adk-confirm check --config nope.toml`?" in refusal(capsys, "check", "nope.toml")
    assert refusal(capsys, "pending", "deploy").endswith("Got unexpected extra argument (deploy)\n")
    assert "Missing argument 'ID'. Add --help to see what it takes." in refusal(capsys, "withdraw")


def test_arguments_that_are_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "show", os.fsdecode(b"\xff")]) == 2
    assert capsys.readouterr().err == "adk-confirm audit show: The arguments must be UTF-8.\n"


def test_after_json_an_error_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pending", "--json"]) == 2
    said = capsys.readouterr()
    assert said.err == ""
    assert "adk-confirm.toml: there is no such file." in json.loads(said.out)["error"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_it(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert main(["completion", shell]) == 0
    assert "_ADK_CONFIRM_COMPLETE" in capsys.readouterr().out
    completions = ShellComplete(commands, {}, "adk-confirm", "_ADK_CONFIRM_COMPLETE").get_completions([], "re")
    assert [one.value for one in completions] == ["reseal", "revoke", "reapply", "retry", "resume"]
    typed = ["audit", "list", "--state"]
    states = ShellComplete(commands, {}, "adk-confirm", "_ADK_CONFIRM_COMPLETE").get_completions(typed, "de")
    assert [one.value for one in states] == ["denied"]
    for nothing in (["withdraw"], ["audit", "list", "--tool"], ["explain", "--tool"]):  # there are no settings here
        assert ShellComplete(commands, {}, "", "").get_completions(nothing, "") == []


def test_init_writes_settings_that_can_be_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--agent", "adk_confirm.examples.garden:agent"]) == 0
    assert "adk-confirm.toml is written." in capsys.readouterr().out
    settings = load_settings(here / "adk-confirm.toml", {"ADK_CONFIRM_SECRET": "x" * 32})
    assert settings.agent is not None
    assert settings.agent.target == "adk_confirm.examples.garden:agent"
    assert "exists already" in refusal(capsys, "init")
    assert main(["init", "--force"]) == 0
    folder = here / 'C:\\"agents"' / "people_team"
    folder.mkdir(parents=True)
    (folder / "agent.py").write_text(
        "from google.adk.agents import Agent\nroot_agent = Agent(name='hr', model='gemini-2.5-flash')\n"
    )
    assert main(["init", "--force", "--agent", 'C:\\"agents"/people_team']) == 0
    settings = load_settings(here / "adk-confirm.toml", {"ADK_CONFIRM_SECRET": "x" * 32})
    assert settings.agent is not None
    assert settings.agent.target == 'C:\\"agents"/people_team'
    assert [policy.tools for policy in settings.policy] == [("*",)]


async def imported(code: str) -> set[str]:
    """The modules that are loaded after this ran in a Python of its own, which looks for no garbage."""
    code = f"import gc, os, sys; gc.disable()\n{code}\nprint(*sys.modules, file=sys.stderr, flush=True)\nos._exit(0)"
    null, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=ROOT, stdout=null, stderr=pipe)
    _, err = await process.communicate()
    return set(err.decode().split())


@pytest.mark.parametrize(
    "work", ["main(['--help'])", "main(['completion', 'bash'])", "commands.shell_complete(click.Context(commands), '')"]
)
async def test_the_list_of_commands_loads_none_of_the_heavy_parts(work: str) -> None:
    code = f"import click; from adk_confirm.bot.cli import commands, main; {work}"
    loaded = await imported(code) - await imported("import click")
    assert "adk_confirm.bot.cli" in loaded
    heavy = {"aiohttp", "pydantic", "psycopg", "slack_sdk", "google"}
    assert {name.partition(".")[0] for name in loaded} & heavy == set()
    at_most("modules of --help", len(loaded))


async def test_a_service_loads_what_it_uses() -> None:
    """No other models, servers and stores than it uses, nor traces and conditions, which most do without."""
    loaded = await imported("import adk_confirm.bot.ops.serve, adk_confirm.bot.app")
    stores = {"sqlalchemy", "psycopg"}
    assert loaded & {*stores, "mcp", "google.genai", "google.adk", "adk_confirm.sandbox", "cel"} == set()
    assert [name for name in loaded if name.startswith("opentelemetry")] == []
    assert loaded >= {
        "adk_confirm.bot.app",
        "adk_confirm.bot.policy.policies",
        "adk_confirm.bot.config.settings",
        "adk_confirm.bot.confirmation.votes",
    }
    at_most("modules of serve", len(loaded))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere:agent", "There is no module 'nowhere' here"),
        ("nowhere.near:agent", "There is no module 'nowhere' here"),
        ("mine.missing:agent", "There is no module 'mine.missing' here"),
        ("mine:nothing", "The module mine has no 'nothing'; it has some_agent, other_agent."),
        ("empty", "The module empty has no 'agent'."),
        ("mine:number", "mine:number is of the type int: an Agent (from adk_confirm import Agent) is needed here."),
        ("needy:agent", "needy needs the module 'not_installed', which is not installed."),
        ("broken:agent", "broken could not be imported: ZeroDivisionError: division by zero ("),
        ("quitter:agent", "quitter could not be imported: SystemExit: 3 ("),
        ("unwritten:agent", "unwritten could not be imported: SyntaxError"),
        ("twice:agent", "Two agents are called 'a'"),
        (
            "adk_confirm.examples.oncal:agent",
            "module 'adk_confirm.examples.oncal'. Did you mean adk_confirm.examples.oncall?",
        ),
        ("no target", "'no target' is not a target. Write module:name"),
        ("mine:", "'mine:' is not a target"),
        ("../mine:agent", "There is no folder ../mine:agent here"),
        ("./mine.py:agent", "mine.py:agent is a file: name its module and the agent in it, such as mine:agent."),
    ],
)
def test_an_agent_that_cannot_be_had(here: Path, capsys: pytest.CaptureFixture[str], target: str, said: str) -> None:
    (here / "mine").mkdir()
    (here / "mine" / "__init__.py").write_text(
        "from adk_confirm import Agent\nother_agent = Agent('a')\nsome_agent = Agent('b')\nnumber = 7\n"
    )
    (here / "empty.py").write_text("")
    (here / "needy.py").write_text("import not_installed\n")
    (here / "broken.py").write_text("1 / 0\n")
    (here / "quitter.py").write_text("import sys\nsys.exit(3)\n")
    (here / "unwritten.py").write_text("def (:\n")
    (here / "twice.py").write_text("from adk_confirm import Agent\nagent = Agent('a', sub_agents=[Agent('a')])\n")
    assert said.replace("some_agent, other_agent", "other_agent, some_agent") in refusal(
        capsys, "api", "--agent", target
    )


def test_a_file_here_that_an_installed_package_hides(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "pydantic.py").write_text("from adk_confirm import Agent\nagent = Agent('a')\n")
    hint = "pydantic.py in this folder was not read, because an installed package is called pydantic, too: rename it."
    assert hint in refusal(capsys, "api", "--agent", "pydantic:agent")
    assert hint in refusal(capsys, "api", "--agent", "pydantic:main")


def test_an_agent_of_google_adk_is_distinguished(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "theirs.py").write_text(
        "class LlmAgent: pass\nLlmAgent.__module__ = 'google.adk.agents.llm_agent'\nagent = LlmAgent()\n"
    )
    assert "theirs:agent is an agent of google-adk" in refusal(capsys, "api", "--agent", "theirs:agent")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "Set ADK_CONFIRM_API_TOKEN to a secret"),
        (["--allow-origin", "*"], "'*' is not an origin"),
        (["--store", "mysql://x"], "is not the URL of a store"),
        (["--store", "sqlite:////nowhere/x.db"], "needs a directory that exists"),
        (["--store", "postgresql://nobody@127.0.0.1:1/none"], "127.0.0.1:1"),
        (["--host", "192.0.2.1"], "Set ADK_CONFIRM_API_TOKEN"),
        (["--agent", "adk_confirm.examples.oncall:agent"], "Two apps are called 'oncall'"),
    ],
)
def test_a_server_that_cannot_start(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert said in refusal(capsys, "api", "--agent", "adk_confirm.examples.oncall:agent", "--port", "0", *arguments)


def test_an_address_of_another_machine(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "a-secret-that-is-long")
    said = refusal(capsys, "api", "--agent", "adk_confirm.examples.oncall:agent", "--host", "192.0.2.1", "--port", "0")
    assert "192.0.2.1 is not an address of this machine" in said


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_that_is_not_one(capsys: pytest.CaptureFixture[str], port: str) -> None:
    assert main(["api", "--agent", "adk_confirm.examples.oncall:agent", "--port", port]) == 2
    assert "'--port': " in capsys.readouterr().err


# As a process


@contextlib.asynccontextmanager
async def started(
    *arguments: str, cwd: Path, env: dict[str, str] | None = None, anew: bool = False
) -> AsyncIterator[tuple[str, Process]]:
    """The server's address. It is told to stop at the end of the block, and must do so in time. `anew`: in a Python
    that begins with nothing imported."""
    env = {**os.environ, **(env or {})}
    async with adk_confirm("api", "--port", "0", *arguments, cwd=cwd, env=env, anew=anew) as process:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        found = re.search(r"at (http://\S+), with the store (\S+)\.$", line.strip())
        assert found, line
        yield found[1], process
        if process.returncode is None:
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
            assert time.monotonic() - began < 10


AGENT = """
import time
from adk_confirm import Agent, FunctionTool, ScriptedModel, call

def nap() -> str:
    "Sleeps much longer than anybody waits."
    open("napping", "w").close()
    time.sleep(60)
    return "rested"

def pay() -> str:
    "Pays."
    return "paid"

agent = Agent("mine", ScriptedModel(call("pay"), "It is paid."), tools=[FunctionTool(pay, require_confirmation=True)])
sleeper = Agent("sleeper", ScriptedModel(call("nap")), tools=[nap])
"""


async def test_it_serves_what_lies_here_and_in_pythonpath(here: Path) -> None:
    for place, name in (("work", "local_agents"), ("lib", "library_agents")):
        (here / place).mkdir()
        (here / place / f"{name}.py").write_text(AGENT)
    arguments = ("--agent", "local_agents", "--agent", "library_agents:sleeper")
    env = {"PYTHONPATH": str(here / "lib")}
    async with started(*arguments, cwd=here / "work", env=env, anew=True) as (url, _), browsing(url) as http:
        assert (await Client(http).request("GET", "/list-apps"))[1] == ["mine", "sleeper"]
    assert (here / "work" / "adk-confirm.db").exists()


@pytest.mark.parametrize("secret", ["not a secret, but long enough", ""])
async def test_with_a_secret_a_call_that_is_changed_in_the_database_does_not_run(here: Path, secret: str) -> None:
    (here / "our_agents.py").write_text(AGENT)
    started_here = partial(started, "--agent", "our_agents:agent", cwd=here, env={"ADK_CONFIRM_SECRET": secret})
    async with started_here() as (url, process), browsing(url) as http:
        before = Client(http, "mine")
        await before.create()
        await before.send({"role": "user", "parts": [{"text": "pay"}]})
        if not secret:
            assert process.stdout is not None
            assert b"stored calls are not sealed" in await process.stdout.readline()
    with contextlib.closing(sqlite3.connect(here / "adk-confirm.db")) as database, database:
        changed = """UPDATE runtime_calls SET body = replace(body, '"place":0', '"place":1')"""
        assert database.execute(changed).rowcount == 1
    async with started_here() as (url, _), browsing(url) as http:
        events = await Client(http, "mine").answer((before.request_id(), {"confirmed": True}))
        assert ("somebody changed the database" in str(responses(events))) == bool(secret)


@contextlib.asynccontextmanager
async def told_to_stop_in_mid_tool(here: Path) -> AsyncIterator[tuple[Process, asyncio.Task[Any]]]:
    """The server, with a tool that does not end, and the request that waits for it."""
    (here / "our_agents.py").write_text(AGENT)
    async with started("--agent", "our_agents:sleeper", cwd=here) as (url, process), browsing(url) as http:
        sleeper = Client(http, "sleeper")
        await sleeper.create()
        asking = asyncio.create_task(sleeper.post("/run_sse", {"parts": [{"text": "nap"}]}))
        await until((here / "napping").exists)
        process.send_signal(signal.SIGTERM)
        yield process, asking


@pytest.mark.slow
async def test_a_tool_that_does_not_end_does_not_keep_it_from_stopping(here: Path) -> None:
    async with told_to_stop_in_mid_tool(here) as (process, asking):
        began = time.monotonic()
        assert await process.wait() == 0
        assert time.monotonic() - began < 10
        status, events = await asking
        assert (status, "error" in events[-1]) == (200, True)


@pytest.mark.slow
async def test_a_second_signal_ends_it_at_once(here: Path) -> None:
    async with told_to_stop_in_mid_tool(here) as (process, asking):
        assert process.stdout is not None
        while not (await process.stdout.readline()).startswith(b"Stopping: "):
            pass
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 128 + signal.SIGTERM
        asking.cancel()


async def test_it_can_be_stopped_while_it_starts(here: Path) -> None:
    async with FakeSlack(our_app()) as slack:
        hangs = slack.faults.hangs("auth.test")
        (here / "adk-confirm.toml").write_text(config(ONE))
        env = environment(slack, f"sqlite:///{here / 'x.db'}")
        async with adk_confirm("serve", cwd=here, env={**os.environ, **env}) as process:
            assert process.stdout is not None
            await hangs.reached()
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
            assert time.monotonic() - began < 5
            assert await process.stdout.read() == b"Stopped before it was ready.\n"


async def test_a_users_packages_may_be_called_like_our_folders(here: Path) -> None:
    for package in ("bot", "runtime", "blocks", "examples"):
        (here / package).mkdir()
        (here / package / "__init__.py").write_text("OURS = False\n")
    (here / "bot" / "agents.py").write_text(f"import blocks, runtime\n{AGENT}")
    async with started("--agent", "bot.agents:agent", cwd=here, anew=True) as (url, _), browsing(url) as http:
        assert (await Client(http).request("GET", "/list-apps"))[1] == ["mine"]
