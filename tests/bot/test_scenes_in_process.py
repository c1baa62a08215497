"""The scenes of `test_servers.py` where the agent is in the bot's own process. Killed, it is the bot that is killed.

The table in docs/servers.md tells of these as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from bot.hosts.host import Became, HostAnswer
from bot.steps import Word
from tests.support.foreign.alone import ran
from tests.support.foreign.fifos import hold, let_go
from tests.support.foreign.inside import played, visiting
from tests.support.foreign.kinds import ADK_IN_PROCESS, MCP
from tests.support.foreign.scenes import RESTARTS, SCENES
from tests.support.foreign.visit import texts
from tests.support.kill import child, here

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself

HERE = [name for name in SCENES if name not in (*RESTARTS, *ADK_IN_PROCESS.never)]
TELLING = ("parallel", "chat_in_between")
"""The scenes in which kinds of sessions differ: enough for the fast tests."""


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    monkeypatch.setenv("TOOL_FIFO", str(tmp_path / "fifo"))
    return tmp_path


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'bot.db'}"


def scenes(*without: str) -> list[object]:
    return [
        pytest.param(name, marks=[] if name in TELLING else [pytest.mark.slow]) for name in HERE if name not in without
    ]


@pytest.mark.parametrize("name", HERE)
async def test_scene(name: str, store: str, room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "mcp":
        monkeypatch.setenv("MCP", MCP)
    await played(ADK_IN_PROCESS, name, "front_app" if name == "sub_agent" else "clerk", store, room)


@pytest.mark.parametrize("name", scenes("mcp"))
async def test_scene_in_a_resumable_app(name: str, store: str, room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESUMABLE", "1")
    target = "front_app" if name == "sub_agent" else "clerk_app"
    one_by_one = not version("google-adk").startswith("1.")
    await played(ADK_IN_PROCESS, name, target, store, room, one_by_one=one_by_one)


@pytest.mark.parametrize("name", scenes("mcp", "sub_agent"))
async def test_scene_in_a_runner_with_a_database(
    name: str, store: str, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where google-adk by itself loses a tool's result to a chat in between."""
    monkeypatch.setenv("SESSIONS", f"sqlite+aiosqlite:///{room / 'their.db'}")
    await played(ADK_IN_PROCESS, name, "kept", store, room)


# Killed: what RESTARTS are here


async def asks(store: str) -> None:
    async with visiting("clerk", store) as visit:
        await visit.asks("please deploy search")
        here("asked")


async def lingers(store: str) -> None:
    async with visiting("clerk", store) as visit:
        request = await visit.asks("please linger long")
        approving = asyncio.create_task(visit.approve(request))
        while not ran():
            await asyncio.sleep(0.01)
        here("in the tool")
        await approving


async def deploys(store: str) -> None:
    async with visiting("clerk", store) as visit:
        await visit.approve(await visit.asks("please deploy search"))
        here("done")


async def killed(function: Callable[[str], Awaitable[None]], store: str, point: str) -> None:
    async with child(function, store) as process:
        await process.reached(point)
        process.kill()
        await process.gone()


async def killed_between(store: str, room: Path) -> None:
    await killed(asks, store, "asked")
    async with visiting("clerk", store) as visit:
        (request,) = await visit.requests()
        await visit.approve(request)
        assert ran() == [{"tool": "deploy", "service": "search"}]


async def killed_in_a_run(store: str, room: Path, word: Word = Word.RUN_AGAIN) -> None:
    hold(room, "long")
    await killed(lingers, store, "in the tool")
    async with visiting("clerk", store) as visit:
        assert await visit.requests() == []
        (outcome,) = (await visit.host.look(visit.session)).outcomes
        assert outcome.became is Became.UNKNOWN
        let_go(room, "long")
        said = await texts(visit.host.settle(visit.session, outcome.request_id, "", word, 1))
    if word is Word.RUN_AGAIN:
        assert [*map(list, ran())] == [["tool", "begun"], ["tool", "begun"], ["tool", "ended"]]
    else:
        assert [*map(list, ran())] == [["tool", "begun"]]
        assert any("it happened" in text for text in said)


async def killed_after(store: str, room: Path) -> None:
    await killed(deploys, store, "done")
    async with visiting("clerk", store) as visit:
        (outcome,) = (await visit.host.look(visit.session)).outcomes
        assert (outcome.became, outcome.result) == (Became.DONE, {"deployed": "search"})
        again = HostAnswer(request_id=outcome.request_id, call_id="", invocation_id="", confirmed=True)
        assert await texts(visit.host.answer(visit.session, [again])) == []
        assert ran() == [{"tool": "deploy", "service": "search"}]


KILLED = {one.__name__: one for one in (killed_between, killed_in_a_run, killed_after)}


@pytest.mark.slow
@pytest.mark.parametrize("name", RESTARTS)
async def test_scene_with_a_kill(name: str, store: str, room: Path) -> None:
    await KILLED[name](store, room)


@pytest.mark.slow
async def test_killed_in_a_tool_people_may_say_that_it_happened(store: str, room: Path) -> None:
    await killed_in_a_run(store, room, Word.HAPPENED)
