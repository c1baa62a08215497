"""Calls the replayed agents' MCP server without the official client, in a session for each call."""

from __future__ import annotations

import asyncio
import json
import os

from tests.support.foreign.wishes import Plain

_PIPE = asyncio.subprocess.PIPE
_HELLO: Plain = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "replay", "version": "1"}}


async def called_over_mcp(tool: str, arguments: Plain) -> Plain:
    """The result as JSON, as the server sent it. The official client takes a second to import."""
    server = await asyncio.create_subprocess_exec(*json.loads(os.environ["MCP"]), stdin=_PIPE, stdout=_PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    for message in (
        {"id": 1, "method": "initialize", "params": _HELLO},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}},
    ):
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        while "id" in message and (said := json.loads(await server.stdout.readline())).get("id") != message["id"]:
            pass
    server.stdin.close()
    await server.wait()
    found: Plain = said["result"]
    return found
