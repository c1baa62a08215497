"""The operator's commands as processes: pipes, exit codes, limited terminals, and a store in use."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.backoffice import POLICIES, Backoffice
from tests.support.deciding import ANNA
from tests.support.forked import adk_confirm
from tests.support.office import ON_SQLITE, POLICY, config, environment
from tests.support.stores import SECRET

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.slow, ON_SQLITE]


async def shell(at: Backoffice, line: str, **environment: str) -> tuple[int, str, str]:
    """A line in a shell, where `adk-confirm` is the command."""
    process = await asyncio.create_subprocess_exec(
        *(
            "bash",
            "-o",
            "pipefail",
            "-c",
            f'adk-confirm() {{ "{sys.executable}" -m adk_confirm.bot.cli "$@"; }}; {line}',
        ),
        cwd=at.directory,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src", "ADK_CONFIRM_SECRET": SECRET, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_reader_who_has_seen_enough(at: Backoffice) -> None:
    for _ in range(18):
        await at.asks("refund", {"note": "x" * 9000})
    code, out, err = await shell(at, "adk-confirm audit export | head -n 1")
    assert (code, err) == (0, "")
    assert json.loads(out)["kind"] == "asked"
    code, out, err = await shell(at, "adk-confirm pending | head -n 1")
    assert (code, err) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
async def test_a_disk_that_is_full(at: Backoffice) -> None:
    await at.asks()
    for command in ("pending", "audit export", "manifest"):
        code, _, err = await shell(at, f"adk-confirm {command} > /dev/full")
        assert (code, err.partition(": ")[2]) == (2, "The output can't be written: No space left on device.\n")


async def test_streams_that_are_closed(at: Backoffice) -> None:
    """As a supervisor may start a command. What was done is done, and nobody takes it for a failure."""
    await at.asks()
    for command in ("pause", "pending --json", "audit export", "audit verify"):
        assert await shell(at, f"adk-confirm {command} <&- >&- 2>&-") == (0, "", ""), command


async def test_what_a_shell_completes(at: Backoffice) -> None:
    """Ids and tools as the store has them now, and the agent's tools; without a store nothing, and no error."""
    at.policies(f'{POLICIES}[agent]\ntarget = "adk_confirm.examples.garden:agent"\n')
    deploy, refund = await at.asks("deploy"), await at.asks("refund", {"note": "second"})
    await at.vote(refund, ANNA)

    async def completed(typed: str, **environment: str) -> list[str]:
        words = {"_ADK_CONFIRM_COMPLETE": "bash_complete", "COMP_CWORD": str(len(typed.split(" ")) - 1)}
        code, out, err = await shell(at, "adk-confirm", **words, COMP_WORDS=typed, **environment)
        assert (code, err) == (0, "")
        return [line.removeprefix("plain,") for line in out.split()]

    assert await completed("adk-confirm withdraw ") == [deploy[:8]]
    assert await completed(f"adk-confirm audit show {deploy[:4]}") == [deploy[:8]]
    assert await completed("adk-confirm audit export --tool d") == ["deploy"]
    assert await completed("adk-confirm explain --tool ") == ["water"]
    assert await completed("adk-confirm revoke ") == []
    assert await completed("adk-confirm withdraw ", DATABASE_URL="sqlite:///nowhere.db") == []


async def test_a_terminal_that_lacks_letters(at: Backoffice) -> None:
    deploy = await at.asks("deploy", {"note": "für Zoë"})
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    for command in (f"audit show {deploy}", "pending", "audit export --format csv"):
        code, out, err = await shell(at, f"adk-confirm {command}", **ascii_only)
        assert (code, err) == (0, "")
        assert "f\\xfcr Zo\\xeb" in out


async def test_a_lone_half_of_a_letter_stops_no_export(at: Backoffice) -> None:
    """An agent may send what is no text anywhere else."""
    await at.asks("deploy", {"note": "\ud83d"})
    for form in ("jsonl", "csv"):
        code, _, err = await shell(at, f"adk-confirm audit export --format {form}")
        assert (code, err) == (0, "")


async def test_what_google_adk_says_of_its_own_classes_is_no_concern_of_whoever_types_a_command(at: Backoffice) -> None:
    (at.directory / "clerks.py").write_text(
        "from google.adk.agents import Agent\nagent = Agent(name='clerk', model='gemini-2.5-flash')\n"
    )
    at.policies(f'{POLICIES}[agent]\ntarget = "clerks:agent"\n')
    _, out, err = await shell(at, "adk-confirm check", PYTHONWARNINGS="default")
    assert ("clerks:agent is clerk, on google-adk" in out, err) == (True, "")


async def test_ctrl_c_ends_a_command_that_waits_for_an_anchor(at: Backoffice) -> None:
    """At a terminal it says what it waits for."""
    await at.asks()
    ours, its = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "adk_confirm.bot.cli", "audit", "verify", "--anchor", "-"),
        cwd=at.directory,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src", "ADK_CONFIRM_SECRET": SECRET},
        stdin=its,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(its)
    assert process.stderr is not None
    assert await process.stderr.readline() == b"Paste the checkpoint lines, and end with Ctrl-D.\n"
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 10) == 130
    assert b"Traceback" not in await process.stderr.read()
    os.close(ours)


async def test_every_line_of_a_service_that_logs_json_is_json(database_url: str, tmp_path: Path) -> None:
    async with FakeSlack(our_app()) as slack:
        slack.person("ann", id="U0ANN")
        (tmp_path / "adk-confirm.toml").write_text(f'{config(POLICY)}[log]\nformat = "json"\n')
        variables = {**os.environ, **environment(slack, database_url)}
        async with adk_confirm("serve", cwd=tmp_path, env=variables, errors=asyncio.subprocess.STDOUT) as process:
            assert process.stdout is not None
            lines = [line async for line in until_it_listens(process.stdout)]
            process.send_signal(signal.SIGTERM)
            lines += (await process.stdout.read()).splitlines()
        async with adk_confirm(
            "serve", cwd=tmp_path, env={**variables, "SLACK_BOT_TOKEN": "xoxb-wrong"}, errors=asyncio.subprocess.STDOUT
        ) as process:
            assert process.stdout is not None
            refused = [json.loads(line) for line in (await process.stdout.read()).splitlines()]
            assert await process.wait() == 2
    assert refused[-1]["level"] == "error"
    assert refused[-1]["message"].startswith("Slack refused SLACK_BOT_TOKEN (invalid_auth).")
    said = [json.loads(line)["message"] for line in lines]
    assert any(line.startswith("Listening at http://") for line in said)
    assert any(line.startswith("Stopping: what runs") for line in said)


async def until_it_listens(out: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while line := await asyncio.wait_for(out.readline(), 60):
        yield line
        if b"Listening at" in line:
            return
