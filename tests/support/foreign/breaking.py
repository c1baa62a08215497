"""A replayed server in this process, whose connection breaks once while its agent thinks. The run goes on there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.foreign.go import Go
from tests.support.foreign.java import Java
from tests.support.foreign.replay import Replay
from tests.support.foreign.wishes import Plain

KINDS: dict[str, type[Replay]] = {"go": Go, "java": Java, "nameless": Java, "marks": Java}


@dataclass
class Breaking:
    url: str = ""
    breaks: bool = False
    hangs: bool = False  # the connection does not break, and nothing comes any more once the tools have run
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    runs: list[asyncio.Task[None]] = field(default_factory=list)

    async def ends(self) -> None:
        """Lets the run that broke off go on to its end."""
        self.goes_on.set()
        await asyncio.gather(*self.runs)


@asynccontextmanager
async def breaking(kind: str) -> AsyncIterator[Breaking]:
    """`marks`: the server keeps our marks, as google-adk does. `nameless`: it does not say which turn a message
    began."""
    at = Breaking()

    base: Any = KINDS[kind]

    class Server(base):  # type: ignore[misc]  # any of them
        mark: Plain | None = None

        async def run_sse(self, request: web.Request) -> web.StreamResponse:
            self.mark = (await request.json()).get("customMetadata")
            if not at.breaks:
                answer: web.StreamResponse = await super().run_sse(request)
                return answer
            at.runs.append(asyncio.create_task(self._goes_on(*await self._read(request))))
            await at.begun.wait()
            at.breaks = False
            if at.hangs:
                await at.goes_on.wait()
                return web.Response()
            assert request.transport is not None
            request.transport.abort()
            return web.Response()

        async def _goes_on(self, key: str, parts: list[Plain]) -> None:
            async for _ in self._events(key, parts):
                pass

        async def _turn(self, *given: object) -> AsyncIterator[Plain]:
            if at.breaks and not at.hangs:
                at.begun.set()
                await at.goes_on.wait()
            async for event in super()._turn(*given):
                yield event
                if at.breaks and at.hangs:
                    at.begun.set()
                    await at.goes_on.wait()

        def _add(self, key: str, author: str, invocation: str, parts: list[Plain], **more: object) -> Plain:
            noted = {"customMetadata": self.mark} if author == "user" and kind == "marks" else {}
            event: Plain = super()._add(key, author, invocation, parts, **noted, **more)
            if author == "user" and kind == "nameless":
                del event["invocationId"]
            return event

    async def described(_: web.Request) -> web.Response:
        fields: Plain = {"customMetadata": {}} if kind == "marks" else {}
        return web.json_response({"components": {"schemas": {"RunAgentRequest": {"properties": fields}}}})

    app = web.Application()
    app.add_routes([*Server().routes(), web.get("/openapi.json", described)])
    async with TestServer(app) as server:
        at.url = str(server.make_url("")).rstrip("/")
        yield at
