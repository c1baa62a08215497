"""The reaction on the first message of a thread, if the settings want it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.sandbox.server.server import FakeSlack
from bot.sandbox.workspace.registration import App
from tests.support.office import Office, office, withdraws

PAY = 'pay {"to": "Ada", "amount": 20}'
ON = 'reactions = true\n[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL"]\n'


async def shows(at: Office, ts: str, *names: str) -> None:
    await at.slack.until(lambda: sorted(at.deploys.messages[ts].reactions) == [*names] or None, what=f"{names}")


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_first_message_shows_whether_a_call_waits_and_how_it_ended(
    allowed: bool, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scopes = App().scopes | ({"reactions:write"} if allowed else set())
    async with (
        FakeSlack(App(scopes=scopes)) as slack,
        office(database_url, tmp_path / "log", monkeypatch, ON, slack=slack, target="tests.support.lab:agent") as at,
    ):
        first, second = await at.ask(PAY), await at.ask(PAY)
        if not allowed:
            await at.bob.clicks(first, "Approve")
            await at.ann.finds("✅ Approved by bob", at.deploys, thread=first)
            return
        await shows(at, first.thread, "hourglass_flowing_sand")
        await shows(at, second.thread, "hourglass_flowing_sand")
        await at.bob.clicks(first, "Approve")
        await shows(at, first.thread, "white_check_mark")
        await withdraws(at.ann, second)
        await shows(at, second.thread, "no_entry")
