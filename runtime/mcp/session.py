"""A live connection to an MCP server.

The SDK wants one task to open and to close a connection, so each connection has a task of its own that does nothing
else. Callers ask the server directly, and get an error at once if that task ends meanwhile.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import shutil
import sys
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from adk_confirm.runtime.errors import ConfirmError, read_error
from adk_confirm.runtime.jsontypes import JsonObject, as_text, objects
from adk_confirm.runtime.tool import ToolOutcomeUnknown

if TYPE_CHECKING:
    from mcp import ClientSession

log = logging.getLogger(__name__)

R = TypeVar("R")

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
    patience = httpx.Timeout(_CONNECTING, read=connection.timeout + _CONNECTING)  # the caller gives up earlier
    async with (
        httpx.AsyncClient(headers=dict(connection.headers), timeout=patience) as client,
        sdk.streamable_http_client(connection.url, http_client=client) as streams,
    ):
        yield streams


@asynccontextmanager
async def _session(connection: Connection) -> AsyncGenerator[ClientSession, None]:
    """A session of the newest revision that both sides speak. In version 1 of the SDK each has a handshake."""
    sdk: Any = importlib.import_module("mcp")
    if (client := getattr(sdk, "Client", None)) is not None:
        async with client(_transport(connection), cache=None) as made:
            yield made.session
        return
    async with _transport(connection) as streams, sdk.ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield session


_PROBE = 5.0
_CLOSING = 15.0
_MOST_PAGES = 1000
# Codes that the SDK makes up when a connection fails after the request left: closed, timed out (two codes), unreadable,
# HTTP errors (two). A server's own -32603 leaves open what happened before it, too.
_UNSURE = {-32000, -32001, 408, -32700, -32603, -32600}


class ToolFailed(ConfirmError):
    """The server says that the tool failed; this has its message."""


class _Ended(Exception):
    """The connection ended while somebody waited for an answer."""


class McpSession:
    """A connection, made by `open`. It can be used until `alive` is false."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(read_error)
        self._task = asyncio.create_task(self._keep_open(), name=f"mcp {connection}")
        self._in_flight = 0

    @classmethod
    async def open(cls, connection: Connection) -> Self:
        require_mcp()
        session = cls(connection)
        try:
            await asyncio.shield(session._ready)
        except BaseException:
            await session.close()
            raise
        return session

    async def _keep_open(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._connection.start_timeout):
                    session = await stack.enter_async_context(_session(self._connection))
                self._ready.set_result(session)
                await self._closing.wait()
        except Exception as error:  # noqa: BLE001  (whatever the cause, the result is a broken connection)
            if self._ready.done():
                log.warning("the connection to the MCP server %s broke: %s", self._connection, _reason(error))
            else:
                self._ready.set_exception(
                    McpUnavailable(f"The MCP server {self._connection} cannot be used: {_reason(error)}. Nothing ran.")
                )
        finally:
            if not self._ready.done():
                self._ready.cancel()

    async def alive(self) -> bool:
        """Whether a call may be sent. A server that is too busy to answer counts as alive; asking it does no harm."""
        if self._task.done():
            return False
        if self._in_flight:
            return True
        try:
            session = self._ready.result()
            modern = session.protocol_version if _is_modern(session) else None
            await self._ask(session.send_discover(modern) if modern else session.send_ping(), _PROBE)
        except TimeoutError:
            return True
        except _Ended:
            return False
        except Exception as error:  # noqa: BLE001  (the major versions of the SDK share no base class for errors)
            return _is_answer(error)
        return True

    async def list_tools(self) -> list[JsonObject]:
        """The server's tools, as it describes them."""
        from mcp.types import PaginatedRequestParams

        session, found = self._ready.result(), list[JsonObject]()
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            listing = session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            try:
                page = _as_json(await self._ask(listing, self._connection.start_timeout))
            except Exception as error:
                raise McpUnavailable(
                    f"The MCP server {self._connection} did not list its tools: {_reason(error)}."
                ) from error
            found += objects(page.get("tools"))
            cursor = as_text(page.get("nextCursor"))
            if not cursor:
                return found
        raise McpUnavailable(f"The MCP server {self._connection} lists tools without an end.")

    async def call(self, name: str, args: JsonObject) -> JsonObject:
        """Sends the call once, and returns the server's result. Raises `ToolOutcomeUnknown` if there was no answer."""
        self._in_flight += 1
        try:
            session = self._ready.result()
            asks: dict[str, Any] = {"allow_input_required": True} if _is_modern(session) else {}
            answer = await self._ask(session.call_tool(name, args, **asks), self._connection.timeout)
        except TimeoutError as error:
            raise ToolOutcomeUnknown(
                f"{name} did not answer within {self._connection.timeout:g} s: nobody knows whether it took effect."
            ) from error
        except Exception as error:
            if _broke_its_promise(error):
                raise ToolFailed(f"{name} ran, but answered something else than it promises: {error}") from error
            if "elicitation/create" in str(error):  # the SDK's servers can't ask clients of this revision
                raise ToolFailed(_NO_QUESTIONS.format(name)) from error
            if _is_answer(error):
                raise ToolFailed(_reason(error)) from error
            if _forgot_us(error):
                raise McpUnavailable(
                    f"The MCP server {self._connection} was restarted in this moment. Nothing ran: call again."
                ) from error
            raise ToolOutcomeUnknown(
                f"The connection to the MCP server {self._connection} broke while {name} ran: nobody knows whether it "
                "took effect."
            ) from error
        finally:
            self._in_flight -= 1
        if _asks_somebody(result := _as_json(answer)):
            raise ToolFailed(_NO_QUESTIONS.format(name))
        return result

    async def close(self) -> None:
        """Ends the connection, and the server's process if it is ours. Any task may close."""
        self._closing.set()
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait({self._task}, timeout=_CLOSING)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _ask(self, question: Coroutine[Any, Any, R], patience: float) -> R:
        """Waits for the answer. Raises `_Ended` as soon as the connection's own task ends, since no answer can come
        then."""
        asking = asyncio.create_task(question)
        try:
            async with asyncio.timeout(patience):
                await asyncio.wait({asking, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise _Ended("the connection ended")
            return await asking
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)


_NO_QUESTIONS = (
    "{} wanted to ask somebody in the middle of the call. Nobody was asked, and the call ended there: the server must "
    "take what it needs as an argument."
)


def _is_modern(session: ClientSession) -> bool:
    """Whether the connection is of the revision 2026-07-28 or later: without handshake and pings, and with questions
    in the place of results."""
    return getattr(session, "discover_result", None) is not None


def _asks_somebody(result: JsonObject) -> bool:
    """Whether the answer is a question, or the failure of a tool that learned from this client, or from its own SDK,
    that elicitation is not supported here."""
    said = str(result.get("content")).lower() if result.get("isError") else ""
    return "inputRequests" in result or ("elicitation" in said and "support" in said)


def _as_json(answer: Any) -> JsonObject:
    """The SDK's model as the JSON that came: the SDK's versions spell attributes differently."""
    plain: JsonObject = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    return plain


def _is_answer(error: Exception) -> bool:
    """Whether the error is the server's own answer, so that the outcome is known."""
    code = getattr(getattr(error, "error", None), "code", None)
    return isinstance(code, int) and code not in _UNSURE and not _forgot_us(error)


def _forgot_us(error: Exception) -> bool:
    """Whether an HTTP server does not know the session, in the SDK's words. Then it did not run the call."""
    return getattr(getattr(error, "error", None), "message", None) == "Session terminated"


def _broke_its_promise(error: Exception) -> bool:
    """Whether the SDK rejected an answer that arrived, because it does not fit the tool's schema."""
    return isinstance(error, RuntimeError) and "structured content" in str(error)


def _reason(error: BaseException) -> str:
    """The first error in the groups into which the SDK wraps it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
