"""A second process starts beside one that runs a call, and that seems to be away or stops: the call does not run beside
itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.store.database import Database, Tx, sqlite_path
from adk_confirm.sandbox.server.server import FakeSlack
from tests.bot.worker.test_freezes import replicas
from tests.support.office import POLICY, Staff
from tests.support.serving import service, serving
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.every_case]


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Staff]:
    async with FakeSlack(our_app()) as slack:
        yield Staff.of(slack, tmp_path / "tools.log")


def cut_wake_ups(tx: Tx) -> None:
    of_it = "datname = current_database() AND (query LIKE 'LISTEN %' OR query LIKE 'SELECT pg_notify(%')"
    cut = tx.all(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {of_it}")
    assert cut, "it had a connection for wake-ups"


async def seems_away(url: str) -> None:
    """Removes what might tell others that a process serves the store."""
    path = sqlite_path(url) if url.startswith("sqlite") else None
    if path is not None:
        path.with_name(f"{path.name}.lock").unlink()
        return
    database = await Database.open(url, read_only=True)
    await database.read(cut_wake_ups)
    await database.close()


async def test_the_call_that_it_runs_does_not_run_again(at: Staff, database_url: str, tmp_path: Path) -> None:
    async with replicas(at, database_url, tmp_path) as (first, second):
        await first.starts()
        card = await at.ask('redo {"on": "x"}')
        await at.bob.clicks(card, "Approve")
        await first.until(until(at.ran))
        await seems_away(database_url)
        await second.joins()
        # This is due later, so whoever takes it has passed over the call.
        await at.ann.says('@adk-confirm note {"text": "hello"}', at.deploys)
        await until(lambda: len(at.ran()) > 1)
        assert [line["tool"] for line in at.ran()] == ["begins", "note"]

        (tmp_path / "gate").touch()
        await at.sees(card, "Done: Redo")
        for one in (first, second):
            await one.stops()
    assert [line["tool"] for line in at.ran()] == ["begins", "note", "redo"]


async def test_what_a_stop_cannot_end_runs_alone_until_its_process_is_gone(
    at: Staff, postgres_url: str, tmp_path: Path
) -> None:
    """A tool's thread can't be cancelled. It goes on after its run was."""
    given = at.slack, postgres_url, tmp_path, POLICY
    async with service(*given) as first, serving(*given) as second:
        await first.starts()
        card = await at.ask('tends {"on": "x"}')
        await at.bob.clicks(card, "Approve")
        await until(at.ran)
        await second.starts()
        await first.stops()
        await second.until(until(lambda: len(at.ran()) > 1))
        (tmp_path / "gate").touch()
        await at.sees(card, "Done: Tends")
        await second.stops()
    assert [line["tool"] for line in at.ran()] == ["begins", "begins", "sleeps", "tends"]
