"""PostgreSQL is gone for a few seconds: work continues as soon as it is back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.office import LAB, POLICY, Office, office
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.scratch import SCRATCH
from tests.support.waiting import until

pytestmark = pytest.mark.slow

SOON = 15.0
"""The promise is five seconds, on a machine that has nothing else to do."""


@asynccontextmanager
async def away(server: PostgresServer, seconds: float) -> AsyncIterator[None]:
    await asyncio.to_thread(server.goes_away, crashes=True)
    gone = time.monotonic()
    yield
    await asyncio.sleep(max(0.0, seconds - (time.monotonic() - gone)))
    await asyncio.to_thread(server.comes_back)


@pytest.fixture
async def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Office, PostgresServer]]:
    monkeypatch.setenv("LAB_GATE", str(tmp_path / "gate"))
    with postgres_server(SCRATCH) as server, server.database() as url:
        async with office(url, tmp_path / "log", monkeypatch, POLICY, target=LAB) as at:
            yield at, server


@pytest.mark.parametrize("seconds", [1, 4])
async def test_sessions_go_on_soon_after_it_is_back(
    on: tuple[Office, PostgresServer], tmp_path: Path, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    """One in which the agent thinks, one in which a tool runs, one that is about to run. The log says it once."""
    at, server = on
    works, waits = await at.ask('work {"on": "it"}'), await at.ask('pay {"to": "Ada", "amount": 20}')
    await at.bob.clicks(works, "Approve")
    await until(at.ran)
    thinks = await at.ann.says("@adk-confirm think about it", at.deploys)
    await until((tmp_path / "thinks").exists)
    async with away(server, seconds):
        clicking = asyncio.create_task(at.bob.clicks(waits, "Approve"))
        (tmp_path / "gate").touch()
    back = time.monotonic()
    await clicking
    await at.ann.finds("You said: think about it", at.deploys, thread=thinks, timeout=60)
    await at.ann.finds("Done: Work", at.deploys, thread=works, timeout=60)
    if "Approve" in at.bob.now(waits).buttons:  # it came too late for Slack
        await at.bob.clicks(at.bob.now(waits), "Approve")
    await at.ann.finds("Done: Pay", at.deploys, thread=waits, timeout=60)
    took = time.monotonic() - back
    assert took < SOON, took
    assert sorted(str(line["tool"]) for line in at.ran()) == ["begins", "pay", "work"]
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    for once in ("is asked again until it does", "wake-ups broke", "Leases could not be renewed"):
        assert sum(once in one for one in warned) <= 1, warned
