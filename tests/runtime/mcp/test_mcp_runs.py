"""A whole agent with the tools of an MCP server: asked, approved, run once, and killed in the middle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adk_confirm import Agent, ConfirmationPolicy, Runner, ScriptedModel, call
from adk_confirm.runtime.mcp.toolset import McpToolset, StdioConnection
from tests.support.dialogue import Chat
from tests.support.mcp_servers import Watched, is_running
from tests.support.waiting import until

POLICY = ConfirmationPolicy.named({"delete_file", "linger"})


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    watch = Watched(tmp_path / "watch")
    await watch.start()
    yield watch
    await watch.stop()


def agent(connection: StdioConnection, *script: object) -> Agent:
    tools = [McpToolset(connection, confirmation=POLICY)]
    return Agent("keeper", ScriptedModel(*script), tools=tools)  # type: ignore[arg-type]  # lines of a script


async def test_a_servers_tool_runs_once_it_is_approved_and_as_it_was_edited(watched: Watched) -> None:
    script = (call("list_files"), call("delete_file", path="a.txt"), "It is gone.")
    async with Runner(agent(watched.stdio(), *script)) as runner:
        chat = Chat(runner)
        heard = await chat.say("Delete a.txt")
        assert heard.lines[:2] == ["keeper calls list_files {}", 'keeper got list_files: {"result":["a.txt","b.txt"]}']
        assert heard.request.hint == "Approve execution of tool delete_file?"
        assert watched.ran() == ["list_files /"]
        heard = await chat.approve(heard.request, {"path": "b.txt"})
        assert heard.texts == ["It is gone."]
    assert watched.ran() == ["list_files /", "delete_file b.txt 1"]
    (pid,) = await watched.pids()
    await until(lambda: not is_running(pid))  # whoever began it for us reaps it


async def test_what_is_denied_or_does_not_fit_never_reaches_the_server(watched: Watched) -> None:
    script = (call("delete_file", path=5), call("delete_file", path="a"), "Fine.")
    async with Runner(agent(watched.bare(), *script)) as runner:
        chat = Chat(runner)
        heard = await chat.say("Delete")
        assert heard.result("delete_file")["error"] != ""
        assert (await chat.deny(heard.request, "keep it")).texts == ["Fine."]
    assert watched.ran() == []
