"""An agent of google-adk in the bot's process, behind our plugin, with its sessions next to the store.

What it does and survives there is played in `test_scenes_in_process.py`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from google.adk.runners import Runner

from adk_confirm.bot.confirmation.confirmation import OutcomeKind
from adk_confirm.bot.hosts.adk_host import AdkHost
from adk_confirm.bot.hosts.adk_in_process import AdkServer
from adk_confirm.bot.hosts.host import CallAltered, RequestLost, Unreachable
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.target import BadTarget, load_object
from adk_confirm.runtime.wire import SessionId
from tests.support.environments import environment, run
from tests.support.foreign.alone import ran
from tests.support.foreign.fifos import all_let_go, hold
from tests.support.foreign.inside import TARGETS, opened, visiting
from tests.support.foreign.visit import Visit
from tests.support.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself

SESSION = SessionId("clerk", "slack-T1-U0ANN", "slack-T1-C1-1.1")


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    monkeypatch.setenv("TOOL_FIFO", str(tmp_path / "fifo"))


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'bot.db'}"  # no fixture of conftest.py: google-adk 1 runs these tests without it


# What may be a target


@pytest.mark.parametrize(
    ("name", "app"), [("clerk", "clerk"), ("office", "office"), ("shop", "shop"), ("guarded", "guarded")]
)
async def test_an_agent_an_app_and_a_runner_are_targets(name: str, app: str) -> None:
    async with visiting(name) as visit:
        assert visit.host.app == app
        request = await visit.asks("please pay 1500")
        assert request.can_edit
        assert request.tool_schema is not None
        assert list(request.tool_schema["properties"]) == ["amount"]  # type: ignore[arg-type]  # it is an object
        await visit.approve(request, payload={"amount": 1200})
        assert ran() == [{"tool": "reimburse", "amount": 1200}]
        assert (await visit.became(request)) is OutcomeKind.DONE


@pytest.mark.parametrize(
    ("name", "said"),
    [("no_agent", "an agent, a workflow, an App or a Runner is needed"), ("unnameable", "can't be made an App")],
)
async def test_an_object_that_is_not_an_agent_is_refused(name: str, said: str) -> None:
    with pytest.raises(BadTarget, match=said):
        async with visiting(name):
            pass


def test_without_the_extra_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text("from google.adk.agents import LlmAgent\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "google.adk.agents", None)  # as where it is not installed
    with pytest.raises(BadTarget, match=r"not installed: pip install 'adk-confirm\[adk\]'"):
        load_object("theirs:root_agent")


async def test_their_plugin_is_not_added_again_and_answers_to_its_own_secret() -> None:
    """It has a secret: what the bot sends is signed with it, or nothing would run."""
    async with visiting("guarded") as visit:
        request = await visit.asks("please pay 1500")
        await visit.approve(request)
        await visit.deny(await visit.asks("please deploy search"))
        assert ran() == [{"tool": "reimburse", "amount": 1500}]


async def test_an_approval_is_of_the_call_that_people_saw() -> None:
    async with visiting("clerk") as visit:
        request = await visit.asks("please pay 1500")
        others: list[dict[str, Json]] = [
            {"amount": 1},
            {"amount": 1500.0},
            {"amount": "1500"},
            {"amount": 1500, "to": None},
        ]
        for other in others:
            with pytest.raises(CallAltered, match="is no longer the one that was approved"):
                await visit.approve(replace(request, arguments=other))
        with pytest.raises(CallAltered):
            await visit.approve(replace(request, call_id="adk-another"))
        with pytest.raises(CallAltered, match="is no longer the one that was approved"):
            await visit.settle(replace(request, arguments={"amount": 1500.0}), "run again")
        assert ran() == []
        await visit.approve(request)
        assert ran() == [{"tool": "reimburse", "amount": 1500}]


async def test_a_request_that_appears_twice_is_answered_by_nothing() -> None:
    """Somebody writes a second request of that id into the agent's sessions; google-adk would run that one."""
    async with visiting("clerk") as visit:
        request = await visit.asks("please pay 1500")
        assert isinstance(visit.host, AdkHost)
        assert isinstance(visit.host.server, AdkServer)
        sessions, here = visit.host.server.runner.session_service, visit.session
        held = await sessions.get_session(app_name=here.app, user_id=here.user_id, session_id=here.id)
        assert held is not None
        asking = next(event for event in held.events if event.long_running_tool_ids)
        dearer = asking.model_copy(deep=True, update={"id": "forged"})
        (again,) = dearer.get_function_calls()
        assert again.args is not None
        again.args["originalFunctionCall"]["args"]["amount"] = 99999
        await sessions.append_event(held, dearer)
        with pytest.raises(CallAltered, match="is no longer the one that was approved"):
            await visit.approve(request)
        assert ran() == []


