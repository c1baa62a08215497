"""The bot is killed with SIGKILL at every step of a caller's call, and started again: one thread, one card, one permit,
and what the claimant reports.

The caller does what `adk-confirm ask --exec` does: it sends each request until it is answered.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adk_confirm.bot.door.client import door_client
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.jsontypes import JsonObject, as_object, as_text
from adk_confirm.sandbox.server.server import FakeSlack
from tests.bot.dialogues.test_kills import DEAD_LETTERS, somebody
from tests.support.door import CLAIM, DEPLOYS, ENV, TOKENS, settings
from tests.support.mcp_servers import Watched
from tests.support.office import ONE, Staff
from tests.support.serving import ANY, Serving, serving

pytestmark = pytest.mark.slow

PATIENCE = 90.0


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        taken: int = free.getsockname()[1]
        return taken


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Staff]:
    async with FakeSlack(our_app()) as slack:
        yield Staff.of(slack, tmp_path / "tools.log")


@pytest.fixture
async def bot(at: Staff, database_url: str, tmp_path: Path, port: int) -> AsyncIterator[Serving]:
    policies = f"{settings(DEPLOYS, port=port)}{ONE}"
    async with serving(at.slack, database_url, tmp_path, policies, env={**ENV, **TOKENS}) as serves:
        yield serves


async def calls(port: int, ran: list[JsonObject]) -> JsonObject:
    """Asks, claims, runs and reports. Returns what the door says at the end."""
    async with door_client(f"http://127.0.0.1:{port}", TOKENS["CI_TOKEN"], PATIENCE) as door:
        body: JsonObject = {"tool": "deploy", "arguments": {"env": "prod"}}
        said = await door.ask(body, "build 7", PATIENCE)
        task = as_object(said["task"])
        assert task["status"] == "approved", said
        path = as_text(task["status_endpoint"])
        ran.append(await door.send("POST", f"{path}/claim", {"claim": CLAIM}))
        await door.send("POST", f"{path}/result", {"claim": CLAIM, "status": "done", "result": {}})
        return await door.ask(body, "build 7", PATIENCE, until="over")


KILLED = [*(("sqlite", nth) for nth in range(1, 21)), *(("postgresql", nth) for nth in range(2, 21, 4))]


@pytest.mark.every_case
@pytest.mark.parametrize(("database_url", "nth"), KILLED, indirect=["database_url"])
async def test_killed_after_any_transaction(at: Staff, bot: Serving, port: int, nth: int) -> None:
    """At the ask, the card, the click, the claim, the start, the permit, and the report."""
    ran: list[JsonObject] = []
    await bot.starts(ANY, nth)
    with somebody(at, "Approve"):
        calling = asyncio.create_task(calls(port, ran))
        stopped = asyncio.create_task(bot.reached())
        await asyncio.wait({stopped, calling}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        await asyncio.wait({stopped})
        await bot.killed()
        await bot.starts()
        at.slack.clock.advance(DEAD_LETTERS)
        said = await calling
        assert as_object(as_object(said["result"])["outcome"])["kind"] == "done"
        await at.ann.finds(". Approved by bob.", at.deploys)
        await at.slack.settled()
    assert [one.text for one in at.ann.messages(at.deploys)].count("ci asks for approval.") == 1
    assert len(at.cards()) == 1
    assert len(ran) == 1
    assert at.ann.sees(at.deploys).count(". Approved by bob.") == 1


async def test_a_bot_that_dies_while_a_claimant_runs_goes_on_waiting(at: Staff, bot: Serving, port: int) -> None:
    await bot.starts()
    async with door_client(f"http://127.0.0.1:{port}", TOKENS["CI_TOKEN"], PATIENCE) as door:
        with somebody(at, "Approve"):
            said = await door.ask({"tool": "deploy", "arguments": {"env": "prod"}}, "build 7", PATIENCE)
        path = as_text(as_object(said["task"])["status_endpoint"])
        permit = await door.send("POST", f"{path}/claim", {"claim": CLAIM})
        await bot.killed()
        await bot.starts()
        assert (await door.send("POST", f"{path}/claim", {"claim": CLAIM}))["permit"] == permit["permit"]
        await door.send("POST", f"{path}/result", {"claim": CLAIM, "status": "done", "result": {"pods": 3}})
        said = await door.send("GET", f"{path}?wait=50s&until=over")
        assert as_object(as_object(said["result"])["outcome"])["kind"] == "done"
    await at.ann.finds("pods 3", at.deploys)


async def test_a_free_call_that_ran_as_the_bot_died_does_not_run_again(
    at: Staff, database_url: str, tmp_path: Path, port: int
) -> None:
    pytest.importorskip("mcp", reason="needs the mcp package")
    watched = Watched(tmp_path / "watch")
    await watched.start()
    made = watched.bare()
    named = '[[door.server]]\nname = "files"\nfree = ["*"]\nenv = ["WATCH"]\ncommand = '
    policies = f"{settings(DEPLOYS, port=port, servers=named + json.dumps([made.command, *made.args]))}\n{ONE}"
    try:
        async with (
            serving(at.slack, database_url, tmp_path, policies, env={**ENV, **TOKENS, **made.env}) as bot,
            door_client(f"http://127.0.0.1:{port}", TOKENS["NIGHTLY_TOKEN"], PATIENCE) as door,
        ):
            await bot.starts()
            body: JsonObject = {"tool": "files.linger", "arguments": {"word": "on"}}
            calling = asyncio.create_task(door.ask(body, "one", PATIENCE, until="over"))
            await watched.heard("linger on")
            await bot.killed()
            await bot.starts()
            said = await calling
            assert as_object(as_object(said["result"])["outcome"])["kind"] == "failed"
            assert watched.ran() == ["linger on"]
    finally:
        await watched.stop()
    assert at.ann.messages(at.deploys) == []
