"""A note that goes with an approval: thread, audit and agent have it."""

from __future__ import annotations

import json

import pytest

from adk_confirm.runtime.calls.turn import APPROVERS_NOTE
from tests.support.office import LAB, Office

OPTIONAL = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL"]\nredact = ["token"]\napprove_note = "optional"\n'
REQUIRED = OPTIONAL.replace("optional", "required")


@pytest.mark.office(OPTIONAL, target=LAB)
async def test_approve_stays_one_press_and_the_menu_has_a_note(at: Office) -> None:
    card = await at.ask('delete_project {"project": "old"}')
    await at.bob.clicks(card, "Approve")
    await at.sees(card, ", done")

    card = await at.ask('delete_project {"project": "payments"}')
    await at.bob.clicks(card, "Approve with a note…")
    form = await at.bob.gets_modal("Approve")
    assert "The thread and the audit show it." in form.text
    await form.submits({"Note": "Backed up first. <!channel>"})
    await at.sees(card, "Backed up first. <!channel>", ", done")
    found = "SELECT content FROM bot_ledger WHERE kind = 'approval'"
    [_, line] = map(json.loads, await at.bot.database.read(lambda tx: tx.column(found)))
    assert line["reason"] == "Backed up first. <!channel>"
    bodies = await at.bot.database.read(lambda tx: tx.column("SELECT body FROM runtime_events ORDER BY session, seq"))
    [read] = [body for body in bodies if APPROVERS_NOTE in body and "functionResponse" in body]
    assert json.loads(read)["content"]["parts"][0]["functionResponse"]["response"] == {
        "did": "delete_project",
        APPROVERS_NOTE: "Backed up first. <!channel>",
    }


@pytest.mark.office(REQUIRED, target=LAB)
async def test_without_a_note_that_is_required_nothing_is_approved(at: Office) -> None:
    card = await at.ask('delete_project {"project": "payments"}')
    assert "Approve" not in card.buttons
    await at.bob.clicks(card, "Approve…")
    form = await at.bob.gets_modal("Approve")
    await form.submits({"Note": "  "})
    assert form.errors == {"Note": "Write a note: the policy asks for one."}
    await form.submits({"Note": "Agreed with lead."})
    await at.sees(card, "Agreed with lead.", ", done")
    assert len(at.ran()) == 1
