"""The host of callers' calls: an agent of our own runtime whose model is the caller.

The model "says" the one call that was asked. An approval is delivered when somebody claims it: then the call begins,
which is stored, and only then there is a permit. The tool's body is the wait for the claimant's report.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from adk_confirm import Agent, Event, FunctionCall
from adk_confirm.bot.config.settings import McpServerSettings, Settings
from adk_confirm.bot.confirmation.confirmation import DOOR, HostRequest
from adk_confirm.bot.door.asks import ASKS, claimed, make_permit, read_ask, take_report, topic
from adk_confirm.bot.door.permit import jcs
from adk_confirm.bot.hosts.embedded import EmbeddedHost
from adk_confirm.bot.hosts.host import AgentMessage, Capabilities, HostAnswer, RunOutput, SessionSnapshot
from adk_confirm.bot.store.repository import chain_of
from adk_confirm.runtime.context import ToolContext
from adk_confirm.runtime.errors import ConfirmError, Conflict, Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text
from adk_confirm.runtime.mcp.toolset import Connection, HttpConnection, McpToolset, StdioConnection
from adk_confirm.runtime.models.protocol import ModelRequest, ModelResponse
from adk_confirm.runtime.rest.listening import CannotServe
from adk_confirm.runtime.run.arrival import FREE, RunControl
from adk_confirm.runtime.signature import BadArguments, Bound
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.sessions import OnChange
from adk_confirm.runtime.store.wakeups import until_stopped
from adk_confirm.runtime.tool import ConfirmationPolicy, Tool, ToolOutcomeUnknown
from adk_confirm.runtime.wire import Content, Part, SessionId

log = logging.getLogger(__name__)

SOON = 1.0
"""Seconds that a call waits for the list of a server's tools that it is not about."""
LOOK_AGAIN = 5.0
"""Seconds between two looks for a report, in case its notification was lost."""

_FOR_PROGRAMS = "There is no agent here to talk to: I take calls from programs only, and ask you about them."
_NOTHING = "That was all."


class CallerModel:
    """Says what the caller asked, once. A person's words are never a call."""

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        if request.instruction != ASKS:
            yield ModelResponse(Content.of_text(_FOR_PROGRAMS, "model"))
        elif len(request.contents) > 1:
            yield ModelResponse(Content.of_text(_NOTHING, "model"))
        else:
            body = as_object(json.loads(request.contents[0].text))
            call = FunctionCall(name=as_text(body.get("tool")), args=as_object(body.get("arguments")))
            yield ModelResponse(Content(role="model", parts=[Part(function_call=call)]))


class HandedOver(Tool):
    """A call that its claimant runs, with a permit. `idempotent`: whichever process goes on, it waits for the same
    report."""

    idempotent = True
    schema: JsonObject = {"type": "object"}  # noqa: RUF012  (nobody here knows the tool)

    def __init__(self, name: str, host: DoorHost) -> None:
        self.name, self._host = name, host

    def requires_confirmation(self, args: JsonObject) -> bool:  # noqa: ARG002  (as the base has it)
        return True

    def bind(self, args: JsonObject, *, strict: bool = False) -> Bound:  # noqa: ARG002  (likewise)
        """Takes any arguments of which a digest can be made."""
        try:
            jcs(args)
        except Invalid as error:
            raise BadArguments(self.name, {"arguments": str(error)}) from error
        return Bound(args, ())

    async def preview(self, args: JsonObject, context: ToolContext) -> Json:
        """What the caller says that its own call would do."""
        ask = await self._host.database.read(read_ask, _key_of(context))
        if ask is None or not ask.preview:
            return None
        if jcs(args) != jcs(ask.arguments):
            raise Invalid(f"{ask.caller} said what the call would do as it asked for it, and it was edited.")
        return f"{ask.caller} says:\n{ask.preview}"

    async def run(self, args: JsonObject, context: ToolContext) -> Json:
        """Waits for the report. A process that is being stopped does not: another one, or the next, goes on."""
        host, key = self._host, _key_of(context)
        context.actions.skip_summarization = True
        attempt, until = await host.database.run(make_permit, key, args, host.report_within, host.signer)
        with host.database.waiter(topic(key)) as waiter:
            while True:
                try:
                    said, left = await host.database.run(take_report, key, attempt, until)
                except Conflict as error:
                    raise ToolOutcomeUnknown(str(error)) from error
                if said is not None:
                    result = as_object(said["result"])
                    return result if said["done"] else {"error": json.dumps(result) if result else "It failed."}
                if not left:
                    raise ToolOutcomeUnknown(f"No report about {self.name} came in time.")
                if host.stopping.is_set() and (task := asyncio.current_task()):
                    task.cancel()
                await until_stopped(host.stopping, waiter.wait(min(left, LOOK_AGAIN)))


def _key_of(context: ToolContext) -> str:
    return chain_of(SessionId(DOOR, context.user_id, context.session_id))


class _Anything(dict[str, Tool]):
    """The tools of the door's MCP servers, and one of any other name that a caller may use."""

    def __init__(self, host: DoorHost) -> None:
        self._host = host

    def get(self, name: str, default: object = None) -> Any:
        """The tool of this name. One of a server that does not list it, or can't now, is never handed to a claimant."""
        return super().get(name, default) if self._host.runs(name) else HandedOver(name, self._host)

    __getitem__ = get

    def __bool__(self) -> bool:
        return True


