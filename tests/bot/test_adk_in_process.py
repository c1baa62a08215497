"""An agent of google-adk as the bot's target: in its process, behind our plugin, its sessions beside the store.

It plays the scenes of `test_servers.py`. Killed, it is the bot that is killed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from google.adk.runners import Runner

from bot.hosts import open_host
from bot.hosts.adk import AdkServer, open_adk
from bot.hosts.foreign import ForeignHost
from bot.hosts.host import Became, Host, HostAnswer, Lost, Unreachable
from bot.row import SessionKey
from bot.settings import Agent
from bot.steps import Word
from bot.store import open_store
from runtime.adk_plugin import ConfirmationPlugin
from runtime.jsontypes import JsonObject
from runtime.target import BadTarget, load_object
from tests.support.environments import environment, run
from tests.support.foreign.fifos import all_let_go, hold, let_go
from tests.support.foreign.kinds import MCP, Kind
from tests.support.foreign.rig import Foreign
from tests.support.foreign.scenes import RESTARTS, SCENES, Scene
from tests.support.foreign.visit import Visit, texts
from tests.support.kill import child, here

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself

TARGETS = "tests.support.foreign.in_process"
SESSION = SessionKey("clerk", "slack-T1-U0ANN", "slack-T1-C1-1.1")
KIND = Kind("in-process-plugin", "google-adk in process", keeps=True)
NOT_HERE = (*RESTARTS, "elsewhere", "timed_out")  # nothing can be reached from outside, or be away


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    monkeypatch.setenv("TOOL_FIFO", str(tmp_path / "fifo"))
    return tmp_path / "tools.log"


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'bot.db'}"


def ran(log: Path) -> list[JsonObject]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@asynccontextmanager
async def opened(name: str, store: str = "sqlite://") -> AsyncIterator[Host]:
    database = await open_store(store)
    host = await open_host(Agent(target=f"{TARGETS}:{name}"), database, store_url=store)
    try:
        yield host
    finally:
        await host.close()
        await database.close()


@asynccontextmanager
async def visiting(name: str, store: str = "sqlite://") -> AsyncIterator[Visit]:
    async with opened(name, store) as host:
        yield Visit(host, SESSION if name == "clerk" else None)


class Here(Scene):
    """A scene whose agents are in this process. Everybody who visits one of them visits the same."""

    host: Host

    def visit(self, app: str = "clerk", timeout: float = 30.0) -> Visit:  # noqa: ARG002
        assert app == self.host.app
        return Visit(self.host)


SCENES_HERE = [name for name in SCENES if name not in NOT_HERE]
TELLING = ("parallel", "chat_in_between")
"""The scenes in which kinds of sessions differ: enough for the fast tests."""


def scenes(*without: str) -> list[object]:
    played_here = [name for name in SCENES_HERE if name not in without]
    return [pytest.param(name, marks=[] if name in TELLING else [pytest.mark.slow]) for name in played_here]


async def played(name: str, target: str, store: str, room: Path, *, one_by_one: bool = False) -> None:
    async with opened(target, store) as host:
        at = Here(KIND, Foreign((sys.executable,), room, {}))
        at.host = host
        assert (await host.capabilities()).siblings_together is not one_by_one
        with all_let_go(room):
            await SCENES[name][1](at)


@pytest.mark.parametrize("name", SCENES_HERE)
async def test_scene(name: str, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "mcp":
        monkeypatch.setenv("MCP", MCP)
    await played(name, "front_app" if name == "sub_agent" else "clerk", store, tmp_path)


@pytest.mark.parametrize("name", scenes("mcp"))
async def test_scene_in_a_resumable_app(name: str, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESUMABLE", "1")
    target = "front_app" if name == "sub_agent" else "clerk_app"
    await played(name, target, store, tmp_path, one_by_one=not version("google-adk").startswith("1."))


@pytest.mark.parametrize("name", scenes("mcp", "sub_agent"))
async def test_scene_in_a_runner_with_a_database(
    name: str, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where google-adk by itself loses a tool's result to a chat in between."""
    monkeypatch.setenv("SESSIONS", f"sqlite+aiosqlite:///{tmp_path / 'their.db'}")
    await played(name, "kept", store, tmp_path)


# What may be a target


@pytest.mark.parametrize(
    ("name", "app"), [("clerk", "clerk"), ("office", "office"), ("shop", "shop"), ("guarded", "guarded")]
)
async def test_an_agent_an_app_and_a_runner_are_targets(name: str, app: str, log: Path) -> None:
    async with visiting(name) as visit:
        assert visit.host.app == app
        request = await visit.asks("please pay 1500")
        assert request.can_edit
        assert request.tool_schema is not None
        assert list(request.tool_schema["properties"]) == ["amount"]  # type: ignore[arg-type]  # it is an object
        await visit.approve(request, payload={"amount": 1200})
        assert ran(log) == [{"tool": "reimburse", "amount": 1200}]
        assert (await visit.became(request)) is Became.DONE


