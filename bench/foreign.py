"""What an approval costs with an agent on a google-adk server: requests, bytes that are read, and the bot's CPU.

The server is a process of its own, with `DatabaseSessionService` on SQLite. A proxy in this process counts.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from adk_confirm.sandbox.people.seen import Seen
from bench.cycle import write_as_database_service
from bench.figures import percentile, table
from bench.office import REPLY, Office, office, pay
from bench.processes import free_ports, process
from bench.rest import ready

APP, PATIENCE = "payer", 120.0
HISTORIES = (0, 1_000)


def adk_agent() -> Any:
    """The agent of `bench.office`, on google-adk."""
    from google.adk.agents import LlmAgent
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.tools.function_tool import FunctionTool
    from google.genai import types

    class Payer(BaseLlm):
        async def generate_content_async(
            self,
            llm_request: LlmRequest,
            stream: bool = False,  # noqa: ARG002  (it never does)
        ) -> AsyncGenerator[LlmResponse, None]:
            last = (llm_request.contents[-1].parts or [])[-1]
            part = types.Part(text=REPLY)
            if last.text:
                part = types.Part(function_call=types.FunctionCall(name="pay", args={"order": last.text.split()[-1]}))
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    return LlmAgent(name=APP, model=Payer(model="payer"), tools=[FunctionTool(pay, require_confirmation=True)])


@dataclass
class Spent:
    """What cycles in sessions of one length took. A wall time goes from a click to the final card."""

    walls: list[float] = field(default_factory=list)
    cpu: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)
    read: int = 0

    def row(self, events: int) -> list[str]:
        cycles = len(self.walls)
        asked = ", ".join(f"{count / cycles:.1f} {what}" for what, count in sorted(self.requests.items()))
        return [
            f"{events:,}",
            f"{percentile(self.walls, 0.5) * 1000:.0f} ms",
            f"{self.cpu / cycles * 1000:.0f} ms",
            f"{self.requests.total() / cycles:.1f} ({asked})",
            f"{self.read / cycles / 1000:,.0f} kB",
        ]


class Proxy:
    """Passes everything on to the server, and counts."""

    def __init__(self, server: str, client: aiohttp.ClientSession) -> None:
        self._server, self._client, self.spent = server, client, Spent()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        what = "read" if request.method == "GET" else request.path.rpartition("/")[2]
        self.spent.requests["session" if "/sessions" in request.path and what != "read" else what] += 1
        sent = await request.read()
        kept = {"Content-Type": request.headers["Content-Type"]} if sent else {}
        async with self._client.request(request.method, self._server + request.path_qs, data=sent, headers=kept) as got:
            response = web.StreamResponse(status=got.status, headers={"Content-Type": got.headers["Content-Type"]})
            await response.prepare(request)
            async for piece in got.content.iter_any():
                self.spent.read += len(piece)
                await response.write(piece)
            await response.write_eof()
        return response


async def measured(folder: Path, postgres: str, *, quick: bool = False) -> str:  # noqa: ARG001  (all parts are called alike)
    cycles, store = 2 if quick else 10, folder / "adk.db"
    found: dict[int, Spent] = {}
    async with _server(folder, store) as server, aiohttp.ClientSession(auto_decompress=False) as client:
        proxy = Proxy(server, client)
        async with _listening(proxy) as url, office(folder / "office", agent=f'url = "{url}"\napp = "{APP}"') as at:
            warm = await _said(at, "o-0")
            await _cycle(at, "o-0")
            for events in HISTORIES:
                proxy.spent = found[events] = Spent()
                cpu = at.cpu()
                for number in range(cycles):
                    order = f"o-{events + number + 1}"
                    if events:
                        await asyncio.to_thread(_lengthen, store, events)
                    await _said(at, order, warm if events else None)
                    found[events].walls.append(await _cycle(at, order))
                found[events].cpu = at.cpu() - cpu
    heads = ("events in the session", "click → final card", "CPU of the bot", "requests", "read from the server")
    return "\n\n".join(
        [
            "A whole cycle in Slack with an agent on a google-adk server, one at a time: a mention, a card, a click, "
            "the tool, the final card and the reply. All but the time from the click is for the whole cycle.",
            table(heads, [spent.row(events) for events, spent in found.items()]),
        ]
    )


async def _said(at: Office, order: str, thread: Seen | None = None) -> Seen:
    said = await at.ann.says(f"@adk-confirm pay {order}", at.channels[0], thread=thread)
    await at.cards([order], PATIENCE)
    return said


async def _cycle(at: Office, order: str) -> float:
    replies, began = at.watched.replies, time.perf_counter()
    await at.approve(order)
    await at.finals([order], PATIENCE)
    took = time.perf_counter() - began
    await at.replies(replies + 1, PATIENCE)
    return took


def _lengthen(store: Path, events: int) -> None:
    """Writes messages into the oldest session until it has this many events."""
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session
    from google.genai import types

    with closing(sqlite3.connect(store)) as opened:
        app, user, name = opened.execute("SELECT app_name, user_id, id FROM sessions ORDER BY create_time").fetchone()
        has = opened.execute("SELECT count(*) FROM events WHERE session_id = ?", [name]).fetchone()[0]
    session = Session(id=name, app_name=app, user_id=user)
    said = types.Content(role="user", parts=[types.Part(text="So it goes.")])
    made = [Event(invocation_id=f"e-{n}", author="user", content=said, timestamp=n) for n in range(has, events)]
    write_as_database_service(store, session, made)


@asynccontextmanager
async def _server(folder: Path, store: Path) -> AsyncIterator[str]:
    (port,) = free_ports(1)
    room = folder / "agents" / APP
    room.mkdir(parents=True)
    (room / "__init__.py").write_text("from . import agent\n")
    (room / "agent.py").write_text("from bench.foreign import adk_agent\n\nroot_agent = adk_agent()\n")
    options = ["--port", str(port), "--session_service_uri", f"sqlite:///{store}", "--log_level", "error"]
    env = {"PYTHONPATH": os.getcwd(), "BENCH_TOOL_LOG": str(folder / "office" / "tools.log")}
    async with process("-m", "google.adk.cli", "api_server", *options, str(room.parent), env=env):
        yield await ready(f"http://127.0.0.1:{port}")


@asynccontextmanager
async def _listening(proxy: Proxy) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    served = web.AppRunner(app)
    await served.setup()
    (port,) = free_ports(1)
    await web.TCPSite(served, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await served.cleanup()
