"""The recipe of docs/operations.md for a restart that interrupts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.office import LAB, ONE, Office, office, operates


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
