"""An MCP server in front of the door: its tools are those of the door's MCP servers, which run in the bot once people
have approved. Here a No is enforced: the proxy's clients have nothing with which a tool could run in another way.

A call that nobody decides in time is answered as pending. The same call again goes on waiting for the same ask.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from adk_confirm.bot.door.client import DoorClient, NoDesk, Refused, door_client, is_over
from adk_confirm.bot.door.permit import digest
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import JsonObject, as_object, as_text, objects
from adk_confirm.runtime.recent_dict import RecentDict
from adk_confirm.runtime.rest.guard import bearer_in

SLICE = 10.0
"""Seconds between two notes of progress, so that clients do not give up."""
_REACHING = 10.0
_REMEMBERED = 1000
"""Calls that have not ended, whose repetition goes on waiting."""
_PENDING = (
    "The call has not ended: people in Slack decide on it, or it runs. Call the same tool with the same arguments "
    "again to go on waiting. Do nothing else in its place."
)

Context = ServerRequestContext[Any, Any]


@dataclass
class Proxy:
    """Serves MCP clients. `token`: of the one caller for which all clients ask; if empty, each client sends its own.
    `hold`: for how many seconds a call waits for people."""

    url: str
    token: str
    hold: float
    _keys: RecentDict[tuple[str, str], str] = field(default_factory=lambda: RecentDict(_REMEMBERED))

    def server(self) -> Server[Any]:
        return Server("adk-confirm", on_list_tools=self.list_tools, on_call_tool=self.call_tool)

    def _token(self, context: Context) -> str:
        headers: Any = getattr(context.request, "headers", {})
        return self.token or bearer_in(headers)

    async def list_tools(self, context: Context, params: object) -> types.ListToolsResult:  # noqa: ARG002  (the SDK's)
        async with door_client(self.url, self._token(context), _REACHING) as door:
            listed = objects((await door.send("GET", "/v1/tools"))["tools"])
        described = ({name: one[name] for name in ("name", "description", "inputSchema")} for one in listed)
        return types.ListToolsResult(tools=[types.Tool.model_validate(one) for one in described])

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        body: JsonObject = {"tool": params.name, "arguments": params.arguments or {}}
        try:
            async with door_client(self.url, self._token(context), _REACHING) as door:
                return await self._ask(context, door, body)
        except (NoDesk, Refused, Invalid) as error:
            return _text(str(error), failed=True)

    async def _ask(self, context: Context, door: DoorClient, body: JsonObject) -> types.CallToolResult:
        call = (self._token(context), digest(body))
        key = self._keys[call] = self._keys.get(call) or str(uuid.uuid4())
        until = time.monotonic() + self.hold
        while True:
            left = until - time.monotonic()
            said = await door.ask(body, key, min(SLICE, left), "over")
            outcome = as_object(as_object(said.get("result")).get("outcome"))
            if is_over(said, "over"):
                self._keys.pop(call, None)
                task = as_object(said["task"])
                if task["status"] == "approved":
                    return _result(outcome)
                why = as_text(task.get("reason")) or "Nothing ran."
                return _text(f"The call is {task['status']}, and did not run: {why}", failed=True)
            if left <= SLICE:
                return _result(outcome) if outcome.get("kind") == "unknown" else _text(_PENDING, failed=True)
            await context.session.report_progress(self.hold - left, self.hold, "Waits for people in Slack.")


def _result(outcome: JsonObject) -> types.CallToolResult:
    """The tool's own result, as its server gave it."""
    kind, text = outcome.get("kind"), as_text(outcome.get("text"))
    if kind != "done":
        unknown = "Nobody knows whether it took effect, and people are asked. Do not simply call it again."
        return _text(unknown if kind == "unknown" else text or f"It ended so: {kind}.", failed=True)
    value = as_object(json.loads(text))
    if list(value) == ["result"] and isinstance(value["result"], str):
        return _text(value["result"])
    if list(value) == ["content"]:
        return types.CallToolResult.model_validate(value)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=value)


def _text(text: str, *, failed: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)


async def over_stdio(proxy: Proxy) -> None:
    """Serves one client over stdio, until the client leaves."""
    server = proxy.server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def over_http(proxy: Proxy, listen: str) -> None:
    """Serves clients over HTTP, until this process is stopped."""
    host, _, port = listen.rpartition(":")
    if not port.isdecimal():
        raise Invalid('--listen must be host and port, such as "127.0.0.1:8900".')
    app = proxy.server().streamable_http_app(stateless_http=True, host=host)
    uvicorn.run(app, host=host.strip("[]"), port=int(port), log_level="warning")