@pytest.mark.parametrize(
    ("name", "said"), [("no_agent", "an agent, an App or a Runner is needed"), ("unnameable", "can't be made an App")]
)
async def test_what_is_none_is_said_to_be_none(name: str, said: str) -> None:
    with pytest.raises(BadTarget, match=said):
        async with visiting(name):
            pass


def test_without_the_extra_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text("from google.adk.agents import LlmAgent\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "google.adk.agents", None)  # as where it is not installed
    with pytest.raises(BadTarget, match=r"not installed: pip install 'adk-confirm\[adk\]'"):
        load_object("theirs:root_agent")


async def test_their_plugin_is_not_added_again_and_answers_to_its_own_secret(log: Path) -> None:
    """It has a secret: what the bot sends is signed with it, or nothing would run."""
    async with visiting("guarded") as visit:
        request = await visit.asks("please pay 1500")
        await visit.approve(request)
        await visit.deny(await visit.asks("please deploy search"))
        assert ran(log) == [{"tool": "reimburse", "amount": 1500}]


@pytest.mark.parametrize("name", ["clerk", "office", "shop", "guarded"])
async def test_our_plugin_is_there_once_and_first(name: str) -> None:
    target = load_object(f"{TARGETS}:{name}")
    host = open_adk(target, name, "sqlite://")
    await host.close()
    again = open_adk(target, name, "sqlite://")
    await again.close()
    assert isinstance(again, ForeignHost)
    assert isinstance(again.server, AdkServer)
    plugins = again.server.runner.plugin_manager.plugins
    assert [isinstance(one, ConfirmationPlugin) for one in plugins] == [True]


async def test_an_approval_is_of_the_call_that_people_saw(log: Path) -> None:
    async with visiting("clerk") as visit:
        request = await visit.asks("please pay 1500")
        seen = visit.answer(request, True)
        with pytest.raises(Lost, match="has another call now"):
            await texts(visit.host.answer(visit.session, [replace(seen, tool="reimburse", arguments={"amount": 1})]))
        assert ran(log) == []
        await texts(visit.host.answer(visit.session, [replace(seen, tool="reimburse", arguments={"amount": 1500})]))
        assert ran(log) == [{"tool": "reimburse", "amount": 1500}]


# Holding nobody up


async def test_a_tool_that_blocks_holds_up_no_one_in_slack(log: Path, tmp_path: Path) -> None:
    hold(tmp_path, "long")
    async with visiting("stalling") as visit:
        with all_let_go(tmp_path):
            request = await visit.asks("please linger long")
            approving = asyncio.create_task(visit.approve(request))
            while not ran(log):
                await asyncio.sleep(0.01)  # this loop goes on, though the tool gives nothing back
            looking = asyncio.create_task(visit.became(request))  # their session is read when the tool is done
        await approving
        assert await looking in (Became.RUNNING, Became.DONE)
        assert [*map(list, ran(log))] == [["tool", "begun"], ["tool", "ended"]]


class Late(AdkServer):
    """One session is read at once, and what was read arrives when the door opens."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self.next_is_late, self.read, self.door = False, asyncio.Event(), asyncio.Event()

    async def events(self, session: SessionKey) -> list[JsonObject] | None:
        late, self.next_is_late = self.next_is_late, False
        found = await super().events(session)
        if late:
            self.read.set()
            await self.door.wait()
        return found


async def test_what_ended_while_it_was_looked_at_is_not_unknown(log: Path, tmp_path: Path) -> None:
    hold(tmp_path, "long")
    runner = load_object(f"{TARGETS}:shop")
    assert isinstance(runner, Runner)
    server = Late(runner)
    host = ForeignHost(server)
    visit = Visit(host)
    with all_let_go(tmp_path):
        request = await visit.asks("please linger long")
        approving = asyncio.create_task(visit.approve(request))
        while not ran(log):
            await asyncio.sleep(0.01)  # the tool has begun, in its thread
        server.next_is_late = True
        looking = asyncio.create_task(visit.became(request))
        await server.read.wait()
    await approving
    server.door.set()
    assert await looking is Became.RUNNING
    assert await visit.became(request) is Became.DONE
    await host.close()


# Sessions


async def test_sessions_in_memory_are_said_to_be_lost_and_are(caplog: pytest.LogCaptureFixture, store: str) -> None:
    session = SessionKey("shop", "slack-T1-U0ANN", "slack-T1-C1-1.1")
    with caplog.at_level(logging.WARNING, "bot"):
        async with opened("shop", store) as host:
            (note,) = (await host.capabilities()).notes
            assert "kept in memory" in note
            request = await Visit(host, session).asks("please deploy search")
    assert "shop: The agent's sessions are kept in memory" in caplog.text
    async with opened("shop", store) as host:
        with pytest.raises(Lost, match="sessions in memory are gone with the process"):
            await Visit(host, session).approve(request)


async def test_a_runner_s_own_database_keeps_what_waits(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONS", f"sqlite+aiosqlite:///{tmp_path / 'their.db'}")
    async with opened("kept") as host:
        assert (await host.capabilities()).notes == ()
        request = await Visit(host, SESSION).asks("please deploy search")
    async with opened("kept") as host:
        await Visit(host, SESSION).approve(request)
        assert ran(log) == [{"tool": "deploy", "service": "search"}]


async def test_sessions_that_can_not_be_reached_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONS", f"sqlite+aiosqlite:///{tmp_path / 'no' / 'such' / 'directory.db'}")
    async with opened("kept") as host:
        with pytest.raises(Unreachable, match="can't be reached"):
            await Visit(host, SESSION).say("hello")


async def test_sessions_beside_the_store_are_said_to_be_nothing_of_the_kind(store: str) -> None:
    async with opened("clerk", store) as host:
        assert (await host.capabilities()).notes == ()


# Killed


async def waiting(store: str) -> None:
    async with visiting("clerk", store) as visit:
        await visit.asks("please deploy search")
        here("asked")


async def lingering(store: str) -> None:
    async with visiting("clerk", store) as visit:
        request = await visit.asks("please linger long")
        approving = asyncio.create_task(visit.approve(request))
        while not ran(Path(os.environ["TOOL_LOG"])):
            await asyncio.sleep(0.01)
        here("in the tool")
        await approving


async def ending(store: str) -> None:
    async with visiting("clerk", store) as visit:
        await visit.approve(await visit.asks("please deploy search"))
        here("done")


async def killed(function: Callable[[str], Awaitable[None]], store: str, point: str) -> None:
    async with child(function, store) as process:
        await process.reached(point)
        process.kill()
        await process.gone()


@pytest.mark.slow
async def test_killed_before_an_answer_it_waits(log: Path, store: str) -> None:
    await killed(waiting, store, "asked")
    async with visiting("clerk", store) as visit:
        (request,) = await visit.requests()
        await visit.approve(request)
        assert ran(log) == [{"tool": "deploy", "service": "search"}]


@pytest.mark.slow
@pytest.mark.parametrize("word", [Word.HAPPENED, Word.RUN_AGAIN])
async def test_killed_in_a_tool_nobody_knows(word: Word, log: Path, tmp_path: Path, store: str) -> None:
    hold(tmp_path, "long")
    await killed(lingering, store, "in the tool")
    async with visiting("clerk", store) as visit:
        assert await visit.requests() == []
        (outcome,) = (await visit.host.look(visit.session)).outcomes
        assert outcome.became is Became.UNKNOWN
        let_go(tmp_path, "long")
        said = await texts(visit.host.settle(visit.session, outcome.request_id, "", word, 1))
    begun: JsonObject = {"tool": "linger", "begun": "long"}
    if word is Word.HAPPENED:
        assert any("it happened" in text for text in said)
        assert ran(log) == [begun]
    else:
        assert ran(log) == [begun, begun, {"tool": "linger", "ended": "long"}]


@pytest.mark.slow
async def test_killed_after_a_run_it_stands(log: Path, store: str) -> None:
    await killed(ending, store, "done")
    async with visiting("clerk", store) as visit:
        (outcome,) = (await visit.host.look(visit.session)).outcomes
        assert (outcome.became, outcome.result) == (Became.DONE, {"deployed": "search"})
        again = HostAnswer(request_id=outcome.request_id, call_id="", invocation_id="", confirmed=True)
        assert await texts(visit.host.answer(visit.session, [again])) == []
        assert ran(log) == [{"tool": "deploy", "service": "search"}]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_google_adk_1_passes_the_same_tests() -> None:
    python = str(environment("google-adk[mcp]>=1.39,<1.40"))
    quietly = (python, "-m", "pytest", "--noconftest", "-p", "no:cacheprovider", "-q", "-k", "not google_adk_1")
    said = run(*quietly, __file__, *map(str, Path(__file__).parents[1].glob("runtime/test_adk_[st]*.py")))
    assert " passed" in said
