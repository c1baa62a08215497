"""What somebody sees after they submit a form: nothing if the card shows the result, otherwise a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.sandbox.methods.call import CallRecord
from tests.support.office import Office, office

TWO = """
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]
quorum = 2
"""


async def test_a_form_that_counts_closes_and_the_card_shows_it(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(sqlite_url, tmp_path / "tools.log", monkeypatch, TWO) as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.bob.clicks(card, "Edit…")
        form = await at.bob.gets_modal("Edit")
        await form.submits({"amount": 1200})
        redrawn = await at.cyd.finds("Approved by bob · Needs 1 more approval", at.deploys, thread=card)
        assert "amount 1,500 → 1,200" in redrawn
        assert redrawn.text.startswith("Reimburse €1,200 for the team dinner?")
        assert not form.is_open()

        await at.cyd.clicks(redrawn, "Deny…")
        await (await at.cyd.gets_modal("Deny")).submits({"Reason": "too much"})
        await at.cyd.finds("Denied: Reimburse", at.deploys, thread=card)
        await at.rests()
        assert at.cyd.modal() is None
        assert not at.slack.calls_of("chat.postEphemeral")


async def test_a_form_that_comes_too_late_says_so_in_its_place(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(sqlite_url, tmp_path / "tools.log", monkeypatch, TWO) as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.bob.clicks(card, "Deny…")
        form = await at.bob.gets_modal("Deny")
        await at.cyd.clicks(card, "Deny…")
        await (await at.cyd.gets_modal("Deny")).submits()
        await at.bob.finds("Denied:", at.deploys, thread=card)

        await form.submits({"Reason": "too much"})

        await at.bob.gets_modal("You are too late")
        await at.rests()
        assert updates(at) == [], "the answer to the form said it"


async def test_who_may_not_hears_so_when_they_press_and_fills_nothing_in(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(sqlite_url, tmp_path / "tools.log", monkeypatch, TWO) as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.ann.clicks(card, "Approve")  # who asked: from here on it is known who they are
        await (await at.ann.gets_modal("somebody else has to")).closes()
        await at.ann.clicks(card, "Edit…")
        await (await at.ann.gets_modal("somebody else has to")).closes()
        await at.oscar.clicks(card, "Withdraw…")
        await at.oscar.gets_modal("Only the person who asked")
        await at.rests()
        assert not at.slack.calls_of("chat.postEphemeral"), "it is said in the window alone"
        assert at.ran() == []


def updates(at: Office) -> list[CallRecord]:
    return at.slack.calls_of("views.update")


async def test_windows_name_people_as_their_cards_do(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(sqlite_url, tmp_path / "tools.log", monkeypatch, TWO) as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.bob.clicks(card, "Approve")
        card = await at.cyd.finds("Approved by bob · Needs 1 more approval", at.deploys, thread=card)
        for button, words in (
            ("History", "bob approved reimburse: 1 of 2 approvals."),
            ("See everything", "Asked by ann through oncall"),
            ("See everything", "Approved by bob · Needs 1 more approval from @oncall or @lead"),
        ):
            await at.cyd.clicks(card, button)
            window = await at.cyd.gets_modal(words)
            assert "@bob" not in window
            assert "@ann" not in window
            await window.closes()
