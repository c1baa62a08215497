"""The recipes of docs/operations.md for a restart that interrupts nothing. `tests/bot/worker/test_draining.py` has the
drain of real processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.office import LAB, ONE, Office, office, operates
from tests.support.scraping import get


async def counts_running(at: Office, url: str) -> object:
    return (await operates(at, url, "pending"))["running"]


async def test_what_runs_ends_and_what_is_approved_starts_after_the_restart(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setenv("LAB_GATE", str(gate))
    async with office(database_url, tmp_path / "log", monkeypatch, ONE, target=LAB) as at:
        works, held = await at.ask('work {"on": "it"}'), await at.ask('work {"on": "that"}')
        await at.bob.clicks(works, "Approve")
        await at.slack.until(lambda: at.ran() or None)
        await operates(at, database_url, "pause", "--reason", "an upgrade")
        await at.bob.clicks(held, "Approve")
        assert await counts_running(at, database_url) == 1
        gate.touch()
        await at.sees(works, "did")
        assert await counts_running(at, database_url) == 0
        assert [(line["tool"], line["on"]) for line in at.ran()] == [("begins", "it"), ("work", "it")]
        await at.stops()
        await at.starts(ONE)
        await operates(at, database_url, "resume")
        await at.sees(held, "did")
        assert [(line["tool"], line["on"]) for line in at.ran()][2:] == [("begins", "that"), ("work", "that")]


async def test_a_pause_while_a_decision_is_on_its_way_stops_the_start(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent has the approval already, and is looking what the call would do."""
    gate, plans = tmp_path / "gate", tmp_path / "plans"
    monkeypatch.setenv("LAB_GATE", str(gate))
    gate.touch()
    async with office(database_url, tmp_path / "log", monkeypatch, ONE, target=LAB) as at:
        card = await at.ask('migrate {"table": "slow"}')
        gate.unlink()
        plans.unlink()
        await at.bob.clicks(card, "Approve")
        await at.slack.until(plans.exists, what="the second look")
        await operates(at, database_url, "pause", "--reason", "an upgrade")
        gate.touch()
        await at.slack.until(lambda: "an upgrade" in at.bob.now(card).text, what="the card to say so")
        await at.rests()
        assert not at.ran()
        await operates(at, database_url, "resume")
        await at.sees(card, "did")
        assert [line["tool"] for line in at.ran()] == ["migrate"]


async def test_a_drain_lets_runs_end_begins_none_and_says_so(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setenv("LAB_GATE", str(gate))
    draining = f'{ONE}[serve]\ndrain = "90s"\n'
    async with office(database_url, tmp_path / "log", monkeypatch, draining, target=LAB) as at:
        works, waits = await at.ask('work {"on": "it"}'), await at.ask('pay {"to": "Ada", "amount": 20}')
        await at.bob.clicks(works, "Approve")
        await at.slack.until(lambda: at.ran() or None)
        stopping = asyncio.create_task(at.stops())
        await asyncio.sleep(0)
        await at.bob.clicks(waits, "Approve")
        await at.slack.until(lambda: "once the app has restarted." in at.bob.now(waits).text, what="the card to say so")
        await at.ann.says('@adk-confirm pay {"to": "Bob", "amount": 30}', at.deploys, thread=works)
        assert (await get(f"{at.bot.url}/readyz"))[0] == 503
        gate.touch()
        await stopping
        assert "Done" in at.bob.now(works).text
        assert [line["tool"] for line in at.ran()] == ["begins", "work"]
        assert not [one for one in at.offers(works) if "Approve" in one.buttons]
        await at.starts(ONE)
        await at.sees(waits, "did")
        await at.slack.until(
            lambda: [one for one in at.offers(works) if "Approve" in one.buttons], what="the next card"
        )
        assert "restarted" not in at.bob.now(waits).text
