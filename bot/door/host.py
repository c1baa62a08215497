"""The host of callers' calls: an agent of our own runtime whose model is the caller.

The model "says" the one call that was asked. An approval is delivered when somebody claims it: then the call begins,
which is stored, and only then there is a permit. The tool's body is the wait for the claimant's report.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from adk_confirm import Agent, FunctionCall
from adk_confirm.bot.agents.session_worker import SessionWorker
from adk_confirm.bot.audit.checkpoints import CheckpointKey
from adk_confirm.bot.config.settings import McpServerSettings, Settings
from adk_confirm.bot.confirmation.model import DOOR, HostRequest
from adk_confirm.bot.door.asks import ASK, claimed, make_permit, read_ask, take_report, topic
from adk_confirm.bot.door.permit import jcs
from adk_confirm.bot.hosts.embedded import EmbeddedHost
from adk_confirm.bot.hosts.host import AgentMessage, Capabilities, HostAnswer, RunOutput, SessionSnapshot, UserWords
from adk_confirm.bot.store.mailbox import Mail
from adk_confirm.bot.store.repository import Session, chain_of
from adk_confirm.runtime.context import ToolContext
from adk_confirm.runtime.errors import ConfirmError, Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text
from adk_confirm.runtime.mcp.toolset import Connection, HttpConnection, McpToolset, StdioConnection
from adk_confirm.runtime.models.model import ModelRequest, ModelResponse
from adk_confirm.runtime.rest.listening import CannotServe
from adk_confirm.runtime.signature import BadArguments, Bound
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.lease import Lease
from adk_confirm.runtime.store.sessions import OnChange
from adk_confirm.runtime.tool import ConfirmationPolicy, Tool, ToolOutcomeUnknown
from adk_confirm.runtime.wire import Content, Part, SessionId

log = logging.getLogger(__name__)

LOOK_AGAIN = 5.0
"""Seconds between two looks for a report, in case its notification was lost."""

_FOR_PROGRAMS = "There is no agent here to talk to: I take calls from programs only, and ask you about them."


class CallerModel:
    """Says what the caller asked, once."""

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        asked = next((content.parts for content in request.contents if content.role == "user"), None) or []
        if any(part.function_call for content in request.contents for part in content.parts or ()):
            yield ModelResponse(Content.of_text("That was all.", "model"))
            return
        body = as_object(json.loads(as_text(asked[0].text)))
        call = FunctionCall(name=as_text(body.get("tool")), args=as_object(body.get("arguments")))
        yield ModelResponse(Content(role="model", parts=[Part(function_call=call)]))


class HandedOver(Tool):
    """A call that its claimant runs, with a permit. `idempotent`: after a crash here, the wait for its report goes
    on."""

    idempotent = True

    def __init__(self, name: str, door: Door) -> None:
        self.name, self._door = name, door
        self.schema = {"type": "object"}

    def requires_confirmation(self, args: JsonObject) -> bool:  # noqa: ARG002  (as the base has it)
        return True

    def bind(self, args: JsonObject, *, strict: bool = False) -> Bound:  # noqa: ARG002  (likewise)
        """Nobody here knows the tool, so it takes whatever has a digest."""
        try:
            jcs(args)
        except Invalid as error:
            raise BadArguments(self.name, {"arguments": str(error)}) from error
        return Bound(args, ())

    async def preview(self, args: JsonObject, context: ToolContext) -> Json:
        """What the caller says that its own call would do."""
        ask = await self._door.database.read(read_ask, _key_of(context))
        if ask is None or not ask.preview:
            return None
        if jcs(args) != jcs(ask.arguments):
            raise Invalid(f"{ask.caller} said what the call would do as it asked for it, and it was edited.")
        return f"{ask.caller} says:\n{ask.preview}"

    async def run(self, args: JsonObject, context: ToolContext) -> Json:
        door, key = self._door, _key_of(context)
        context.actions.skip_summarization = True
        attempt, until = await door.database.run(make_permit, key, args, door.report_within, door.signer)
        with door.database.waiter(topic(key)) as waiter:
            while True:
                said, left = await door.database.run(take_report, key, attempt, until)
                if said is not None:
                    return await self._outcome(key, said)
                if not left:
                    raise ToolOutcomeUnknown(f"No report about {self.name} came in time.")
                await waiter.wait(min(left, LOOK_AGAIN))

    async def _outcome(self, key: str, said: JsonObject) -> JsonObject:
        ask = await self._door.database.read(read_ask, key)
        caller, result = ask.caller if ask else "its claimant", as_object(said["result"])
        if said["done"]:
            return {"reported by": caller, **({"result": result} if result else {})}
        return {"error": f"{caller} reports that it failed{f': {json.dumps(result)}' if result else '.'}"}


class _Anything(dict[str, Tool]):
    """The tools of the door's MCP servers, and one of any other name that a caller may use."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def get(self, name: str, default: object = None) -> Any:
        """A tool that its server does not list, or can't list now, is never handed over to a claimant."""
        return super().get(name, default) if self._door.runs(name) else HandedOver(name, self._door)

    __getitem__ = get

    def __bool__(self) -> bool:
        return True


