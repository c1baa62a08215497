"""Accounts that change: the bot reacts at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.office import Office, office

TWO = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL", "user:U0LEAD"]\n'


@pytest.fixture
async def at(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    async with office(database_url, tmp_path / "tools.log", monkeypatch, TWO) as opened:
        yield opened


async def test_somebody_who_became_a_guest_decides_nothing_from_then_on(at: Office) -> None:
    first = await at.ask("reimburse 1500 for the team dinner")
    await at.bob.clicks(first, "Approve")
    await at.ann.finds("Done: Reimburse", at.deploys, thread=first)
    second = await at.ask("reimburse 1700 for the offsite")

    at.slack.workspace.directory.change_user(at.bob.id, is_restricted=True)
    await at.slack.settled()
    await at.bob.clicks(second, "Approve")

    await at.bob.gets_modal("Guest accounts can't decide")
    assert len(at.ran()) == 1
