"""An MCP server whose answers do not end: they are read within limits, and the call's outcome is unknown."""

from __future__ import annotations

import gzip
import sys
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from runtime.jsontypes import JsonObject
from runtime.mcp.bounded_http import MOST_BYTES, _unfinished_bytes
from runtime.mcp.toolset import HttpConnection, McpToolset, StdioConnection
from runtime.tool import ToolOutcomeUnknown
from tests.runtime.mcp.test_mcp import context

Says = Callable[[web.Request, JsonObject], Awaitable[web.StreamResponse]]
PART = b"x" * (1 << 16)
PACKED = gzip.compress(bytes(8 * MOST_BYTES), 1)


@asynccontextmanager
async def toolset(says: Says) -> AsyncIterator[McpToolset]:
    """Of a server with one tool, whose calls are answered by `says`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        asked = await request.json()
        if "id" not in asked:
            return web.Response(status=202)
        if asked["method"] == "tools/call":
            return await says(request, asked)
        results: JsonObject = {
            "initialize": {
                "protocolVersion": "2025-03-26",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hostile", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]},
        }
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": results.get(asked["method"], {})})

    app = web.Application()
    app.router.add_route("*", "/mcp", answer)
    async with TestServer(app) as server:
        made = McpToolset(HttpConnection(str(server.make_url("/mcp")), timeout=20))
        try:
            yield made
        finally:
            await made.close()


async def endless(request: web.Request, start: bytes, content_type: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": content_type})
    await response.prepare(request)
    await response.write(start)
    for _ in range(64 * MOST_BYTES // len(PART)):
        await response.write(PART)
    return response


async def a_body(request: web.Request, asked: JsonObject) -> web.StreamResponse:
    return await endless(request, b'{"jsonrpc": "2.0", "result": "', "application/json")


async def an_event(request: web.Request, asked: JsonObject) -> web.StreamResponse:
    return await endless(request, b"event: message\ndata: ", "text/event-stream")


async def packed(request: web.Request, asked: JsonObject) -> web.StreamResponse:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    return web.Response(body=PACKED, headers=headers)


@pytest.mark.parametrize("says", [a_body, *(pytest.param(says, marks=pytest.mark.slow) for says in (an_event, packed))])
async def test_an_answer_without_end(says: Says) -> None:
    async with toolset(says) as made:
        await takes_little_memory(made)


async def takes_little_memory(made: McpToolset) -> None:
    (tool,) = await made.tools()
    tracemalloc.start()
    try:
        with pytest.raises(ToolOutcomeUnknown):
            await tool.run({}, context())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 6 * MOST_BYTES


_ENDLESS = """
import json, sys
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-03-26",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "hostile", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]},
}
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "tools/call":
        for _ in range(64 * %d // 65536):
            sys.stdout.write("x" * 65536)
    elif "id" in asked:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": RESULTS.get(asked["method"], {})}
        print(json.dumps(answer), flush=True)
"""


async def test_a_line_without_end() -> None:
    """The same from a server that is a process of ours."""
    made = McpToolset(StdioConnection(sys.executable, ["-c", _ENDLESS % MOST_BYTES], timeout=20))
    try:
        await takes_little_memory(made)
    finally:
        await made.close()


def test_events_end_wherever_they_are_cut() -> None:
    whole = b"data: 1\n\ndata: 22\r\n\r\ndata: 333"
    for size in (1, 2, 3, 7, len(whole)):
        held, last = 0, b""
        for start in range(0, len(whole), size):
            part = whole[start : start + size]
            held, last = _unfinished_bytes(held, last, part), (last + part)[-3:]
        assert held == len(b"data: 333")
