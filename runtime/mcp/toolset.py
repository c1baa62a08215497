"""The tools of an MCP server. The gate is on the whole toolset, since the tools are not ours.

Needs the `mcp` package, which is loaded when a server is used first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from adk_confirm.runtime.bounded.bounded_check import SCHEMAS, BoundedCheck, CheckBroke, TooCostly
from adk_confirm.runtime.context import ToolContext
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, is_deeper
from adk_confirm.runtime.mcp.session import (
    Connection,
    HttpConnection,
    McpSession,
    McpUnavailable,
    StdioConnection,
    ToolFailed,
)
from adk_confirm.runtime.tool import BadTool, ConfirmationPolicy, Tool, preview_in_time

Caller = Callable[[str, JsonObject], Awaitable[JsonObject]]
Preview = Callable[[JsonObject, ToolContext], Awaitable[Json]]

LISTING_SECONDS = 1.0
DEEPEST = 64
_PATIENCE = 3


class McpTool(Tool):
    """A tool whose arguments are checked against the server's schema. The toolset's policy says whether people are
    asked. Whether it may run again is not up to the server."""

    def __init__(
        self, described: JsonObject, *, prefix: str, held: bool, call: Caller, preview: Preview | None = None
    ) -> None:
        self.server_name = str(described["name"])
        self.name = prefix + self.server_name
        schema = described.get("inputSchema")
        self.schema = schema if isinstance(schema, dict) else {"type": "object"}
        self.description = str(described.get("description") or "")
        self.may_ask = self.always_asks = held
        self._call = call
        self.preview = preview

    def __repr__(self) -> str:
        return f"McpTool({self.name})"

    def requires_confirmation(self, args: JsonObject) -> bool:  # noqa: ARG002  (as the base has it)
        return self.may_ask

    async def run(self, args: JsonObject, context: ToolContext) -> Json:  # noqa: ARG002  (as the base has it)
        return result_of(await self._call(self.server_name, args))


def wrong_schemas(tools: Iterable[McpTool]) -> dict[str, str]:
    """The tools with invalid schemas, by name, with what is wrong. Takes up to seconds if the server wants that.

    Schemas are read once, so they get more time than a call's arguments. After several costly schemas, the rest get no
    time.
    """
    check, wrong, patience = BoundedCheck(SCHEMAS, LISTING_SECONDS), dict[str, str](), _PATIENCE
    try:
        for tool in tools:
            if not patience:
                wrong[tool.name] = "comes after others that take too long to check"
                continue
            if is_deeper(tool.schema, DEEPEST):  # held calls store the schema, and the database limits JSON
                wrong[tool.name] = f"is nested deeper than {DEEPEST} levels"
                continue
            try:
                if check("valid", tool.schema, None) is not True:
                    wrong[tool.name] = "is not valid"
            except TooCostly as error:
                patience -= 1
                wrong[tool.name] = f"is not read: {error}"
            except CheckBroke as error:
                wrong[tool.name] = f"is not valid: {error}"
    finally:
        check.close()
    return wrong


def result_of(answer: JsonObject) -> Json:
    """The structured content if there is any, otherwise the text; images and the like as data."""
    blocks = answer.get("content")
    content: list[Json] = blocks if isinstance(blocks, list) else []
    texts = [block["text"] for block in content if isinstance(block, dict) and block.get("type") == "text"]
    text = "\n".join(str(one) for one in texts)
    if answer.get("isError"):
        raise ToolFailed(text or "The tool failed and did not say why.")
    structured = answer.get("structuredContent")
    if structured is not None:
        return structured
    if len(texts) == len(content):
        return text
    return {"content": content}


__all__ = ["Connection", "HttpConnection", "McpToolset", "McpUnavailable", "StdioConnection", "ToolFailed"]

log = logging.getLogger(__name__)

ToolFilter = Collection[str] | Callable[[str], bool]


class McpToolset:
    """All of a server's tools, or those that `tool_filter` (names, or a function of a name) lets through.

    `confirmation` says which of them people are asked about, and names tools as the server does. `preview` names, by
    tool, another tool of the server that previews its calls: the other tool gets those of a call's arguments that it
    declares. If the server does not mark the other tool as read-only, the first is left out. `tool_name_prefix` keeps
    the tools of two servers apart. A server that went away is connected again for the next call. A call itself is sent
    at most once: without an answer, its outcome is unknown.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        confirmation: ConfirmationPolicy | None = None,
        tool_filter: ToolFilter | None = None,
        tool_name_prefix: str = "",
        preview: Mapping[str, str] | None = None,
        preview_timeout: float = 10.0,
    ) -> None:
        if isinstance(tool_filter, str):
            raise BadTool(f"tool_filter takes a collection of names: [{tool_filter!r}], not {tool_filter!r}.")
        self._connection = connection
        self._confirmation = confirmation or ConfirmationPolicy.none()
        self._filter = tool_filter
        self._prefix = tool_name_prefix
        self._previews, self._preview_timeout = dict(preview or {}), preview_timeout
        self._tools: list[Tool] | None = None
        self._session: McpSession | None = None
        self._listing = asyncio.Lock()
        self._connecting = asyncio.Lock()

    def __repr__(self) -> str:
        return f"McpToolset({self._connection})"

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
        offered = {str(one.get("name")): one for one in described}
        for one in described:
            name = str(one.get("name") or "")
            if not name or not self._lets_through(name):
                continue
            preview = None
            if name in self._previews:
                preview = self._preview_by(offered.get(self._previews[name]))
                if preview is None:
                    why = f"the server does not offer {self._previews[name]} as a read-only tool for its preview"
                    log.warning("the tool %s of %s is left out: %s", name, self._connection, why)
                    continue
            held = self._confirmation.holds(name) or self._confirmation.holds(self._prefix + name)
            tools.append(McpTool(one, prefix=self._prefix, held=held, call=self._call, preview=preview))
        wrong = await asyncio.to_thread(wrong_schemas, tools)
        for name, why in wrong.items():
            log.warning("the tool %s of %s is left out: its schema %s", name, self._connection, why)
        self._warn_of_strangers({str(one.get("name")) for one in described})
        return [tool for tool in tools if tool.name not in wrong]

    def _preview_by(self, described: JsonObject | None) -> Preview | None:
        if described is None or as_object(described.get("annotations")).get("readOnlyHint") is not True:
            return None
        name, takes = str(described["name"]), as_object(as_object(described.get("inputSchema")).get("properties"))

        async def look(args: JsonObject) -> Json:
            shows = result_of(await self._call(name, {key: args[key] for key in takes if key in args}))
            # The official server package wraps what is no object like this.
            return shows["result"] if isinstance(shows, dict) and list(shows) == ["result"] else shows

        async def preview(args: JsonObject, context: ToolContext) -> Json:  # noqa: ARG001  (a tool's preview)
            return await preview_in_time(look(args), self._preview_timeout)

        return preview

    def _lets_through(self, name: str) -> bool:
        if self._filter is None:
            return True
        return self._filter(name) if callable(self._filter) else name in self._filter

    def _warn_of_strangers(self, offered: set[str]) -> None:
        """Warns about names that the server does not know: one may be mistyped, and its tool would run without
        asking."""
        known = offered | {self._prefix + name for name in offered}
        listed = set() if self._filter is None or callable(self._filter) else set(self._filter)
        for what, names in (
            ("confirmation policy", self._confirmation.names),
            ("tool_filter", listed),
            ("preview", self._previews.keys()),
        ):
            if strangers := sorted(names - known):
                log.warning(
                    "the %s names %s, which %s does not offer; it offers: %s",
                    what,
                    ", ".join(strangers),
                    self._connection,
                    ", ".join(sorted(offered)) or "nothing",
                )