class _Caller(Agent):
    def __init__(self, host: DoorHost, servers: Sequence[McpServerSettings]) -> None:
        super().__init__(
            DOOR,
            CallerModel(),
            instruction=lambda context: ASKS if context.session_id.startswith(ASKS) else "",
            tools=[*map(toolset_of, servers)],
        )
        self._host = host
        self._listing: dict[str, asyncio.Task[Sequence[Tool]]] = {}

    async def resolve_tools(self, wanted: str | None = "") -> dict[str, Tool]:
        """The tools of the caller's MCP servers, as far as they can be listed, and any other name. Only the server of
        the `wanted` tool is waited for, since any other one may hang; with None all are."""
        found = _Anything(self._host)
        for prefix, server in zip(self._host.prefixes, self.tools, strict=True):
            assert isinstance(server, McpToolset)
            if (listing := self._listing.get(prefix)) is None:
                listing = self._listing[prefix] = asyncio.create_task(server.tools())
            await asyncio.wait({listing}, timeout=None if wanted is None or wanted.startswith(prefix) else SOON)
            if not listing.done():
                continue
            self._listing.pop(prefix, None)
            try:
                found.update({tool.name: tool for tool in listing.result()})
            except ConfirmError as error:
                log.warning("the tools of %s can't be listed, so its calls are refused: %s", server, error)
        return found

    async def close(self) -> None:
        for listing in self._listing.values():
            listing.cancel()
        await super().close()


@dataclass(frozen=True)
class _AllBut(ConfirmationPolicy):
    """People are asked about all tools of a server but these."""

    prefix: str = ""
    free: tuple[str, ...] = ()

    def holds(self, tool: str) -> bool:
        return not any(fnmatchcase(tool.removeprefix(self.prefix), pattern) for pattern in self.free)


def toolset_of(server: McpServerSettings) -> McpToolset:
    prefix, seconds = f"{server.name}.", server.timeout.total_seconds()
    if server.url is not None:
        token = os.environ.get(server.token_env or "", "").strip()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection: Connection = HttpConnection(server.url, headers=headers, timeout=seconds)
    else:
        command, *args = server.command
        env = {name: os.environ[name] for name in server.env if name in os.environ}
        connection = StdioConnection(command, args, env, timeout=seconds)
    held = _AllBut(prefix=prefix, free=server.free)
    return McpToolset(connection, confirmation=held, tool_name_prefix=prefix, preview=server.preview)


class DoorHost(EmbeddedHost):
    """Runs callers' calls, in sessions of their own. `stopping`: this process begins and awaits nothing any more."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        clock: Callable[[], float] | None,
        on_change: OnChange,
        stopping: asyncio.Event,
    ) -> None:
        key, door = settings.environment.signer, settings.door
        assert door is not None
        if key is None:
            raise CannotServe("The door signs permits: set ADK_CONFIRM_CHECKPOINT_KEY to 64 hexadecimal digits.")
        self.database, self.stopping, self.signer = database, stopping, key
        self.report_within = door.report_within.total_seconds()
        self.prefixes = tuple(f"{server.name}." for server in door.server)
        self._caller = _Caller(self, door.server)
        super().__init__(self._caller, database, clock, on_change, lease_term=settings.store.lease.total_seconds())

    def runs(self, tool: str) -> bool:
        """Whether the tool is one of our servers', and so runs here."""
        return tool.startswith(self.prefixes)

    async def tools(self, wanted: str | None = None) -> dict[str, Tool]:
        return await self._caller.resolve_tools(wanted)

    async def _heard(self, session: SessionId, *how: Any) -> AsyncGenerator[RunOutput]:
        if (ask := await self.database.read(read_ask, chain_of(session))) and self.runs(ask.tool):
            await self.tools(ask.tool)
        async for said in super()._heard(session, *how):
            yield said

    async def capabilities(self) -> Capabilities:
        return replace(await super().capabilities(), name="the door for callers")

    async def answer(
        self, session: SessionId, answers: Sequence[HostAnswer], control: RunControl = FREE
    ) -> AsyncIterator[RunOutput]:
        """Takes what people decided. An approval waits for its claim, which comes as a letter of its own."""
        waits = [one for one in answers if one.delivery.approves and not self.runs(one.asked.tool)]
        due = [one for one in answers if one not in waits or claimed(one.mark)]
        if due or not answers:
            async for said in super().answer(session, due, control):
                yield said

    async def look(self, session: SessionId, **how: Any) -> SessionSnapshot:
        """The session with the caller as the agent that asks, in its own words."""
        seen, ask = await super().look(session, **how), await self.database.read(read_ask, chain_of(session))

        def by_caller(request: HostRequest) -> HostRequest:
            reports = not self.runs(request.tool)
            return replace(request, agent=ask.caller, why=ask.reason, reports=reports) if ask else request

        return replace(seen, requests=tuple(map(by_caller, seen.requests)), closed=tuple(map(by_caller, seen.closed)))

    def message_in(self, event: Event) -> AgentMessage | None:
        said = super().message_in(event)
        return said if said is None or said.failed or said.text != _NOTHING else None
