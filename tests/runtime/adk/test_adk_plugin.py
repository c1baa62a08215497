"""Our plugin in a real google-adk server: each hole in its confirmations, and how the plugin closes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from adk_confirm.bot.confirmation.confirmation import HostRequest, OutcomeKind
from adk_confirm.runtime.adk.type_checks import check_edit
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject
from tests.support.environments import environment
from tests.support.foreign.rig import Foreign, foreign, google_adk
from tests.support.foreign.visit import Visit

SECRET = "shared by both, and by nobody else"
SLOW = [pytest.mark.slow, pytest.mark.timeout(600)]


class Servers:
    def __init__(self, room: Path, stack: ExitStack) -> None:
        self._room, self._stack = room, stack
        self._started: dict[str, Foreign] = {}

    def server(self, version: str, **env: str) -> Foreign:
        """One of each, for all tests."""
        name = "-".join([version, *env.values()])
        if name not in self._started:
            python = [str(environment("google-adk>=1.39,<1.40", "mcp<2"))] if version == "1.39" else []
            room = self._room / str(len(self._started))
            started = foreign(room, *google_adk(*python), SESSIONS=f"sqlite:///{room / 'adk.db'}", **env)
            self._started[name] = self._stack.enter_context(started)
        self._started[name].count_anew()
        return self._started[name]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(tmp_path_factory.mktemp("plugin"), stack)


@pytest.fixture(params=["2", pytest.param("1.39", marks=SLOW)])
def version(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@asynccontextmanager
async def visiting(server: Foreign, secret: str | None = None) -> AsyncIterator[Visit]:
    host = server.host(secret=secret)
    try:
        yield Visit(host)
    finally:
        await host.close()


@pytest.fixture
async def at(servers: Servers, version: str) -> AsyncIterator[Visit]:
    async with visiting(servers.server(version, PLUGIN="1")) as visit:
        yield visit


@pytest.fixture
def server(servers: Servers, version: str) -> Foreign:
    return servers.server(version, PLUGIN="1")


async def raw(server: Foreign, visit: Visit, request: HostRequest, response: JsonObject) -> tuple[int, str]:
    """An answer past the bot."""
    given: Json = {"id": request.request_id, "name": "adk_request_confirmation", "response": response}
    body = {
        "appName": "clerk",
        "userId": visit.session.user_id,
        "sessionId": visit.session.id,
        "newMessage": {"role": "user", "parts": [{"functionResponse": given}]},
    }
    async with aiohttp.ClientSession(server.url) as http, http.post("/run", json=body) as response_:
        return response_.status, await response_.text()


class Armed:
    """What the predicate of `launch` looks at."""

    def __init__(self, server: Foreign) -> None:
        self._file = server.room / "tools.log.armed"

    def __enter__(self) -> None:
        self._file.touch()

    def __exit__(self, *_: object) -> None:
        self._file.unlink()


async def test_a_denial_holds_whatever_the_predicate_says_by_then(at: Visit, server: Foreign) -> None:
    with Armed(server):
        request = await at.asks("please launch rocket")
    await at.deny(request)
    assert server.ran() == []
    assert (await at.became(request)) is OutcomeKind.REFUSED


@pytest.mark.slow  # with a server of its own
async def test_without_the_plugin_it_runs_and_is_seen_to_have_run(servers: Servers, version: str) -> None:
    bare = servers.server(version)
    async with visiting(bare) as visit:
        with Armed(bare):
            request = await visit.asks("please launch rocket")
        await visit.deny(request)
        assert bare.ran() == [{"tool": "launch", "target": "rocket"}]
        outcome = await visit.outcome(request)
        assert (outcome.became, outcome.confirmed) == (OutcomeKind.DONE, None)


async def test_the_same_answer_many_times_at_once_runs_once(at: Visit, server: Foreign) -> None:
    request = await at.asks("please deploy search")
    await asyncio.gather(*(raw(server, at, request, {"confirmed": True}) for _ in range(8)))
    assert server.ran() == [{"tool": "deploy", "service": "search"}]
    assert (await at.became(request)) is OutcomeKind.DONE


async def test_it_is_one_of_the_server_s_extra_plugins(servers: Servers, version: str) -> None:
    """`adk api_server --extra_plugins`: the agent stays as it is, and the secret is in the environment."""
    plugin = "adk_confirm.ConfirmationPlugin"
    guarded = servers.server(version, EXTRA_PLUGINS=plugin, ADK_CONFIRM_PLUGIN_SECRET=SECRET)
    async with visiting(guarded, SECRET) as visit:
        request = await visit.asks("please pay 1500")
        assert request.can_edit
        assert (await raw(guarded, visit, request, {"confirmed": True}))[0] == 500
        assert guarded.ran() == []
        await visit.approve(request, payload={"amount": 1200})
        assert guarded.ran() == [{"tool": "reimburse", "amount": 1200}]


@pytest.mark.slow
async def test_a_secret_that_nobody_asks_for_is_warned_of(
    servers: Servers, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The plugin was not loaded, say: the answer goes out, but so may anybody's."""
    async with visiting(servers.server(version), SECRET) as visit:
        await visit.approve(await visit.asks("please pay 1500"))
        assert "asks for no signature" in caplog.text


SCHEMA: JsonObject = {
    "properties": {"n": {"type": "integer"}, "x": {"type": ["number", "null"]}, "any": {}, "t": {"type": "STRING"}}
}


@pytest.mark.parametrize("fit", [{}, {"n": 1}, {"n": 1.0}, {"x": 1.5}, {"x": None}, {"any": [1]}, {"t": "a"}])
def test_what_fits_a_schema(fit: JsonObject) -> None:
    check_edit(fit, SCHEMA, "c1")
    check_edit({"anything": 1}, None, "c1")


@pytest.mark.parametrize("unfit", [{"m": 1}, {"n": "1"}, {"n": True}, {"n": 1.5}, {"x": "1"}, {"t": 1}])
def test_what_does_not_names_the_argument(unfit: JsonObject) -> None:
    (name,) = unfit
    with pytest.raises(Invalid, match=f"'{name}'"):
        check_edit(unfit, SCHEMA, "c1")
