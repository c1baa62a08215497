"""A replayed ADK Java server in this process that records its requests and may answer differently."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import TestServer

from adk_confirm.bot.hosts.adk_host import AdkHost
from adk_confirm.bot.hosts.remote import RemoteServer
from adk_confirm.runtime.jsontypes import Json, JsonObject
from tests.support.foreign.java import Java

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class ReceivedRequest:
    method: str
    path: str
    headers: dict[str, str]
    body: Json


@dataclass
class Ear:
    """A server and its requests. `describes`: the fields that its description lists. `instead`: answers by path."""

    describes: tuple[str, ...] | None = None
    undescribed: int = 404  # the status if it describes nothing
    asked: list[ReceivedRequest] = field(default_factory=list)
    instead: dict[str, Handler] = field(default_factory=dict)
    java: Java = field(default_factory=Java)
    url: str = ""

    def at(self, path: str) -> list[ReceivedRequest]:
        return [one for one in self.asked if one.path == path]

    def sent(self) -> JsonObject:
        """The last message to the agent."""
        body = [*self.at("/run"), *self.at("/run_sse")][-1].body
        assert isinstance(body, dict)
        return body

    def host(self, **settings: float) -> AdkHost:
        return AdkHost(self.server(**settings))

    def server(self, **settings: float) -> RemoteServer:
        return RemoteServer(self.url, "clerk", timeout=settings.get("timeout", 30.0))

    @web.middleware
    async def hears(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        body = json.loads(await request.text() or "null")
        self.asked.append(ReceivedRequest(request.method, request.path, dict(request.headers), body))
        return await self.instead.get(request.path, handler)(request)

    async def openapi(self, _: web.Request) -> web.Response:
        if self.describes is None:
            return web.Response(status=self.undescribed)
        fields: JsonObject = {name: {} for name in self.describes}
        return web.json_response({"components": {"schemas": {"RunAgentRequest": {"properties": fields}}}})


def saying(body: bytes | str, status: int = 200, headers: dict[str, str] | None = None) -> Handler:
    """Answers every request with this."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, status=status, headers=headers)

    return answer


@asynccontextmanager
async def listening(ear: Ear) -> AsyncIterator[Ear]:
    app = web.Application(middlewares=[ear.hears])
    app.add_routes([*ear.java.routes(), web.get("/openapi.json", ear.openapi)])
    async with TestServer(app) as server:
        ear.url = str(server.make_url("")).rstrip("/")
        yield ear
