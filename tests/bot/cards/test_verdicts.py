"""What somebody reads after they submitted a form: what became of their word, with the numbers of their own call."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bot.sandbox.methods.call import Made
from tests.support.office import Office, office

TWO = """
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]
quorum = 2
"""


async def test_the_verdict_names_the_call_the_revision_and_the_votes(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(sqlite_url, tmp_path / "tools.log", monkeypatch, TWO) as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.bob.clicks(card, "Edit…")
        form = await at.bob.gets_modal("Edit")
        await form.submits({"amount": 1200})
        told = await at.bob.gets_modal("revision 2")
        assert "Your edit is revision 2 and counts as your approval: 1 of 2 approvals." in told

        redrawn = await at.cyd.finds("Edited by", at.deploys, thread=card)
        await at.cyd.clicks(redrawn, "Deny")
        form = await at.cyd.gets_modal("Deny")
        await form.submits({"Reason": "too much"})
        assert "You denied reimburse." in await at.cyd.gets_modal("You denied")


async def test_a_verdict_that_is_quicker_than_slack_stands_there_in_the_end(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack takes the ack, and its "Counting…", only after the verdict."""
    async with office(sqlite_url, tmp_path / "tools.log", monkeypatch, TWO) as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.bob.clicks(card, "Deny")
        form = await at.bob.gets_modal("Deny")
        at.slack.gestures.takes_answers.clear()
        submitting = asyncio.create_task(form.submits({"Reason": "too much"}))
        await at.bob.gets_modal("You denied reimburse.")

        at.slack.gestures.takes_answers.set()
        await submitting
        await at.slack.until(lambda: [call for call in updates(at) if call.error == "hash_conflict"] or None)
        await at.slack.until(lambda: updates(at)[-1].error == "" or None)
        await at.bob.gets_modal("You denied reimburse.")


async def test_who_has_read_the_verdict_and_closed_it_is_not_told_again(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(sqlite_url, tmp_path / "tools.log", monkeypatch, TWO) as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.bob.clicks(card, "Deny")
        form = await at.bob.gets_modal("Deny")
        at.slack.gestures.takes_answers.clear()
        submitting = asyncio.create_task(form.submits({"Reason": "too much"}))
        await (await at.bob.gets_modal("You denied reimburse.")).closes()

        await at.slack.until(lambda: updates(at)[-1].error or None)
        at.slack.gestures.takes_answers.set()
        await submitting
        await at.rests()
        assert "You denied reimburse." not in at.bob.sees(at.deploys)


def updates(at: Office) -> list[Made]:
    return at.slack.calls_of("views.update")