# Holding nobody up


class Late(AdkServer):
    """One session is read at once, and what was read arrives when the door opens."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self.next_is_late, self.read, self.door = False, asyncio.Event(), asyncio.Event()

    async def events(self, session: SessionId) -> list[JsonObject] | None:
        late, self.next_is_late = self.next_is_late, False
        found = await super().events(session)
        if late:
            self.read.set()
            await self.door.wait()
        return found


async def test_what_ended_while_it_was_looked_at_is_not_unknown(tmp_path: Path) -> None:
    hold(tmp_path, "long")
    runner = load_object(f"{TARGETS}:shop")
    assert isinstance(runner, Runner)
    server = Late(runner)
    host = AdkHost(server)
    visit = Visit(host)
    with all_let_go(tmp_path):
        request = await visit.asks("please linger long")
        approving = asyncio.create_task(visit.approve(request))
        await until(ran)  # the tool has begun, in its thread
        server.next_is_late = True
        looking = asyncio.create_task(visit.became(request))
        await server.read.wait()
    await approving
    server.door.set()
    assert await looking is OutcomeKind.RUNNING
    assert await visit.became(request) is OutcomeKind.DONE
    await host.close()


# Sessions


async def test_sessions_in_memory_are_said_to_be_lost_and_are(caplog: pytest.LogCaptureFixture, store: str) -> None:
    session = SessionId("shop", "slack-T1-U0ANN", "slack-T1-C1-1.1")
    with caplog.at_level(logging.WARNING, "adk_confirm"):
        async with opened("shop", store) as host:
            (note,) = (await host.capabilities()).notes
            assert "kept in memory" in note
            request = await Visit(host, session).asks("please deploy search")
    assert "shop: The agent's sessions are kept in memory" in caplog.text
    async with opened("shop", store) as host:
        with pytest.raises(RequestLost, match="Without a database, sessions are lost when the agent"):
            await Visit(host, session).approve(request)


async def test_a_runner_s_own_database_keeps_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONS", f"sqlite+aiosqlite:///{tmp_path / 'their.db'}")
    async with opened("kept") as host:
        assert (await host.capabilities()).notes == ()
        request = await Visit(host, SESSION).asks("please deploy search")
    async with opened("kept") as host:
        await Visit(host, SESSION).approve(request)
        assert ran() == [{"tool": "deploy", "service": "search"}]


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


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_google_adk_1_passes_the_same_tests() -> None:
    python = str(environment("google-adk>=1.39,<1.40", "mcp<2"))
    # It runs no call of a `ParallelAgent` whose branches wait: tests/bot/hosts/test_servers.py says so. It seals no
    # run that was stopped, either.
    some = "not google_adk_1 and not kill and not branches and not notes_the_stop"
    own = ("--noconftest", "-p", "tests.runtime.adk.conftest", "-p", "no:cacheprovider")
    quietly = (python, "-m", "pytest", *own, "-q", "-k", some)
    tests = Path(__file__).parents[2]
    files = (*tests.glob("bot/*/test_*_in_process.py"), *tests.glob("runtime/adk/test_adk_[st]*.py"))
    said = run(*quietly, *map(str, files))
    assert " passed" in said
