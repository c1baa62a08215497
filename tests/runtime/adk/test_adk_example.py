"""`examples/adk` as its README runs it: in the bot's process, and on ADK's own server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from google.adk.cli.utils.agent_loader import AgentLoader

from adk_confirm.bot.config.settings import AgentSettings, Settings, parse_settings
from adk_confirm.bot.confirmation.confirmation import Ask, HostRequest, OutcomeKind
from adk_confirm.bot.hosts.host import Host
from adk_confirm.bot.hosts.open_host import open_host
from adk_confirm.bot.ops.findings import coverage_findings, tools_of
from adk_confirm.bot.policy.policies import CallFacts, GoverningPolicy
from adk_confirm.bot.store.open import open_store
from adk_confirm.runtime.jsontypes import Json, JsonObject
from tests.support.foreign.visit import Visit
from tests.support.gemini import FakeGemini, asked_by_default, call, say
from tests.support.stores import temporary_store
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
GALLERY = ROOT / "examples" / "adk"
SECRET = "shared by both, and by nobody else"

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself


@pytest.fixture
async def gemini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeGemini]:
    monkeypatch.setenv("ADK_CONFIRM_PLUGIN_SECRET", SECRET)
    async with asked_by_default(tmp_path, monkeypatch, keep_alive=False) as server:
        yield server
    await hang_up()


async def hang_up() -> None:
    """Closes the connections of models and tools, which google-adk leaves open. They would be collected in some later
    test, which would be blamed for them."""
    for transport in [*asyncio.get_running_loop()._transports.values()]:  # type: ignore[attr-defined]  # no public list
        transport.abort()
    await asyncio.sleep(0)


@asynccontextmanager
async def adk_api_server(port: int) -> AsyncIterator[str]:
    command = (str(Path(sys.executable).with_name("adk")), "api_server", "examples/adk", "--port", str(port))
    started = await asyncio.create_subprocess_exec(
        *(*command, "--session_service_uri", "memory://"),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
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
async def hosted(agent: AgentSettings) -> AsyncIterator[Host]:
    with temporary_store() as url:
        database = await open_store(url, SECRET)
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
    assert outcome.became is OutcomeKind.DONE
    assert json.loads(outcome.text or "") == {"status": "ok", "purpose": "trip", "amount": 1200.0}


async def test_in_the_bot_s_process(gemini: FakeGemini) -> None:
    async with hosted(AgentSettings(target="adk_confirm.examples.adk.hr.agent:app")) as host:
        await goes_through(host, gemini)


# The gallery: each runs, and each has a policy for what it asks

SAYS: dict[str, list[object]] = {
    "refund": [call("refund", order="A-1001", amount=150.0), say("It is refunded.")],
    "release": [
        call("transfer_to_agent", agent_name="deployer"),
        call("deploy", service="search", version="2", env="prod"),
        say("It is deployed."),
    ],
    "files": [call("delete_file", path="old.txt"), say("It is gone.")],
    "onboarding": [],
}
ASKS: dict[str, tuple[str, JsonObject, Json, JsonObject | None]] = {
    "refund": (
        "refund",
        {"order": "A-1001", "amount": 150.0},
        {"amount": 120.0, "note": "late"},
        {"status": "refunded", "order": "A-1001", "amount": 120.0, "note": "late"},
    ),
    "release": (
        "deploy",
        {"service": "search", "version": "2", "env": "prod"},
        None,
        {"deployed": "search", "version": "2", "env": "prod"},
    ),
    "files": ("delete_file", {"path": "old.txt"}, None, None),
    "onboarding": ("order_laptop", {"model": "16 inch", "memory": 32}, None, {"result": "Ordered: 16 inch, 32 GB."}),
}


NAMES = ["refund", "release", "onboarding", pytest.param("files", marks=pytest.mark.slow)]
"""That of files starts the example's server once for each of its two toolsets."""


@pytest.mark.parametrize("name", NAMES)
async def test_the_gallery(name: str, gemini: FakeGemini) -> None:
    tool, arguments, payload, result = ASKS[name]
    gemini.will(*SAYS[name])  # type: ignore[arg-type]  # what the model answers
    settings = parse_settings((GALLERY / name / "adk-confirm.toml").read_text(), {})
    assert settings.agent is not None
    async with hosted(settings.agent) as host:
        visit = Visit(host)
        request = await visit.asks("Please do what you are for")
        if request.ask is Ask.INPUT:
            assert governs(settings, request, question=True)
            await visit.approve(request, payload={"model": "16 inch", "memory": 32})
            (request,) = await visit.requests()
        assert (request.tool, request.arguments) == (tool, arguments)
        assert governs(settings, request)
        await visit.approve(request, payload=payload)
        outcome = await visit.outcome(request)
        assert outcome.became is OutcomeKind.DONE
        assert result is None or json.loads(outcome.text or "") == result


def governs(settings: Settings, request: HostRequest, *, question: bool = False) -> bool:
    """Whether a policy of the file says who decides."""
    facts = CallFacts(tool=request.tool, args=request.arguments, question=question)
    return isinstance(settings.policies.resolve(facts), GoverningPolicy)


@pytest.mark.parametrize("name", NAMES)
async def test_check_finds_nothing_to_fix_in_the_gallery(name: str, gemini: FakeGemini) -> None:
    settings = parse_settings((GALLERY / name / "adk-confirm.toml").read_text(), {})
    assert settings.agent is not None
    tools = await tools_of(settings.agent)
    assert (tools is None) == (name == "onboarding")
    assert [str(one) for one in coverage_findings(settings.policies, tools or {}) if tools] == []


@pytest.mark.parametrize("name", [*ASKS, "hr"])
def test_adk_s_own_server_finds_the_gallery(name: str) -> None:
    """It imports a folder by its name alone: one that is called like a module of Python's is not found."""
    loaded = AgentLoader(str(GALLERY)).load_agent(name)
    assert loaded.name == name


def test_every_example_is_in_the_gallery() -> None:
    folders = {folder.name for folder in GALLERY.iterdir() if (folder / "agent.py").exists()}
    assert folders == {*ASKS, "hr"}
    assert all(f"]({name}/agent.py)" in (GALLERY / "README.md").read_text() for name in folders)


@pytest.mark.slow
async def test_on_adk_s_own_server(gemini: FakeGemini, unused_tcp_port: int) -> None:
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(adk_api_server(unused_tcp_port))
        agent = AgentSettings(url=url, app="hr", secret_env="ADK_CONFIRM_PLUGIN_SECRET")
        await goes_through(await stack.enter_async_context(hosted(agent)), gemini)
