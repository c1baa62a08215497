"""An agent of google-adk as the bot's target: in its process, behind our plugin, its sessions beside the store."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.hosts import open_host
from bot.hosts.host import Became
from bot.row import SessionKey
from bot.settings import Agent
from bot.steps import Word
from bot.store import open_store
from runtime.jsontypes import JsonObject
from runtime.target import BadTarget
from tests.support.foreign.visit import Visit
from tests.support.kill import child, here
from tests.support.office import Office, office

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself

TARGETS = "tests.support.foreign.in_process"
SESSION = SessionKey("clerk", "slack-T1-U0ANN", "slack-T1-C1-1.1")


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    monkeypatch.setenv("TOOL_FIFO", str(tmp_path / "fifo"))
    return tmp_path / "tools.log"


def ran(log: Path) -> list[JsonObject]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@asynccontextmanager
async def visiting(name: str, store: str = "sqlite://") -> AsyncIterator[Visit]:
    database = await open_store(store)
    host = await open_host(Agent(target=f"{TARGETS}:{name}"), database, store_url=store)
    try:
        yield Visit(host, SESSION if name == "clerk" else None)
    finally:
        await host.close()
        await database.close()


@pytest.mark.parametrize(("name", "app"), [("clerk", "clerk"), ("app", "office"), ("runner", "shop")])
async def test_an_agent_an_app_and_a_runner_are_targets(name: str, app: str, log: Path) -> None:
    async with visiting(name) as visit:
        assert visit.host.app == app
        request = await visit.asks("please pay 1500")
        assert request.can_edit
        await visit.approve(request, payload={"amount": 1200})
        assert ran(log) == [{"tool": "reimburse", "amount": 1200}]
        assert (await visit.became(request)) is Became.DONE


async def test_something_else_of_google_adk_is_none() -> None:
    with pytest.raises(BadTarget, match="an agent, an App or a Runner is needed"):
        async with visiting("no_agent"):
            pass


async def test_a_denial_holds_and_its_reason_reaches_the_model(log: Path) -> None:
    async with visiting("clerk") as visit:
        said = await visit.deny(await visit.asks("please wipe sda"), reason="Not that one")
        assert "Not that one" in said[-1]
        assert ran(log) == []


async def test_what_a_tool_fails_at_is_its_result(log: Path) -> None:
    async with visiting("clerk") as visit:
        request = await visit.asks("please break glass")
        await visit.approve(request)
        assert (await visit.outcome(request)).text == "ValueError: no glass today"
        assert await visit.approve(request) == []
        assert len(ran(log)) == 1


async def test_what_waits_outlives_the_process(log: Path, database_url: str) -> None:
    async with visiting("clerk", database_url) as visit:
        request = await visit.asks("please deploy search")
    async with visiting("clerk", database_url) as visit:
        assert await visit.requests() == [request]
        await visit.approve(request)
        assert ran(log) == [{"tool": "deploy", "service": "search"}]


async def lingering(store: str) -> None:
    async with visiting("clerk", store) as visit:
        request = await visit.asks("please linger long")
        approving = asyncio.create_task(visit.approve(request))
        while not ran(Path(os.environ["TOOL_LOG"])):
            await asyncio.sleep(0.01)
        here("in the tool")
        await approving


async def test_killed_in_a_tool_nobody_knows(log: Path, tmp_path: Path, sqlite_url: str) -> None:
    os.mkfifo(tmp_path / "fifo-long")
    async with child(lingering, sqlite_url) as process:
        await process.reached("in the tool")
        process.kill()
        await process.gone()
    async with visiting("clerk", sqlite_url) as visit:
        assert await visit.requests() == []
        (outcome,) = (await visit.host.look(visit.session)).outcomes
        assert outcome.became is Became.UNKNOWN
        said = [one.text async for one in visit.host.settle(visit.session, outcome.request_id, "", Word.HAPPENED, 1)]
        assert any("it happened" in text for text in said)
    assert ran(log) == [{"tool": "linger", "begun": "long"}]


@pytest.fixture
async def at(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    async with office(database_url, tmp_path / "log", monkeypatch, target=f"{TARGETS}:clerk") as opened:
        yield opened


async def test_from_the_mention_to_the_edit_that_runs(at: Office, log: Path) -> None:
    card = await at.ask("please pay 1500")

    await at.bob.clicks(card, "Edit…")
    modal = await at.bob.gets_modal("Edit")
    assert "denies this call" not in str(modal)
    await modal.submits({"amount": "1200"})

    await at.ann.finds("reimburse is done", at.deploys, thread=card)
    assert ran(log) == [{"tool": "reimburse", "amount": 1200}]


async def test_from_the_mention_to_the_reason(at: Office, log: Path) -> None:
    card = await at.ask("please deploy search")

    await at.bob.clicks(card, "Deny")
    modal = await at.bob.gets_modal("Deny")
    await modal.submits({"Reason": "Not on a Friday"})

    await at.ann.finds("Not on a Friday", at.deploys, thread=card)
    await at.ann.finds("I got", at.deploys, thread=card)
    assert ran(log) == []
