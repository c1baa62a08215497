"""`examples/adk`, as its first lines say it is run: in the bot's process, and on ADK's own server from its command."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from bot.config.settings import Agent
from bot.hosts import open_host
from bot.hosts.host import Became, Host
from bot.store.open import open_store
from tests.support.foreign.visit import Visit
from tests.support.gemini import FakeGemini, call, say
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
SECRET = "shared by both, and by nobody else"

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself


@pytest.fixture
async def gemini(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeGemini]:
    async with FakeGemini() as server:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        monkeypatch.setenv("GEMINI_API_KEY", server.key)
        monkeypatch.setenv("ADK_CONFIRM_PLUGIN_SECRET", SECRET)
        yield server


@asynccontextmanager
async def adk_api_server(port: int) -> AsyncIterator[str]:
    command = (str(Path(sys.executable).with_name("adk")), "api_server", "examples/adk", "--port", str(port))
    started = await asyncio.create_subprocess_exec(
        *(*command, "--session_service_uri", "memory://"),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession(url) as http:
            await until(lambda: is_up(http))
            assert started.returncode is None
        yield url
    finally:
        started.kill()
        await started.wait()


async def is_up(http: aiohttp.ClientSession) -> bool:
    try:
        async with http.get("/list-apps") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


@asynccontextmanager
async def hosted(agent: Agent) -> AsyncIterator[Host]:
    database = await open_store("sqlite://", SECRET)
    host = await open_host(agent, database)
    try:
        yield host
    finally:
        await host.close()
        await database.close()


async def goes_through(host: Host, gemini: FakeGemini) -> None:
    gemini.will(call("reimburse", purpose="trip", amount=1500.0), say("It is paid."))
    visit = Visit(host)
    request = await visit.asks("I paid 1500 for the trip")
    assert (request.tool, request.arguments) == ("reimburse", {"purpose": "trip", "amount": 1500.0})
    assert request.can_edit
    assert await visit.approve(request, payload={"amount": 1200.0}) == ["It is paid."]
    outcome = await visit.outcome(request)
    assert outcome.became is Became.DONE
    assert outcome.result == {"status": "ok", "purpose": "trip", "amount": 1200.0}


async def test_in_the_bot_s_process(gemini: FakeGemini) -> None:
    async with hosted(Agent(target="examples.adk.hr.agent:app")) as host:
        await goes_through(host, gemini)


@pytest.mark.slow
async def test_on_adk_s_own_server(gemini: FakeGemini, unused_tcp_port: int) -> None:
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(adk_api_server(unused_tcp_port))
        agent = Agent(url=url, app="hr", secret_env="ADK_CONFIRM_PLUGIN_SECRET")
        await goes_through(await stack.enter_async_context(hosted(agent)), gemini)
