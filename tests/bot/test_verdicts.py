"""What somebody reads after they submitted a form: what became of their word, with the numbers of their own call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.office import office

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
