"""What happens to an approved call that runs while the bot's own database, or its lease, is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from itertools import count
from pathlib import Path

import pytest

from adk_confirm.bot.agents import session_worker
from adk_confirm.bot.agents.intake import Intake
from adk_confirm.bot.agents.session_worker import SessionWorker
from adk_confirm.bot.confirmation.confirmation import OutcomeKind
from adk_confirm.bot.hosts.adk_host import AdkHost
from adk_confirm.bot.hosts.remote import RemoteServer
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.lease import JobKey
from adk_confirm.runtime.wire import SessionId
from tests.support.backoffice import Backoffice, backoffice
from tests.support.deciding import ANNA
from tests.support.foreign.rig import Foreign, foreign, google_adk
from tests.support.outgoing import outgoing
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.scratch import SCRATCH
from tests.support.stores import change_job, try_lease
from tests.support.waiting import until

pytest.importorskip("google.adk")
_threads = count(1)
POLICIES = '[[policy]]\ntools = ["*"]\napprovers = ["user:U0ANNA"]\n'


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server(SCRATCH) as server:
        yield server


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    with foreign(tmp_path_factory.mktemp("agents"), *google_adk()) as server:
        yield server


class Counting(RemoteServer):
    """Notes when a session is read."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "clerk", timeout=30.0)
        self.read_at: list[float] = []

    async def events(self, session: SessionId) -> list[JsonObject] | None:
        self.read_at.append(time.monotonic())
        return await super().events(session)


class Desk:
    """A bot with one thread, and an agent on google-adk's own server."""

    def __init__(self, at: Backoffice, worker: SessionWorker, server: Counting) -> None:
        self.at, self._worker, self.server = at, worker, server

    async def attends(self) -> None:
        lease = await try_lease(self.at.database, JobKey("session", self.at.key))
        assert lease is not None
        async with lease:
            await self._worker.attend(self.at.key, lease, await lease.read(self._worker.look, self.at.key))

    async def approved(self, word: str) -> str:
        """A call of the tool that lingers, approved and not delivered yet."""
        await self.at.hears(f"please linger {word}", thread=f"1.{next(_threads)}", app="clerk")
        await self.attends()
        name = await self.at.database.read(lambda tx: str(tx.value("SELECT id FROM bot_confirmations")))
        await self.at.vote(name, ANNA)
        return name


@pytest.fixture
async def desk(
    postgres: PostgresServer,
    agents: Foreign,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> AsyncIterator[Desk]:
    monkeypatch.setattr(session_worker, "LOOK_WHILE_RUNNING", 0.05)
    async with AsyncExitStack() as stack:
        url = stack.enter_context(postgres.database())
        at = await stack.enter_async_context(backoffice(url, tmp_path, monkeypatch, capsys))
        at.policies(POLICIES)
        out = await stack.enter_async_context(outgoing())
        server, rules = Counting(agents.url), at.rules
        host = AdkHost(server)
        stack.push_async_callback(host.close)
        intake = Intake(out.directory, out.api, rules)
        yield Desk(at, SessionWorker(host, out.api, at.database, intake, rules), server)


@pytest.mark.parametrize("gone", ["database", "lease"])
async def test_the_tool_is_not_interrupted(
    desk: Desk,
    agents: Foreign,
    postgres: PostgresServer,
    gone: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """google-adk stops a tool whose caller hangs up."""
    caplog.set_level("INFO", "adk_confirm.bot.agents.session_worker")
    word = agents.holds()
    name = await desk.approved(word)
    running = asyncio.create_task(desk.attends())
    await agents.has_begun(word)
    if gone == "lease":
        taken = "UPDATE jobs SET lease_token = 'another', lease_until = 0 WHERE kind = 'session'"
        await desk.at.database.run(lambda tx: tx.run(taken))
    else:
        monkeypatch.setattr("adk_confirm.runtime.store.postgres.AWAY_SECONDS", 0.2)
        postgres.goes_away(crashes=True)
    looks = len(desk.server.read_at)  # one that finds nothing new asks nobody for the lease
    await until(lambda: "not looked at" in caplog.text or len(desk.server.read_at) > looks + 1 or running.done())
    assert not running.done()
    if gone == "database":
        postgres.comes_back()
        monkeypatch.setattr("adk_confirm.runtime.store.postgres.AWAY_SECONDS", 5.0)
    agents.go_on(word)
    with suppress(ConfirmError):  # what follows is done again
        await running
    assert agents.lingered(word) == ["begun", "ended"]
    await desk.at.database.run(_due_again)
    await desk.attends()
    outcome = (await desk.at.row(name)).outcome
    assert outcome is not None
    assert outcome.kind is OutcomeKind.DONE
    assert agents.lingered(word) == ["begun", "ended"]


def _due_again(tx: Tx) -> None:
    change_job(tx, "session", lease_token=None, lease_until=None, due_at=tx.now())


async def test_a_long_run_is_looked_at_less_and_less(desk: Desk, agents: Foreign) -> None:
    """A look reads the whole session, which may be long."""
    word = agents.holds()
    await desk.approved(word)
    running = asyncio.create_task(desk.attends())
    await agents.has_begun(word)
    begun = len(desk.server.read_at)
    await until(lambda: len(desk.server.read_at) >= begun + 5)
    agents.go_on(word)
    await running
    first, *_, last = desk.server.read_at[begun : begun + 5]
    assert last - first > 0.05 * (2 + 4 + 8)
