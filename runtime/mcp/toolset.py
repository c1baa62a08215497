"""The tools of an MCP server. The gate is on the whole toolset, since the tools are not ours.

Needs the `mcp` package, which is loaded when a server is used first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Self

from runtime.jsontypes import JsonObject
from runtime.mcp.connection import Connection, HttpConnection, McpUnavailable, StdioConnection
from runtime.mcp.session import McpSession, ToolFailed
from runtime.mcp.tool import McpTool, wrong_schemas
from runtime.tool import BadTool, ConfirmationPolicy, Tool

__all__ = ["Connection", "HttpConnection", "McpToolset", "McpUnavailable", "StdioConnection", "ToolFailed"]

log = logging.getLogger(__name__)

ToolFilter = Collection[str] | Callable[[str], bool]


class McpToolset:
    """All of a server's tools, or those that `tool_filter` (names, or a function of a name) lets through.

    `confirmation` says which of them people are asked about; it is settled before the tools are listed for the first
    time, and names tools as the server does. `tool_name_prefix` keeps the tools of two servers apart.
    A server that went away is connected again for the next call. A call itself is sent at most once: without an
    answer, its outcome is unknown.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        confirmation: ConfirmationPolicy | None = None,
        tool_filter: ToolFilter | None = None,
        tool_name_prefix: str = "",
    ) -> None:
        if isinstance(tool_filter, str):
            raise BadTool(f"tool_filter takes a collection of names: [{tool_filter!r}], not {tool_filter!r}.")
        self._connection = connection
        self._confirmation = confirmation if confirmation is not None else ConfirmationPolicy.none()
        self._filter = tool_filter
        self._prefix = tool_name_prefix
        self._tools: list[Tool] | None = None
        self._session: McpSession | None = None
        self._listing = asyncio.Lock()
        self._connecting = asyncio.Lock()

    def __repr__(self) -> str:
        return f"McpToolset({self._connection})"

    @property
    def confirmation(self) -> ConfirmationPolicy:
        return self._confirmation

    @confirmation.setter
    def confirmation(self, policy: ConfirmationPolicy) -> None:
        if self._tools is not None:
            raise BadTool(
                f"The tools of {self._connection} are already listed: set the confirmation policy before their first "
                "use, best where the toolset is made."
            )
        self._confirmation = policy

    def with_confirmation_policy(self, policy: ConfirmationPolicy) -> Self:
        self.confirmation = policy
        return self

    async def tools(self) -> Sequence[Tool]:
        """The tools, which the server is asked for once."""
        async with self._listing:
            if self._tools is None:
                session = await self._connect()
                self._tools = await self._make_tools(await session.list_tools())
            return self._tools

    async def close(self) -> None:
        """Disconnects from the server, and ends a process that was started for it. A later use connects again."""
        async with self._connecting:
            session, self._session = self._session, None
            if session is not None:
                await session.close()

    async def _call(self, name: str, args: JsonObject) -> JsonObject:
        session = await self._connect()
        return await session.call(name, args)

    async def _connect(self) -> McpSession:
        async with self._connecting:
            if self._session is not None and await self._session.alive():
                return self._session
            if self._session is not None:
                stale, self._session = self._session, None
                await stale.close()
            self._session = await McpSession.open(self._connection)
            return self._session

    async def _make_tools(self, described: Sequence[JsonObject]) -> list[Tool]:
        tools: list[McpTool] = []
        for one in described:
            name = str(one.get("name") or "")
            if not name or not self._lets_through(name):
                continue
            held = self._confirmation.holds(name) or self._confirmation.holds(self._prefix + name)
            tools.append(McpTool(one, prefix=self._prefix, held=held, call=self._call))
        wrong = await asyncio.to_thread(wrong_schemas, tools)
        for name, why in wrong.items():
            log.warning("the tool %s of %s is left out: its schema %s", name, self._connection, why)
        self._warn_of_strangers({str(one.get("name")) for one in described})
        return [tool for tool in tools if tool.name not in wrong]

    def _lets_through(self, name: str) -> bool:
        if self._filter is None:
            return True
        return self._filter(name) if callable(self._filter) else name in self._filter

    def _warn_of_strangers(self, offered: set[str]) -> None:
        """Warns about names that the server does not know: one may be mistyped, and its tool would run without
        asking."""
        known = offered | {self._prefix + name for name in offered}
        listed = set() if self._filter is None or callable(self._filter) else set(self._filter)
        for what, names in (("confirmation policy", self._confirmation.names), ("tool_filter", listed)):
            if strangers := sorted(names - known):
                log.warning(
                    "the %s names %s, which %s does not offer; it offers: %s",
                    what,
                    ", ".join(strangers),
                    self._connection,
                    ", ".join(sorted(offered)) or "nothing",
                )
