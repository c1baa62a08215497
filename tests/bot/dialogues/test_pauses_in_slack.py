"""What an agent of google-adk waits for beside tool confirmations, as people in Slack see it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from tests.support.foreign.alone import ran
from tests.support.office import POLICY, Office, office
from tests.support.scraping import scrape

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself
pytest.importorskip("google.adk.workflow")

Opens = Callable[..., AbstractAsyncContextManager[Office]]


@pytest.fixture
def opens(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opens:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))

    @asynccontextmanager
    async def opened(agent: str, policies: str = POLICY, *, time_moves: bool = False) -> AsyncIterator[Office]:
        target = f"tests.support.foreign.pausing:{agent}"
        async with office(
            sqlite_url, tmp_path / "log", monkeypatch, policies, target=target, time_moves=time_moves
        ) as at:
            yield at

    return opened


async def test_a_pause_of_a_kind_that_nobody_knows_is_named(opens: Opens, caplog: pytest.LogCaptureFixture) -> None:
    async with opens("passport") as at:
        said = await at.ann.says("@adk-confirm for the border", at.deploys)
        await at.ann.finds("waits for adk_request_passport", at.deploys, thread=said)
        assert "adk_request_passport" in caplog.text
        assert at.bot.url is not None
        counted = await scrape(at.bot.url)
        assert counted.value("adk_confirm_unanswered_pauses_total", kind="adk_request_passport") == 1


async def test_a_long_running_operation_that_is_pending_is_said(opens: Opens) -> None:
    async with opens("reporting") as at:
        said = await at.ann.says("@adk-confirm the quarter", at.deploys)
        await at.ann.finds("report is a long-running operation", at.deploys, thread=said)
        assert ran() == [{"tool": "report", "topic": "the quarter"}]


PAYS = """
[[policy]]
tools = ["pay"]
approvers = ["user:U0BOB"]
"""


@pytest.mark.parametrize("agent", ["function", "function_resumable", "function_signed", "tool"])
async def test_a_node_that_asks_twice_runs_once_for_each_approval(opens: Opens, agent: str) -> None:
    """Its id is the same both times."""
    async with opens(agent, PAYS) as at:
        said = await at.ann.says("@adk-confirm 1500", at.deploys)
        first = await at.ann.finds("Approve pay?", at.deploys, thread=said)
        assert "Edit…" not in first.buttons
        await at.bob.clicks(first, "Approve")
        await at.ann.finds("booked {'paid': 1500}", at.deploys, thread=said)
        await at.ann.finds("pay is done", at.deploys, thread=said)
        assert [one["tool"] for one in ran()] == ["pay", "book"]

        await at.ann.says("@adk-confirm 7", thread=said)
        second = await at.ann.finds("Approve pay?", at.deploys, thread=said)
        assert "7" in second
        await at.bob.clicks(second, "Deny")
        await (await at.bob.gets_modal("Deny")).submits({"Reason": "Too little"})
        await at.ann.finds("Denied by", at.deploys, thread=said)
        await at.ann.finds("booked {'error'", at.deploys, thread=said)
        assert [one["tool"] for one in ran()] == ["pay", "book", "book"]
