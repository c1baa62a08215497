"""McpToolset against servers of the official package, over stdio and streamable HTTP. Where a process is started and
stopped over stdio, the server is a bare one."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp
import pytest
import pytest_asyncio

from adk_confirm.runtime.context import ToolContext
from adk_confirm.runtime.jsontypes import Json
from adk_confirm.runtime.mcp.toolset import (
    Connection,
    HttpConnection,
    McpToolset,
    McpUnavailable,
    StdioConnection,
    ToolFailed,
)
from adk_confirm.runtime.tool import BadTool, ConfirmationPolicy, Tool, ToolOutcomeUnknown, Toolset
from tests.support.mcp_servers import Watched, is_running

ALL = {"list_files", "delete_file", "look", "fail", "say", "picture", "linger", "paint"}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    watch = Watched(tmp_path / "watch")
    await watch.start()
    yield watch
    await watch.stop()


Server = tuple[Connection, Watched]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def started(
    tmp_path_factory: pytest.TempPathFactory, unused_tcp_port_factory: Callable[[], int]
) -> AsyncIterator[Server]:
    watch = Watched(tmp_path_factory.mktemp("mcp") / "watch")
    await watch.start()
    async with watch.http(unused_tcp_port_factory()) as (http, _):
        yield http, watch
    await watch.stop()


@pytest.fixture
def shared(started: Server) -> Server:
    """One server for all tests that do not kill it."""
    _, watch = started
    watch.said[:] = [line for line in watch.said if line.startswith("pid ")]
    return started


@pytest.fixture(params=["http", pytest.param("stdio", marks=pytest.mark.slow)])
def server(request: pytest.FixtureRequest, shared: Server, watched: Watched) -> Server:
    """Over either transport."""
    return shared if request.param == "http" else (watched.stdio(), watched)


@pytest_asyncio.fixture(loop_scope="module")
async def made() -> AsyncIterator[Callable[..., McpToolset]]:
    """Makes toolsets, and closes them in the end."""
    toolsets: list[McpToolset] = []

    def make(connection: Connection, **options: object) -> McpToolset:
        toolsets.append(McpToolset(connection, **options))  # type: ignore[arg-type]  # as each test gives them
        return toolsets[-1]

    yield make
    for toolset in toolsets:
        await toolset.close()


Make = Callable[..., McpToolset]


def context() -> ToolContext:
    return ToolContext(
        agent_name="a",
        invocation_id="e-1",
        user_id="u",
        session_id="s",
        state={},
        function_call_id="c",
        idempotency_key="k",
    )


async def tool(toolset: McpToolset, name: str) -> Tool:
    return {one.name: one for one in await toolset.tools()}[name]


async def run(toolset: McpToolset, name: str, **args: Json) -> Json:
    return await (await tool(toolset, name)).run(args, context())


async def gated(toolset: McpToolset) -> set[str]:
    return {one.name for one in await toolset.tools() if await one.gated({}, context())}


# What a server offers, and what people are asked about


async def test_a_servers_tools_are_tools(made: Make, server: Server) -> None:
    connection, watched = server
    toolset = made(connection)
    assert isinstance(toolset, Toolset)
    offered = await toolset.tools()
    assert {one.name for one in offered} == ALL
    assert all(isinstance(one, Tool) for one in offered)
    delete = await tool(toolset, "delete_file")
    assert delete.declaration.description.startswith("Deletes a file.")
    assert delete.declaration.schema["required"] == ["path"]
    assert await run(toolset, "delete_file", path="/tmp/x") == {"deleted": "/tmp/x", "rest": None, "times": 1}
    assert watched.ran() == ["delete_file /tmp/x 1"]


async def test_people_are_asked_as_the_policy_says(made: Make, shared: Server) -> None:
    connection, _ = shared
    assert await gated(made(connection)) == set()
    assert await gated(made(connection, confirmation=ConfirmationPolicy.all())) == ALL


async def test_a_name_that_no_tool_has_is_warned_of(
    made: Make, watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    policy = ConfirmationPolicy.named({"delete_file", "delete_flie"})
    with caplog.at_level(logging.WARNING, "adk_confirm"):
        assert await gated(made(watched.stdio(), confirmation=policy, tool_filter=["delete_file", "sya"])) == {
            "delete_file"
        }
    names = sorted(ALL)
    offers = f"which {sys.executable} does not offer; it offers: {', '.join(names)}"
    assert [record.message for record in caplog.records if record.name.startswith("adk_confirm")] == [
        f"the confirmation policy names delete_flie, {offers}",
        f"the tool_filter names sya, {offers}",
    ]


async def test_a_prefix_keeps_two_servers_apart_and_policies_know_both_names(made: Make, shared: Server) -> None:
    connection, _ = shared
    policy = ConfirmationPolicy.named({"delete_file", "disk_fail"})
    toolset = made(connection, confirmation=policy, tool_name_prefix="disk_")
    assert {one.name for one in await toolset.tools()} == {f"disk_{name}" for name in ALL}
    assert await gated(toolset) == {"disk_delete_file", "disk_fail"}
    assert await run(toolset, "disk_say", text="hi") == "hi"


async def test_a_filter_leaves_tools_out(made: Make, shared: Server) -> None:
    connection, _ = shared
    by_function = made(connection, tool_filter=lambda name: name.startswith("li"))
    assert {one.name for one in await by_function.tools()} == {"list_files", "linger"}
    with pytest.raises(BadTool, match=r"tool_filter takes a collection of names: \['say'\], not 'say'"):
        McpToolset(connection, tool_filter="say")


# Previews


async def test_another_tool_of_the_server_says_what_a_call_would_do(made: Make, shared: Server) -> None:
    connection, watch = shared
    toolset = made(connection, preview={"delete_file": "look"})
    previewed: Any = await tool(toolset, "delete_file")
    assert await previewed.preview({"path": "a.txt", "times": 2}, context()) == "a.txt would be gone"
    assert "look a.txt" in watch.said
    # Without an error, the call would be held as if its tool had no preview, whatever the policy requires.
    with pytest.raises(BadTool, match="returned nothing"):
        await previewed.preview({"path": "blank"}, context())
    plain: Any = await tool(toolset, "say")
    assert plain.preview is None


@pytest.mark.parametrize("preview", ["say", "lok"])
async def test_a_preview_that_the_server_does_not_call_read_only_is_none(
    made: Make, shared: Server, caplog: pytest.LogCaptureFixture, preview: str
) -> None:
    connection, _ = shared
    toolset = made(connection, preview={"delete_file": preview, "dleete_file": "look"})
    with caplog.at_level(logging.WARNING, "adk_confirm"):
        assert {one.name for one in await toolset.tools()} == ALL - {"delete_file"}
    assert f"the server does not offer {preview} as a read-only tool for its preview" in caplog.text
    assert "the preview names dleete_file, which" in caplog.text


async def test_a_preview_that_hangs_is_given_up(made: Make, shared: Server) -> None:
    connection, _ = shared
    previewed: Any = await tool(made(connection, preview={"delete_file": "look"}, preview_timeout=0.0), "delete_file")
    with pytest.raises(BadTool, match="took longer than 0 s"):
        await previewed.preview({"path": "a.txt"}, context())


# Results


async def test_results_are_what_the_tool_made_of_them(made: Make, server: Server) -> None:
    connection, _ = server
    toolset = made(connection)
    assert await run(toolset, "list_files") == {"result": ["a.txt", "b.txt"]}
    assert await run(toolset, "say", text="one\ntwo") == "one\ntwo"
    picture = await run(toolset, "picture")
    assert isinstance(picture, dict)
    text, image = picture["content"] if isinstance(picture["content"], list) else []
    assert isinstance(text, dict)
    assert isinstance(image, dict)
    assert text["text"] == "Look:"
    assert (image["type"], image["mimeType"], image["data"]) == ("image", "image/png", "aGk=")


async def test_a_tool_that_fails_says_why(made: Make, server: Server) -> None:
    connection, watched = server
    toolset = made(connection)
    with pytest.raises(ToolFailed, match="the disk is full"):
        await run(toolset, "fail", why="the disk is full")
    assert await run(toolset, "say", text="still here") == "still here"
    assert watched.ran() == ["fail"]


async def test_a_tool_that_asks_somebody_asks_nobody_and_says_so(made: Make, server: Server) -> None:
    """Whatever revision both sides speak."""
    connection, _ = server
    toolset = made(connection)
    with pytest.raises(ToolFailed, match=r"paint wanted to ask somebody in the middle of the call\. Nobody was"):
        await run(toolset, "paint", wall="north")
    for theirs in ("Elicitation not supported", "Client does not support form elicitation."):  # Python, TypeScript
        with pytest.raises(ToolFailed, match="fail wanted to ask somebody in the middle of the call"):
            await run(toolset, "fail", why=theirs)
    with pytest.raises(ToolFailed, match="an elicitation failed"):
        await run(toolset, "fail", why="an elicitation failed")


async def test_calls_run_at_the_same_time(made: Make, server: Server) -> None:
    connection, watched = server
    toolset = made(connection)
    await toolset.tools()
    both = [asyncio.create_task(run(toolset, "linger", word=word)) for word in ("a", "b")]
    await watched.heard("linger a")
    await watched.heard("linger b")
    watched.go_on()
    watched.go_on()
    assert await asyncio.gather(*both) == [{"result": "a"}, {"result": "b"}]
    assert len(await watched.pids()) == 1


# Servers that come late, go away, and come back


async def test_a_server_may_take_its_time_to_start(made: Make, watched: Watched) -> None:
    toolset = made(watched.bare(SLOW="1"))
    listing = asyncio.create_task(toolset.tools())
    await watched.pids()
    assert not listing.done()
    watched.go_on()
    assert {one.name for one in await listing} == ALL


async def test_but_not_for_ever(made: Make, watched: Watched) -> None:
    toolset = made(replace(watched.bare(SLOW="1"), start_timeout=2.0))
    with pytest.raises(McpUnavailable, match=r"cannot be used: it did not answer in time\. Nothing ran\."):
        await toolset.tools()
    [pid] = await watched.pids()
    assert not is_running(pid)


async def test_a_server_that_died_is_started_anew_for_the_next_call(made: Make, watched: Watched) -> None:
    toolset = made(watched.bare())
    assert await run(toolset, "delete_file", path="a") == {"deleted": "a", "rest": None, "times": 1}
    [pid] = await watched.pids()
    os.kill(pid, signal.SIGKILL)
    assert await run(toolset, "delete_file", path="b") == {"deleted": "b", "rest": None, "times": 1}
    assert len(await watched.pids(2)) == 2
    assert watched.ran() == ["delete_file a 1", "delete_file b 1"]


async def test_a_web_server_that_was_restarted_is_met_again(made: Make, watched: Watched, unused_tcp_port: int) -> None:
    async with watched.http(unused_tcp_port) as (connection, process):
        toolset = made(connection)
        assert await run(toolset, "say", text="one") == "one"
        process.kill()
        with pytest.raises(McpUnavailable, match=r"cannot be used: .*Nothing ran\."):
            await run(toolset, "delete_file", path="a")
    async with watched.http(unused_tcp_port):
        assert await run(toolset, "delete_file", path="b") == {"deleted": "b", "rest": None, "times": 1}
    assert watched.ran() == ["delete_file b 1"]


async def test_a_web_server_that_forgot_the_session_is_met_again(
    made: Make, watched: Watched, unused_tcp_port: int
) -> None:
    async with watched.http(unused_tcp_port) as (connection, _):
        toolset = made(connection)
        assert await run(toolset, "say", text="one") == "one"
    async with watched.http(unused_tcp_port):
        assert await run(toolset, "delete_file", path="b") == {"deleted": "b", "rest": None, "times": 1}
    assert watched.ran() == ["delete_file b 1"]


async def test_a_call_that_was_cut_has_an_unknown_outcome_and_is_not_sent_again(made: Make, watched: Watched) -> None:
    toolset = made(watched.bare())
    running = asyncio.create_task(run(toolset, "linger", word="x"))
    await watched.heard("linger x")
    os.kill((await watched.pids())[0], signal.SIGKILL)
    with pytest.raises(ToolOutcomeUnknown, match="broke while linger ran: nobody knows whether it took effect"):
        await running
    assert await run(toolset, "say", text="new") == "new"
    assert watched.ran() == ["linger x"]


async def test_the_same_over_http(made: Make, watched: Watched, unused_tcp_port: int) -> None:
    async with watched.http(unused_tcp_port) as (connection, process):
        toolset = made(replace(connection, timeout=20.0))
        await toolset.tools()
        running = asyncio.create_task(run(toolset, "linger", word="x"))
        await watched.heard("linger x")
        process.kill()
        with pytest.raises(ToolOutcomeUnknown, match="nobody knows whether it took effect"):
            await running
    async with watched.http(unused_tcp_port):
        assert await run(toolset, "say", text="new") == "new"
    assert watched.ran() == ["linger x"]


async def test_a_call_that_never_ends_has_an_unknown_outcome(made: Make, server: Server) -> None:
    connection, _ = server
    toolset = made(replace(connection, timeout=0.5))
    with pytest.raises(ToolOutcomeUnknown, match=r"linger did not answer within 0\.5 s"):
        await run(toolset, "linger", word="x")
    assert await run(toolset, "say", text="still here") == "still here"


async def test_a_server_that_speaks_the_newest_revision_alone_is_used(made: Make, watched: Watched) -> None:
    """Not by version 1 of the SDK. What such a server asks in the middle of a call, nobody is asked."""
    toolset = made(watched.modern())
    if not hasattr(mcp, "Client"):
        with pytest.raises(McpUnavailable, match=r"cannot be used: .*Nothing ran\."):
            await toolset.tools()
        return
    assert {one.name for one in await toolset.tools()} == ALL | {"phone"}
    assert await run(toolset, "delete_file", path="a") == {"deleted": "a", "rest": None, "times": 1}
    with pytest.raises(ToolFailed, match="out of paper"):
        await run(toolset, "fail", why="out of paper")
    for name, args in (("paint", {"wall": "north"}), ("phone", {"whom": "bob"})):
        with pytest.raises(ToolFailed, match=f"{name} wanted to ask somebody in the middle of the call. Nobody was"):
            await run(toolset, name, **args)
    os.kill((await watched.pids())[0], signal.SIGKILL)
    assert await run(toolset, "say", text="new") == "new"
    assert watched.ran() == ["delete_file a 1", "fail"]


@pytest.mark.parametrize(
    "unreachable",
    [
        StdioConnection("no-such-command-anywhere"),
        StdioConnection(sys.executable, ["-c", "pass"]),
        StdioConnection(sys.executable, ["-c", "print('hello')"], start_timeout=5.0),
        HttpConnection("http://127.0.0.1:9/mcp"),
        HttpConnection("no url"),
    ],
    ids=["no command", "ends at once", "speaks something else", "no server", "no url"],
)
async def test_a_server_that_cannot_be_used_is_reported(made: Make, unreachable: Connection) -> None:
    with pytest.raises(McpUnavailable, match=r"^The MCP server \S.* cannot be used: .+\. Nothing ran\.$"):
        await made(unreachable).tools()


# The end


async def test_closing_leaves_no_process_whichever_task_closes(watched: Watched) -> None:
    toolset = McpToolset(watched.bare())
    await asyncio.create_task(toolset.close())  # never used: nothing to do
    await toolset.tools()
    [pid] = await watched.pids()
    assert is_running(pid)
    await asyncio.create_task(toolset.close())
    assert not is_running(pid)
    assert await run(toolset, "say", text="again") == "again"
    await toolset.close()
    assert not any(is_running(pid) for pid in await watched.pids(2))


async def test_whoever_gives_up_while_it_starts_leaves_no_process(watched: Watched) -> None:
    toolset = McpToolset(watched.bare(SLOW="1"))
    listing = asyncio.create_task(toolset.tools())
    [pid] = await watched.pids()
    listing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listing
    assert not is_running(pid)


async def test_without_the_mcp_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(McpUnavailable, match=r"need the mcp package: install 'adk-confirm\[mcp\]'"):
        await McpToolset(StdioConnection("true")).tools()


ANSWERS_WITH_AN_ERROR = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        server = {"name": "x", "version": "1"}
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    elif asked["method"] == "tools/list":
        second = (asked.get("params") or {}).get("cursor") == "more"
        tool = {"name": "pay" if second else "look", "inputSchema": {"type": "object"}}
        answer["result"] = {"tools": [tool]} if second else {"tools": [tool], "nextCursor": "more"}
    elif asked["method"] == "tools/call":
        answer["error"] = {"code": int(sys.argv[1]), "message": sys.argv[2]}
    else:
        answer["result"] = {}
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.parametrize(("code", "raised"), [(-32603, ToolOutcomeUnknown), (-32602, ToolFailed)])
async def test_an_internal_error_of_the_server_says_nothing_of_what_happened_before_it(
    made: Make, code: int, raised: type[Exception]
) -> None:
    """Wrong arguments do: then nothing ran."""
    toolset = made(StdioConnection(sys.executable, ["-c", ANSWERS_WITH_AN_ERROR, str(code), "Something broke"]))
    with pytest.raises(raised):
        await run(toolset, "pay")


async def test_tools_are_listed_to_the_last_page(made: Make) -> None:
    toolset = made(StdioConnection(sys.executable, ["-c", ANSWERS_WITH_AN_ERROR, "-32603", "Something broke"]))
    assert [one.name for one in await toolset.tools()] == ["look", "pay"]


async def test_a_server_that_forgot_the_session_ran_nothing(made: Make) -> None:
    """In the SDK's own words."""
    toolset = made(StdioConnection(sys.executable, ["-c", ANSWERS_WITH_AN_ERROR, "32600", "Session terminated"]))
    with pytest.raises(McpUnavailable, match="Nothing ran: call again"):
        await run(toolset, "pay")
