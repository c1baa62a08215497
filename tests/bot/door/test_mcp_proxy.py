"""A client of the official MCP package against `adk-confirm mcp-proxy`: the tools of a server behind the policies, run
by the bot."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from adk_confirm.runtime.jsontypes import as_object
from tests.support.door import CLAIM, TOKENS, AtTheDoor, door
from tests.support.forked import CLI, ROOT, adk_confirm
from tests.support.mcp_servers import OFFICIAL, Watched, accepts
from tests.support.office import ON_EITHER, ONE, operates
from tests.support.waiting import until

mcp = pytest.importorskip("mcp", reason="needs the mcp package")
if not hasattr(mcp, "Client"):
    pytest.skip("needs version 2 of the mcp package", allow_module_level=True)


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    made = Watched(tmp_path / "watch")
    await made.start()
    yield made
    await made.stop()


def server(watched: Watched, monkeypatch: pytest.MonkeyPatch, *, bare: bool = False) -> str:
    made = watched.bare() if bare else watched.stdio()
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    command = [made.command, *made.args]
    named = '[[door.server]]\nname = "files"\nfree = ["list_*", "fail"]\npreview = { delete_file = "look" }\n'
    if bare:
        named = '[[door.server]]\nname = "files"\nfree = ["list_*", "fail"]\n'
    return f'{named}command = {command!r}\nenv = ["WATCH"]\n'.replace("'", '"')


@pytest.fixture
async def at(
    watched: Watched, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AtTheDoor]:
    async with door(database_url, tmp_path / "log", monkeypatch, servers=server(watched, monkeypatch)) as opened:
        yield opened


@asynccontextmanager
async def client(at: AtTheDoor, *line: str, token: str = TOKENS["NIGHTLY_TOKEN"]) -> AsyncIterator[Any]:
    """Over stdio, as a coding agent starts it."""
    from mcp import Client, StdioServerParameters, stdio_client

    env = {"ADK_CONFIRM_DOOR": at.ci.url, "ADK_CONFIRM_DOOR_TOKEN": token}
    program, *args = OFFICIAL.command(*CLI, "mcp-proxy", *line)
    command = StdioServerParameters(command=program, args=args, env=env)
    async with Client(stdio_client(command, errlog=sys.__stderr__ or sys.stderr)) as made:
        yield made


@ON_EITHER
async def test_a_tool_runs_here_once_people_have_approved(at: AtTheDoor, watched: Watched) -> None:
    notes: list[str] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        notes.append(message or "")

    async with client(at) as it:
        tools = {tool.name: tool for tool in (await it.list_tools()).tools}
        assert {"files.delete_file", "files.list_files", "files.say"} <= tools.keys()
        assert tools["files.delete_file"].input_schema["required"] == ["path"]
        asked = asyncio.create_task(it.call_tool("files.delete_file", {"path": "a.txt"}, progress_callback=progress))
        card = await at.card()
        assert "a.txt would be gone" in card.text
        assert watched.ran() == ["look a.txt"]
        await at.bob.clicks(card, "Approve")
        result = await asked
    assert result.structured_content == {"deleted": "a.txt", "rest": None, "times": 1}
    assert not result.is_error
    assert watched.ran().count("delete_file a.txt 1") == 1
    await at.ann.finds(". Approved by bob", at.deploys)


async def test_a_denial_is_the_tools_error_and_nothing_runs(at: AtTheDoor, watched: Watched) -> None:
    async with client(at) as it:
        asked = asyncio.create_task(it.call_tool("files.say", {"text": "hello"}))
        card = await at.card()
        await at.denies(at.bob, card, "Say nothing")
        denied = await asked
        await at.sees(card, "Denied")
        assert denied.is_error
        assert "Say nothing" in denied.content[0].text
        asked = asyncio.create_task(it.call_tool("files.say", {"text": "hello"}))  # a new call asks anew
        await at.bob.clicks(await at.card(), "Approve")
        assert (await asked).content[0].text == "hello"


async def test_what_is_free_runs_at_once_and_asks_nobody(at: AtTheDoor, watched: Watched) -> None:
    async with client(at) as it:
        found = await it.call_tool("files.list_files", {"folder": "/tmp"})
        assert (found.is_error, "a.txt" in found.content[0].text) == (False, True)
        wrong = await it.call_tool("files.delete_file", {"way": "a.txt"})
        assert wrong.is_error
        unknown = await it.call_tool("files.format_disk", {})
        assert "There is no tool files.format_disk" in unknown.content[0].text
    assert watched.ran() == ["list_files /tmp"]
    assert at.cards() == []


async def test_a_call_that_waits_too_long_is_pending_and_the_same_call_goes_on_waiting(
    at: AtTheDoor, watched: Watched
) -> None:
    async with client(at, "--hold", "1s") as it:
        pending = await it.call_tool("files.say", {"text": "hello"})
        assert (pending.is_error, "has not ended" in pending.content[0].text) == (True, True)
        again = await it.call_tool("files.say", {"text": "hello"})
        assert "has not ended" in again.content[0].text
        await at.bob.clicks(await at.card(), "Approve")
        await at.ann.finds(". Approved by bob", at.deploys)
        assert (await it.call_tool("files.say", {"text": "hello"})).content[0].text == "hello"
    assert len(at.cards()) == 1


async def test_a_server_that_dies_in_the_middle_leaves_unknown(at: AtTheDoor, watched: Watched) -> None:
    async with client(at, "--hold", "2s") as it:
        asked = asyncio.create_task(it.call_tool("files.linger", {"word": "on"}))
        await at.bob.clicks(await at.card(), "Approve")
        await watched.heard("linger on")
        for pid in await watched.pids():
            os.kill(pid, 9)
        await at.ann.finds("did this take effect", at.deploys)
        said = [(await asked).content[0].text, (await it.call_tool("files.linger", {"word": "on"})).content[0].text]
        assert any("Nobody knows whether it took effect" in one for one in said)
    assert watched.ran() == ["linger on"]


async def test_a_callers_tools_are_all_that_it_sees_and_nobody_claims_what_runs_here(
    at: AtTheDoor, watched: Watched
) -> None:
    assert (await at.ci.sends("GET", "/v1/tools")).body == {"tools": []}
    refused = await at.ci.posts({"tool": "files.list_files", "arguments": {}})
    assert refused.status == 403
    ask = await at.nightly.asks("files.say", text="hello")
    await at.bob.clicks(await at.card(), "Approve")
    done = await ask.becomes("done")
    assert done.outcome["text"] == '{"result":"hello"}'
    claim = await ask.claims(CLAIM)
    assert (claim.status, "The bot runs it" in claim.error) == (409, True)


@ON_EITHER
async def test_what_is_free_runs_once_for_each_key_and_the_ledger_has_it(
    at: AtTheDoor, watched: Watched, database_url: str
) -> None:
    asked = [at.nightly.asks("files.list_files", key="one", wait="20s", folder="/tmp") for _ in range(4)]
    asks = await asyncio.gather(*asked)
    assert {(ask.answer.status, ask.answer.is_now, ask.answer.outcome["kind"]) for ask in asks} == {
        (200, "approved", "done")
    }
    assert "a.txt" in str((await asks[0].now()).outcome["text"])
    other = await at.nightly.posts({"tool": "files.list_files", "arguments": {"folder": "/"}}, key="one")
    assert (other.status, "another ask" in other.error) == (409, True)
    assert (await asks[0].claims(CLAIM)).status == 409
    assert watched.ran() == ["list_files /tmp"]
    assert at.ann.messages(at.deploys) == []
    report = as_object(await operates(at, database_url, "audit", "report"))
    assert (report["free_calls_of_callers"], report["asked"]) == ({"nightly": 1}, 0)


async def test_a_free_call_that_fails_or_does_not_fit_says_so(at: AtTheDoor, watched: Watched) -> None:
    failed = await at.nightly.asks("files.fail", wait="20s", why="The disk is full.")
    assert (failed.answer.is_now, failed.answer.outcome["kind"]) == ("approved", "failed")
    assert "The disk is full." in str(failed.answer.outcome["text"])
    wrong = await at.nightly.posts({"tool": "files.list_files", "arguments": {"path": 1}})
    assert (wrong.status, "do not fit" in wrong.error) == (400, True)


async def test_a_tool_of_a_server_that_is_away_is_never_handed_over(
    watched: Watched, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = '[[door.server]]\nname = "files"\ncommand = ["no-such-command"]\n'
    async with door(database_url, tmp_path / "log", monkeypatch, f"{ONE}", servers=away) as at:
        asked = await at.nightly.posts({"tool": "files.delete_file", "arguments": {"path": "a"}})
        assert (asked.status, "can't be reached" in asked.error) == (404, True)
        ask = await at.nightly.asks("deploy", env="prod")  # others are asked for as before
        await at.bob.clicks(await at.card(), "Approve")
        await ask.is_decided()
        assert (await ask.claims()).status == 200
        await ask.reports()
        assert as_object((await ask.becomes("done")).body["task"])["over"] is True


async def test_a_server_that_hangs_keeps_no_other_call_waiting(
    watched: Watched, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = '[[door.server]]\nname = "mute"\ncommand = ["sleep", "1000"]\n'
    slow = server(watched, monkeypatch).replace("command = [", 'command = ["bash", "-c", "sleep 3; exec \\"$@\\"", "",')
    async with door(database_url, tmp_path / "log", monkeypatch, servers=f"{hangs}{slow}") as at:
        asks = [await at.nightly.asks("deploy", env=env) for env in ("dev", "staging", "prod")]
        await at.slack.until(lambda: len(at.cards()) == 3 or None, timeout=20, what="three cards")
        assert (await at.nightly.asks("files.list_files", folder="/tmp", wait="20s")).answer.is_now == "approved"
        assert [(await ask.now()).is_now for ask in asks] == 3 * ["pending"]


async def test_over_http_each_client_is_its_own_caller(at: AtTheDoor, watched: Watched) -> None:
    import httpx2 as httpx
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = ("mcp-proxy", "--door", at.ci.url, "--listen", f"127.0.0.1:{port}")
    async with adk_confirm(*line, cwd=ROOT, env={**os.environ}):
        await until(lambda: accepts(port))
        for token, count in ((TOKENS["NIGHTLY_TOKEN"], 1), (TOKENS["CI_TOKEN"], 0)):
            async with (
                httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
                Client(streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)) as it,
            ):
                names = [tool.name for tool in (await it.list_tools()).tools]
                assert names.count("files.say") == count
                if count:
                    asked = asyncio.create_task(it.call_tool("files.say", {"text": "hello"}))
                    await at.bob.clicks(await at.card(), "Approve")
                    assert "hello" in str(await asked)
        async with (
            httpx.AsyncClient() as nobody,
            Client(streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=nobody)) as it,
        ):
            with pytest.raises(mcp.MCPError):
                await it.list_tools()
