"""Calls the replayed agents' MCP server with the official client, in a session for each call."""

from __future__ import annotations

import json
import os

from tests.support.foreign.wishes import Plain


async def called_over_mcp(tool: str, arguments: Plain) -> Plain:
    """The result as JSON, as the server sent it."""
    from mcp import ClientSession, StdioServerParameters  # takes a second, and most replays never need it
    from mcp.client.stdio import stdio_client

    program, *rest = json.loads(os.environ["MCP"])
    there = StdioServerParameters(command=program, args=rest, env=dict(os.environ))
    async with stdio_client(there) as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
        await session.initialize()
        result = await session.call_tool(tool, arguments)
    found: Plain = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found
