"""The scenes of `test_servers.py` with the agent in the bot's own process, where the bot itself is killed.

The table in docs/servers.md tells of these as well.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from adk_confirm.bot.confirmation.confirmation import HostRequest, OutcomeKind
from adk_confirm.runtime.calls.call import Word
from tests.support.foreign.alone import ran
from tests.support.foreign.fifos import hold, let_go
from tests.support.foreign.inside import played, visiting
from tests.support.foreign.kinds import ADK_IN_PROCESS, OURS_IN_PROCESS, mcp_files
from tests.support.foreign.scenes import RESTARTS, SCENES
from tests.support.foreign.visit import Visit
from tests.support.kill import child, here
from tests.support.stores import new_store
from tests.support.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself

HERE = [name for name in SCENES if name not in (*RESTARTS, *ADK_IN_PROCESS.never)]
APPS = {"mcp": "filer_app", "sub_agent": "front_app", "branches": "fork_app"}
OUR_APPS = {"mcp": "own_filer", "sub_agent": "own_front"}
OTHERWISE = ("settled", *OURS_IN_PROCESS.never)
TELLING = ("parallel", "chat_in_between")
"""The scenes in which kinds of sessions differ: enough for the fast tests."""


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    monkeypatch.setenv("TOOL_FIFO", str(tmp_path / "fifo"))
    monkeypatch.setenv("MCP", mcp_files())
    return tmp_path


@pytest.fixture
def store(tmp_path: Path) -> str:
    return new_store(tmp_path)


def scenes(*without: str) -> list[object]:
    return [
        pytest.param(name, marks=[] if name in TELLING else [pytest.mark.slow]) for name in HERE if name not in without
    ]


@pytest.mark.parametrize("name", HERE)
async def test_scene(name: str, store: str, room: Path) -> None:
    await played(ADK_IN_PROCESS, name, APPS.get(name, "clerk_app"), store, room)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in HERE if name not in OTHERWISE])
async def test_scene_on_our_own_runtime(name: str, store: str, room: Path) -> None:
    await played(OURS_IN_PROCESS, name, OUR_APPS.get(name, "own_clerk"), store, room)


@pytest.mark.parametrize("name", scenes("mcp"))
async def test_scene_in_a_resumable_app(name: str, store: str, room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESUMABLE", "1")
    target = APPS.get(name, "clerk")  # the app that the bot makes for an agent is resumable
    await played(ADK_IN_PROCESS, name, target, store, room)


@pytest.mark.parametrize("name", scenes(*APPS))
async def test_scene_in_a_runner_with_a_database(
    name: str, store: str, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where google-adk by itself loses a tool's result to a chat in between."""
    monkeypatch.setenv("SESSIONS", f"sqlite+aiosqlite:///{room / 'their.db'}")
    await played(ADK_IN_PROCESS, name, "kept", store, room)


# Killed: what RESTARTS are here


async def asks(target: str, store: str) -> None:
    async with visiting(target, store) as visit:
        await visit.asks("please deploy search")
        here("asked")


async def lingers(target: str, store: str) -> None:
    async with visiting(target, store) as visit:
        request = await visit.asks("please linger long")
        noted_call().write_text(json.dumps([request.call_id, request.tool, request.arguments]))
        approving = asyncio.create_task(visit.approve(request))
        await until(ran)
        here("in the tool")
        await approving


async def deploys(target: str, store: str) -> None:
    async with visiting(target, store) as visit:
        await visit.approve(await visit.asks("please deploy search"))
        here("done")


async def killed(function: Callable[[str, str], Awaitable[None]], target: str, store: str, point: str) -> None:
    async with child(function, target, store) as process:
        await process.reached(point)
        process.kill()
        await process.gone()


def noted_call() -> Path:
    """Where a process about to be killed notes the call that people will be asked about."""
    return Path(os.environ["TOOL_LOG"]).with_name("call")


async def killed_between(target: str, store: str, room: Path) -> None:
    await killed(asks, target, store, "asked")
    async with visiting(target, store) as visit:
        (request,) = await visit.requests()
        await visit.approve(request)
        assert ran() == [{"tool": "deploy", "service": "search"}]


async def killed_in_a_run(target: str, store: str, room: Path, word: Word = "run again") -> None:
    hold(room, "long")
    await killed(lingers, target, store, "in the tool")
    async with visiting(target, store) as visit:
        assert await visit.requests() == []
        (request,) = await visit.outcomes()
        assert await given_again(visit, request) == []
        outcome = (await visit.outcomes())[request]
        assert outcome.became is OutcomeKind.UNKNOWN
        let_go(room, "long")
        call_id, tool, arguments = json.loads(noted_call().read_text())
        about = HostRequest(request_id=request, call_id=call_id, tool=tool, arguments=arguments, agent="")
        said = await visit.settle(about, word)
    if word == "run again":
        assert [*map(list, ran())] == [["tool", "begun"], ["tool", "begun"], ["tool", "ended"]]
    else:
        assert [*map(list, ran())] == [["tool", "begun"]]
        assert any("it happened" in text or "took effect" in text for text in said)


async def killed_after(target: str, store: str, room: Path) -> None:
    await killed(deploys, target, store, "done")
    async with visiting(target, store) as visit:
        ((request, outcome),) = (await visit.outcomes()).items()
        assert (outcome.became, outcome.text) == (OutcomeKind.DONE, '{"deployed":"search"}')
        assert await given_again(visit, request) == []
        assert ran() == [{"tool": "deploy", "service": "search"}]


async def given_again(visit: Visit, request_id: str) -> list[str]:
    """As the session worker does when it does not know whether the answer got there."""
    again = HostRequest(request_id=request_id, call_id="", tool="", arguments={}, agent="")
    return await visit.approve(again)


KILLED = {one.__name__: one for one in (killed_between, killed_in_a_run, killed_after)}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["clerk", "own_clerk"])
@pytest.mark.parametrize("name", RESTARTS)
async def test_scene_with_a_kill(name: str, target: str, store: str, room: Path) -> None:
    await KILLED[name](target, store, room)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["clerk", "own_clerk"])
async def test_killed_in_a_tool_people_may_say_that_it_happened(target: str, store: str, room: Path) -> None:
    """The scene "settled" of our own runtime, too."""
    await killed_in_a_run(target, store, room, "it happened")
