"""A small MCP server of the official package, run as a process of its own:
`python mcp_server.py stdio|http|bare|modern`. `bare` is over stdio too, but does without that package, which takes a
second to import. `modern` is a bare one that speaks the revision 2026-07-28 and no other.

It reports everything to its test over a Unix socket (`WATCH`), line by line. Where it waits, it waits for a line from
there. So a test knows what ran, and can kill the server in the middle of a tool.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

MODE = sys.argv[1]


class Watch:
    """Reports to the test and waits for it. Tools run in threads of their own, so each direction has its lock."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._heard = self._socket.makefile("r")
        self._hearing, self._telling = threading.Lock(), threading.Lock()

    def tell(self, line: str) -> None:
        with self._telling:
            self._socket.sendall(f"{line}\n".encode())

    def wait(self) -> None:
        with self._hearing:
            if not self._heard.readline():
                os._exit(1)


watch = Watch(os.environ["WATCH"])
watch.tell(f"pid {os.getpid()}")
if os.environ.get("SLOW"):
    watch.wait()


class Bare:
    """Understands what the tests of stopped and killed servers need of the protocol."""

    def __init__(self) -> None:
        self._tools: dict[str, Callable[..., Any]] = {}
        self._telling = threading.Lock()

    def tool(self, **_: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            self._tools[function.__name__] = function
            return function

        return declare

    def run(self, **_: object) -> None:
        for line in sys.stdin:
            if "id" in (asked := json.loads(line)):
                threading.Thread(target=self._answer, args=(asked,), daemon=True).start()

    def _answer(self, asked: dict[str, Any]) -> None:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": self._result(asked["method"], asked.get("params", {}))}
        with self._telling:
            print(json.dumps(answer), flush=True)

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            version = params["protocolVersion"]
            return {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "files", "version": "1"},
            }
        if method == "tools/list":
            return {"tools": [self._declaration(function) for function in self._tools.values()]}
        return self._called(**params) if method == "tools/call" else {}

    def _declaration(self, function: Callable[..., Any]) -> dict[str, Any]:
        of = inspect.signature(function).parameters.values()
        properties = {one.name: {"type": "integer" if one.annotation == "int" else "string"} for one in of}
        required = [one.name for one in of if one.default is one.empty]
        schema = {"type": "object", "properties": properties, "required": required}
        return {"name": function.__name__, "description": function.__doc__, "inputSchema": schema}

    def _called(self, name: str, arguments: dict[str, Any], **_: object) -> dict[str, Any]:
        try:
            value = self._tools[name](**arguments)
            value = asyncio.run(value) if inspect.iscoroutine(value) else value
        except RuntimeError as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        if isinstance(value, str):
            return {"content": [{"type": "text", "text": value}]}
        return {"content": [], "structuredContent": value if isinstance(value, dict) else {"result": value}}


class Modern(Bare):
    """Knows no handshake. Its tools may ask: `paint` as the revision has it, `phone` as the official package fails."""

    def _answer(self, asked: dict[str, Any]) -> None:
        if (
            asked["method"] in ("server/discover", "tools/list", "tools/call")
            and asked["params"].get("name") != "phone"
        ):
            return super()._answer(asked)
        words = "Cannot send 'elicitation/create': this transport context has no back-channel"
        error = {"code": -32600, "message": words} if "name" in asked["params"] else {"code": -32601, "message": "No."}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
        return None

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        cached = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        if method == "server/discover":
            return {**cached, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        if params.get("name") == "paint":
            wanted = {"message": "Which colour?", "requestedSchema": {"type": "object", "properties": {}}}
            asks = {"colour": {"method": "elicitation/create", "params": {"mode": "form", **wanted}}}
            return {"resultType": "input_required", "inputRequests": asks, "requestState": "painting"}
        return {**cached, **super()._result(method, params)}


def new_server() -> tuple[Any, Any]:
    """A server, and the exception whose message it passes on."""
    if MODE in ("bare", "modern"):
        return Bare() if MODE == "bare" else Modern(), RuntimeError
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        fastmcp = importlib.import_module("mcp.server.fastmcp")  # its name in major version 1
        server = fastmcp.FastMCP("files", host="127.0.0.1", port=int(os.environ.get("PORT", "0")))
        return server, importlib.import_module("mcp.server.fastmcp.exceptions").ToolError
    return MCPServer("files"), ToolError


server, Failure = new_server()
F = TypeVar("F", bound=Callable[..., object])


def tool(**options: Any) -> Callable[[F], F]:
    return server.tool(**options)  # type: ignore[no-any-return]  # whichever major's


@tool()
def list_files(folder: str = "/") -> list[str]:
    """Lists a folder."""
    watch.tell(f"list_files {folder}")
    return ["a.txt", "b.txt"]


@tool()
def delete_file(path: str, times: int = 1) -> dict[str, Any]:
    """Deletes a file.

    It is gone then.
    """
    watch.tell(f"delete_file {path} {times}")
    return {"deleted": path, "rest": None, "times": times}


def read_only() -> dict[str, Any]:
    if MODE in ("bare", "modern"):
        return {}
    from mcp.types import ToolAnnotations

    return {"annotations": ToolAnnotations.model_validate({"readOnlyHint": True})}


@tool(**read_only())
def look(path: str) -> str | None:
    """Says what a deletion would do, unless the file is blank."""
    watch.tell(f"look {path}")
    return f"{path} would be gone" if path != "blank" else None


@tool()
def fail(why: str) -> str:
    """Fails."""
    watch.tell("fail")
    raise Failure(why)


@tool(structured_output=False)
def say(text: str) -> str:
    """Says it."""
    return text


@tool(structured_output=False)
def picture() -> list[Any]:
    """A picture with a caption."""
    from mcp.types import ImageContent, TextContent

    image: dict[str, Any] = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    return [TextContent(type="text", text="Look:"), ImageContent.model_validate(image)]


@tool()
async def linger(word: str) -> str:
    """Takes its time."""
    import anyio.to_thread

    watch.tell(f"linger {word}")
    await anyio.to_thread.run_sync(watch.wait, abandon_on_cancel=True)
    return word


def painter() -> Callable[..., Any]:
    if MODE in ("bare", "modern"):
        return lambda wall: wall  # the modern one asks in its place
    from pydantic import create_model

    colour, context = (
        create_model("Colour", colour=(str, ...)),
        importlib.import_module(type(server).__module__).Context,
    )

    async def asks(wall: str, ctx: Any) -> str:
        return f"{wall} {await ctx.elicit('Which colour?', colour)}"

    asks.__annotations__ = {"wall": str, "ctx": context, "return": str}  # of whichever major
    return asks


paint = painter()
paint.__name__, paint.__doc__ = "paint", "Asks for the colour in the middle of the call."
tool()(paint)


if MODE == "modern":

    @tool()
    def phone(whom: str) -> str:
        """Asks for the number in the middle of the call."""
        return whom


if MODE != "http":
    server.run(transport="stdio")
elif hasattr(server, "settings") and hasattr(server.settings, "port"):
    server.run(transport="streamable-http")
else:
    server.run(transport="streamable-http", host="127.0.0.1", port=int(os.environ["PORT"]))
