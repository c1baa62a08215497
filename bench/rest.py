"""Cycles over ADK's HTTP API: `adk-confirm api` against `adk api_server`, both on SQLite, with their Gemini classes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from statistics import quantiles
from typing import Any

import aiohttp

from bench.cycle import reimburse
from bench.figures import Goal, Rounds, goals, table, times
from bench.processes import free_ports, process
from bench.scripted_gemini import DONE, MODEL, WORDS, scripted_gemini

OURS, ADKS = "`adk-confirm api`", "`adk api_server`"
_OUR_AGENT = "from bench.rest import our_agent\n\nagent = our_agent()\n"
_ADKS_AGENT = "from bench.rest import adk_agent\n\nroot_agent = adk_agent()\n"
_ALONE = (
    "one session does everything in turn: the CPU of a cycle, six fsyncs and two requests over HTTP. Going on would "
    "need a cheaper cycle in the runtime itself, below HTTP"
)
_TOGETHER = "the rest is HTTP and JSON, on one core. Going on would cost a second process beside it on the same store"
_sessions = count(1)
_for_good = ExitStack()  # in the servers: open as long as the process runs


class Failed(Exception):
    """A cycle failed."""


def our_agent() -> Any:
    from adk_confirm import Agent, FunctionTool

    _for_good.enter_context(scripted_gemini())
    return Agent("clerk", MODEL, tools=[FunctionTool(reimburse, require_confirmation=True)])


def adk_agent() -> Any:
    from google.adk.agents import LlmAgent
    from google.adk.models.google_llm import Gemini
    from google.adk.tools.function_tool import FunctionTool

    _for_good.enter_context(scripted_gemini())
    tool = FunctionTool(reimburse, require_confirmation=True)
    return LlmAgent(name="clerk", model=Gemini(model=MODEL), tools=[tool])


async def measured(folder: Path, postgres: str, *, quick: bool = False) -> str:  # noqa: ARG001  (all parts are called alike)
    found, took = Rounds(), dict[str, list[float]]()
    async with AsyncExitStack() as stack:
        servers = {
            OURS: await stack.enter_async_context(_ours(folder)),
            ADKS: await stack.enter_async_context(_adks(folder)),
        }
        client = await stack.enter_async_context(aiohttp.ClientSession())
        for name, url in servers.items():
            await _cycles(client, url, 1, 1, fails=False)
            took[name] = []
        for _ in range(1 if quick else 3):
            for name, url in servers.items():
                for sessions in (1, 16):
                    rate, each = await _cycles(client, url, sessions, 3 if quick else 8, fails=name == ADKS)
                    found.add(name, str(sessions), value=rate)
                    took[name] += each if sessions == 1 else []
    rows = []
    for name in servers:
        cuts = quantiles(took[name], n=100)
        shown = (
            found.shown(name, "1"),
            found.shown(name, "16"),
            f"{cuts[49] * 1000:.1f} ms",
            f"{cuts[98] * 1000:.1f} ms",
        )
        rows.append([name, *shown])
    ratios = [found.median(OURS, column) / found.median(ADKS, column) for column in ("1", "16")]
    rows.append(["**ours / google-adk's**", *(f"**{times(ratio)}**" for ratio in ratios), "", ""])
    return "\n\n".join(
        [
            "Cycles a second over HTTP: two `POST /run`, the second with the approval. Each server is a process of its "
            "own, with a store on SQLite. Cycles that fail because google-adk's store is locked are "
            "not counted.",
            table(["", "one session", "16 sessions at once", "p50 of one cycle", "p99"], rows),
            goals(
                Goal("one session: 5 times `adk api_server`", times(ratios[0]), ratios[0] >= 5, _ALONE),
                Goal("16 sessions: 5 times `adk api_server`", times(ratios[1]), ratios[1] >= 5, _TOGETHER),
            ),
        ]
    )


@asynccontextmanager
async def _ours(folder: Path) -> AsyncIterator[str]:
    (port,) = free_ports(1)
    store = f"sqlite:///{folder / 'rest.db'}"
    (folder / "bench_clerk.py").write_text(_OUR_AGENT)
    options = ["--agent", "bench_clerk:agent", "--port", str(port), "--store", store]
    async with process("-m", "adk_confirm.bot.cli", "api", *options, env={"PYTHONPATH": f"{os.getcwd()}:{folder}"}):
        yield await ready(f"http://127.0.0.1:{port}")


@asynccontextmanager
async def _adks(folder: Path) -> AsyncIterator[str]:
    (port,) = free_ports(1)
    agents = folder / "agents"
    (agents / "clerk").mkdir(parents=True)
    (agents / "clerk" / "__init__.py").write_text("from . import agent\n")
    (agents / "clerk" / "agent.py").write_text(_ADKS_AGENT)
    store = f"sqlite:///{folder / 'adk-rest.db'}"
    options = ["--port", str(port), "--session_service_uri", store, "--log_level", "error"]
    command = ["-m", "google.adk.cli", "api_server", *options, str(agents)]
    async with process(*command, env={"PYTHONPATH": os.getcwd()}):
        yield await ready(f"http://127.0.0.1:{port}")


async def ready(url: str) -> str:
    async with aiohttp.ClientSession() as client, asyncio.timeout(120):
        while True:
            try:
                async with client.get(f"{url}/list-apps") as answer:
                    if answer.status == 200:
                        return url
            except aiohttp.ClientError:
                pass  # it has not started yet
            await asyncio.sleep(0.05)


async def _cycles(
    client: aiohttp.ClientSession, url: str, sessions: int, each: int, *, fails: bool
) -> tuple[float, list[float]]:
    """Cycles a second, and the duration of each. `fails`: failures ("database is locked") are not counted."""
    names = [f"s{next(_sessions)}" for _ in range(sessions)]
    for name in names:
        async with client.post(f"{url}/apps/clerk/users/u/sessions/{name}", json={}) as answer:
            assert answer.status == 200, f"{url} {await answer.text()}"
    took: list[float] = []

    async def several(name: str) -> None:
        for _ in range(each):
            began = time.perf_counter()
            try:
                await _cycle(client, url, name)
            except Failed:
                if not fails:
                    raise
            else:
                took.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(several(name) for name in names))
    return len(took) / (time.perf_counter() - began), took


async def _cycle(client: aiohttp.ClientSession, url: str, session: str) -> None:
    parts = [part for event in await _run(client, url, session, {"text": WORDS}) for part in event["content"]["parts"]]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    asked = next((call["id"] for call in calls if call["name"] == "adk_request_confirmation"), None)
    if asked is None:
        raise Failed("no call waits")
    response = {"id": asked, "name": "adk_request_confirmation", "response": {"confirmed": True}}
    said = await _run(client, url, session, {"functionResponse": response})
    if not said or said[-1]["content"]["parts"][0].get("text") != DONE:
        raise Failed(f"{said}")


async def _run(client: aiohttp.ClientSession, url: str, session: str, part: dict[str, object]) -> list[dict[str, Any]]:
    message = {"role": "user", "parts": [part]}
    body = {"appName": "clerk", "userId": "u", "sessionId": session, "newMessage": message}
    async with client.post(f"{url}/run", json=body) as answer:
        if answer.status != 200:
            raise Failed(f"{url}: {await answer.text()}")
        events: list[dict[str, Any]] = await answer.json()
        return [event for event in events if event.get("content")]
