"""How to reach an MCP server. The only module that depends on the major version of the `mcp` package."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.errors import ConfirmError

if TYPE_CHECKING:
    from mcp import ClientSession

_CONNECTING = 30.0


class McpUnavailable(ConfirmError):
    """The server could not be reached. No call was sent."""


@dataclass(frozen=True)
class StdioConnection:
    """A server that we start as a command with the first use, and end with `close`.

    It gets `env` on top of the few variables that are safe to inherit. `start_timeout` is for its greeting, `timeout`
    for each call.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | Path | None = None
    timeout: float = 300.0
    start_timeout: float = 30.0

    def __str__(self) -> str:
        return self.command


@dataclass(frozen=True)
class HttpConnection:
    """A server that speaks streamable HTTP. `headers` go with every request; `timeout` is for each call."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 300.0
    start_timeout: float = 30.0

    def __str__(self) -> str:
        return self.url


Connection = StdioConnection | HttpConnection


def require_mcp() -> None:
    try:
        importlib.import_module("mcp")
    except ImportError as error:
        raise McpUnavailable(
            f"Tools of MCP servers need the mcp package: install 'adk-confirm[mcp]'. (Importing it failed: {error}.)"
        ) from error


@asynccontextmanager
async def open_session(connection: Connection) -> AsyncGenerator[ClientSession, None]:
    """A session after the server's greeting. The SDK requires that the same task enters and leaves it."""
    import anyio
    from mcp import ClientSession

    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(_transport(connection))
        session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
        with anyio.fail_after(connection.start_timeout):
            await session.initialize()
        yield session


@asynccontextmanager
async def _transport(connection: Connection) -> AsyncGenerator[Sequence[Any], None]:
    if isinstance(connection, StdioConnection):
        from mcp import StdioServerParameters, stdio_client

        if connection.cwd is None and shutil.which(connection.command, path=connection.env.get("PATH")) is None:
            raise McpUnavailable(f"there is no command {connection.command}")
        parameters = StdioServerParameters(
            command=connection.command,
            args=list(connection.args),
            env=dict(connection.env) or None,
            cwd=connection.cwd,
        )
        # Not sys.stderr, which may be a stand-in without a file behind it.
        async with stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr) as streams:
            yield streams
        return
    sdk: Any = importlib.import_module("mcp.client.streamable_http")
    httpx = getattr(sdk, "httpx2", None) or sdk.httpx  # the HTTP package of this version of the SDK
    patience = httpx.Timeout(_CONNECTING, read=connection.timeout)
    async with (
        httpx.AsyncClient(headers=dict(connection.headers), timeout=patience) as client,
        sdk.streamable_http_client(connection.url, http_client=client) as streams,
    ):
        yield streams