class _Caller(Agent):
    def __init__(self, door: Door) -> None:
        servers = [_toolset_of(one) for one in door.servers]
        super().__init__(DOOR, CallerModel(), description="Whatever callers at the door ask for.", tools=servers)
        self._door = door

    async def resolve_tools(self) -> dict[str, Tool]:
        found = _Anything(self._door)
        for server in self.tools:
            assert isinstance(server, McpToolset)
            try:
                found.update({tool.name: tool for tool in await server.tools()})
            except ConfirmError as error:
                log.warning("the tools of %s can't be listed, so its calls are refused: %s", server, error)
        return found


@dataclass(frozen=True)
class _AllBut(ConfirmationPolicy):
    """People are asked about all tools of a server but these."""

    prefix: str = ""
    free: tuple[str, ...] = ()

    def holds(self, tool: str) -> bool:
        return not any(fnmatchcase(tool.removeprefix(self.prefix), pattern) for pattern in self.free)


def _toolset_of(server: McpServerSettings) -> McpToolset:
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


@dataclass(frozen=True)
class Door:
    """What the door's tools need."""

    database: Database
    report_within: float  # seconds from the permit to the report
    signer: CheckpointKey
    servers: tuple[McpServerSettings, ...] = ()

    def runs(self, tool: str) -> bool:
        """Whether it is a tool of one of its servers: it runs here, and nobody claims it."""
        return tool.startswith(tuple(f"{one.name}." for one in self.servers))


class DoorHost(EmbeddedHost):
    def __init__(
        self,
        door: Door,
        clock: Callable[[], float] | None = None,
        on_change: OnChange | None = None,
        *,
        lease_term: float,
    ) -> None:
        super().__init__(_Caller(door), door.database, clock, on_change, lease_term=lease_term)
        self._door = door

    async def tools(self) -> dict[str, Tool]:
        """Those of its MCP servers, as far as they can be listed."""
        return await self.runner.agent.resolve_tools()

    def runs(self, tool: str) -> bool:
        return self._door.runs(tool)

    async def capabilities(self) -> Capabilities:
        return replace(await super().capabilities(), name="the door for callers")

    async def say(
        self,
        session: SessionId,
        words: UserWords,
        *,
        stop: asyncio.Event | None = None,
        held: Lease | None = None,
    ) -> AsyncIterator[RunOutput]:
        if words.mark != ASK:  # a person's words are never a call
            yield AgentMessage(event=f"words:{words.mark}", author=DOOR, text=_FOR_PROGRAMS)
            return
        async for said in super().say(session, words, stop=stop, held=held):
            if _is_news(said):
                yield said

    async def answer(
        self,
        session: SessionId,
        answers: Sequence[HostAnswer],
        *,
        stop: asyncio.Event | None = None,
        held: Lease | None = None,
    ) -> AsyncIterator[RunOutput]:
        """Takes what people decided. An approval waits for its claim, which comes as a letter of its own."""
        waits = [one for one in answers if one.delivery.approves and not self._door.runs(one.asked.tool)]
        due = [one for one in answers if one not in waits or claimed(one.mark)]
        if due:
            async for said in super().answer(session, due, stop=stop, held=held):
                if _is_news(said):
                    yield said

    async def look(
        self, session: SessionId, *, after_exchange: bool = False, held: Lease | None = None
    ) -> SessionSnapshot:
        """The session with the caller as the agent that asks, in its own words."""
        seen = await super().look(session, after_exchange=after_exchange, held=held)
        ask = await self._door.database.read(read_ask, chain_of(session))

        def by_caller(request: HostRequest) -> HostRequest:
            return replace(request, agent=ask.caller, why=ask.reason) if ask else request

        requests, closed = tuple(map(by_caller, seen.requests)), tuple(map(by_caller, seen.closed))
        return replace(seen, requests=requests, closed=closed, said=tuple(filter(_is_news, seen.said)))


def _is_news(said: RunOutput) -> bool:
    """Whether it is something else than the model's own words, which nobody needs."""
    return said.failed if isinstance(said, AgentMessage) else True


def _key_of(context: ToolContext) -> str:
    return chain_of(SessionId(DOOR, context.user_id, context.session_id))


@dataclass
class DoorWorker(SessionWorker):
    """Works on callers' sessions, and lets `others` work on all others."""

    others: SessionWorker | None = None

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "stopping" and self.others is not None:
            self.others.stopping = self.stopping

    def look(self, tx: Tx, key: str) -> tuple[Session, Mail, Capabilities]:
        return super().look(tx, key) if self._has(key) else self._others.look(tx, key)

    async def attend(self, key: str, lease: Lease, look: tuple[Session, Mail, Capabilities]) -> None:
        await (super().attend(key, lease, look) if self._has(key) else self._others.attend(key, lease, look))

    def _has(self, key: str) -> bool:
        return self.others is None or key.startswith(f"{DOOR}/")

    @property
    def _others(self) -> SessionWorker:
        assert self.others is not None
        return self.others


def open_door(
    settings: Settings, database: Database, clock: Callable[[], float] | None, on_change: OnChange
) -> DoorHost:
    """The host of callers' calls. `serving_problems` has seen that there is a key."""
    key = settings.environment.checkpoint_key
    assert settings.door is not None
    if key is None:
        raise CannotServe("The door signs permits: set ADK_CONFIRM_CHECKPOINT_KEY to 64 hexadecimal digits.")
    within, signer = settings.door.report_within.total_seconds(), CheckpointKey(key.get_secret_value())
    door = Door(database, within, signer, settings.door.server)
    return DoorHost(door, clock, on_change, lease_term=settings.store.lease.total_seconds())
