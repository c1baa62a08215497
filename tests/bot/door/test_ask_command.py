"""`adk-confirm ask` in a script: exit codes, what it prints, and what `--exec` runs. `adk-confirm permit verify`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from adk_confirm.bot.audit.checkpoints import CheckpointKey
from adk_confirm.bot.cli import main
from tests.support.door import KEY, TOKENS, AtTheDoor, door
from tests.support.forked import BOT, CLI
from tests.support.office import ON_EITHER, ONE

DEPLOY = ("--tool", "deploy", "--args", '{"env": "prod"}')


@pytest.fixture
async def at(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AtTheDoor]:
    async with door(database_url, tmp_path / "log", monkeypatch) as opened:
        yield opened


class Script:
    """A run of the command in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def runs(cls, at: AtTheDoor, *line: str, token: str = TOKENS["CI_TOKEN"], url: str = "") -> Script:
        env = {
            "PATH": "/usr/bin:/bin",
            "ADK_CONFIRM_DOOR": url or at.ci.url,
            "ADK_CONFIRM_DOOR_TOKEN": token,
        }
        pipe = asyncio.subprocess.PIPE
        command = BOT.command(*CLI, "ask", *line)
        return cls(await asyncio.create_subprocess_exec(*command, env=env, stdout=pipe, stderr=pipe))

    async def ends(self) -> tuple[int, str, str]:
        out, errors = await self._process.communicate()
        assert self._process.returncode is not None
        return self._process.returncode, out.decode(), errors.decode()


@ON_EITHER
async def test_approved_is_0_and_prints_what_was_approved(at: AtTheDoor) -> None:
    script = await Script.runs(at, *DEPLOY, "--reason", "It is time")
    await at.edits(at.bob, await at.card(), env="staging")
    await at.bob.clicks(await at.card(), "Approve")
    assert await script.ends() == (0, '{"env":"staging"}\n', "")
    await at.ann.finds("a script, which runs it", at.deploys)


async def test_denied_is_1_with_the_reason(at: AtTheDoor) -> None:
    script = await Script.runs(at, *DEPLOY)
    await at.denies(at.bob, await at.card(), "Not on a Friday")
    code, out, errors = await script.ends()
    assert (code, out, "Not on a Friday" in errors) == (1, "", True)


async def test_withdrawn_is_3_and_pending_is_75(at: AtTheDoor) -> None:
    script = await Script.runs(at, *DEPLOY, "--wait", "1s", "--key", "build 7")
    code, out, errors = await script.ends()
    assert (code, out, "--key build 7" in errors) == (75, "", True)
    script = await Script.runs(at, *DEPLOY, "--key", "build 7")
    assert (await (await at.ci.asks("deploy", key="build 7", env="prod")).is_cancelled()).status == 200
    assert (await script.ends())[:2] == (3, "")


