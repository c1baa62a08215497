"""A small MCP server of the official package, run as a process of its own: `python mcp_server.py stdio|http`.

It reports everything to its test over a Unix socket (`WATCH`), line by line. Where it waits, it waits for a line from
there. So a test knows what ran, and can kill the server in the middle of a tool.
"""

from __future__ import annotations

import importlib
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


def new_server() -> tuple[Any, Any]:
    """A server, and the exception whose message it passes on."""
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


if MODE == "stdio":
    server.run(transport="stdio")
elif hasattr(server, "settings") and hasattr(server.settings, "port"):
    server.run(transport="streamable-http")
else:
    server.run(transport="streamable-http", host="127.0.0.1", port=int(os.environ["PORT"]))