async def test_nobody_may_decide_or_no_desk_is_4(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door(database_url, tmp_path / "log", monkeypatch, ONE.replace('"*"', '"pay"')) as at:
        nobody, stranger, strange = await asyncio.gather(
            Script.runs(at, *DEPLOY),
            Script.runs(at, *DEPLOY, token="somebody else's token"),
            Script.runs(at, "--tool", "delete_project"),
        )
        ended = [await nobody.ends(), await stranger.ends(), await strange.ends()]
        assert [code for code, _, _ in ended] == [4, 4, 4]
        assert "polic" in ended[0][2]
        assert "token of a caller" in ended[1][2]
        assert "may not ask for delete_project" in ended[2][2]


@pytest.mark.parametrize(
    "line",
    [
        (),
        ("--tool", "deploy", "--args", "{"),
        ("--tool", "deploy", "--args", "[]"),
        ("--tool", "deploy", "--wait", "soon"),
        ("--tool", "deploy", "--exec"),
        ("--tool", "deploy", "--", "ls"),
    ],
)
def test_a_mistake_is_2(line: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADK_CONFIRM_DOOR", "http://127.0.0.1:9")
    monkeypatch.setenv("ADK_CONFIRM_DOOR_TOKEN", "a token that is long enough")
    assert main(["ask", *line]) == 2


@pytest.mark.parametrize(
    ("url", "ends"),
    [
        ("127.0.0.1:3001", (2, "'127.0.0.1:3001' is no address of a door. Write one such as http://127.0.0.1:3001.")),
        ("{other}", (4, "What answers at {other} is no door (200).")),
    ],
)
async def test_an_address_at_which_there_is_no_door(
    url: str, ends: tuple[int, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = web.Application()
    site.router.add_post("/v1/asks", something_else)
    async with TestServer(site) as server:
        other = str(server.make_url("")).rstrip("/")
        monkeypatch.setenv("ADK_CONFIRM_DOOR", url.format(other=other))
        monkeypatch.setenv("ADK_CONFIRM_DOOR_TOKEN", "a token that is long enough")
        assert await asyncio.to_thread(main, ["ask", *DEPLOY]) == ends[0]
    assert capsys.readouterr().err == f"adk-confirm ask: {ends[1].format(other=other)}\n"


async def something_else(_: web.Request) -> web.Response:
    return web.json_response({"ok": True})


@ON_EITHER
async def test_exec_runs_what_was_approved_and_reports(at: AtTheDoor, tmp_path: Path) -> None:
    shell = (
        'cat > seen; echo "$ADK_CONFIRM_ARG_env $ADK_CONFIRM_DOOR_TOKEN" >> seen; echo "$ADK_CONFIRM_PERMIT" > permit'
    )
    command = ("sh", "-c", f"cd {tmp_path}; {shell}; exit 7")
    script = await Script.runs(at, *DEPLOY, "--exec", "--", *command)
    card = await at.card()
    assert not (tmp_path / "seen").exists()
    await at.edits(at.bob, card, env="staging")
    await at.bob.clicks(await at.card(), "Approve")
    assert (await script.ends())[0] == 7
    assert (tmp_path / "seen").read_text() == '{"env":"staging"}staging \n'
    failed = await (await at.ci.asks("deploy", env="nothing")).now()
    assert failed.is_now == "pending"
    await at.ann.finds('{"exit": 7}', at.deploys)
    monkey = tmp_path / "key"
    monkey.write_text(CheckpointKey(KEY).public)
    permit = (tmp_path / "permit").read_text()
    line = ["permit", "verify", permit, "--public-key", CheckpointKey(KEY).public]
    clock = at.slack.clock.now
    assert await asyncio.to_thread(main, [*line, "--args", '{"env": "staging"}'], clock) == 0
    assert await asyncio.to_thread(main, [*line, "--args", '{"env": "prod"}'], clock) == 1
    assert await asyncio.to_thread(main, [*line[:-1], CheckpointKey("22" * 32).public], clock) == 1


async def test_exec_runs_nothing_that_was_denied(at: AtTheDoor, tmp_path: Path) -> None:
    script = await Script.runs(at, *DEPLOY, "--exec", "--", "touch", str(tmp_path / "ran"))
    await at.denies(at.bob, await at.card(), "no")
    assert (await script.ends())[0] == 1
    assert not (tmp_path / "ran").exists()


async def test_a_command_that_is_not_there_has_failed(at: AtTheDoor) -> None:
    script = await Script.runs(at, *DEPLOY, "--exec", "--", "no-such-command")
    await at.bob.clicks(await at.card(), "Approve")
    code, _, errors = await script.ends()
    assert (code, "can't be run" in errors) == (127, True)
    await at.ann.finds('{"exit": 127}', at.deploys)


def test_a_permit_is_read_from_standard_input_and_told_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("no permit\n"))
    assert main(["permit", "verify", "--json", "--public-key", CheckpointKey(KEY).public]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "valid": False,
        "why": "This is no permit: a permit is three parts with dots between.",
    }
