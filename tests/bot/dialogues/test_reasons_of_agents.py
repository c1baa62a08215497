"""Why an agent makes a call, in its own words: on the card, marked as such, and never in the tool."""

from __future__ import annotations

import pytest

from adk_confirm.bot.policy.redaction import MASK
from tests.support.office import LAB, ONE, Office

ASKED = '[[policy]]\ntools = ["delete_project"]\napprovers = ["group:S0ONCALL"]\nreason = true\nredact = ["token"]\n'


@pytest.mark.office(ASKED + ONE, target=LAB)
async def test_it_is_on_the_card_as_the_agents_words_and_the_tool_does_not_get_it(at: Office) -> None:
    card = await at.ask('delete_project {"project": "old", "why": "Nobody has used it. <!channel> *now*"}')
    assert "Nobody has used it. <!channel> *now* — the agent" in card.text
    assert card.text.startswith("Delete old, recursive yes?"), "it is never the headline"
    await at.bob.clicks(card, "Approve")
    await at.sees(card, ", done")
    [ran] = at.ran()
    assert {*ran} == {"tool", "project", "recursive", "force", "call"}


@pytest.mark.office(ASKED + ONE, target=LAB)
async def test_a_long_one_is_cut_and_hides_nothing_that_runs(at: Office) -> None:
    card = await at.ask(f'delete_project {{"project": "old", "why": "{"because " * 100}"}}')
    assert "Approve" in card.buttons
    await at.bob.clicks(card, "All details")
    shown = (await at.bob.gets_modal("All details")).text
    assert 250 < shown.count("because") * 8 <= 304


@pytest.mark.office(ONE, target=LAB)
async def test_an_agent_that_is_not_asked_can_not_slip_it_in(at: Office) -> None:
    said = await at.ann.says('@adk-confirm delete_project {"project": "old", "why": "it is fine"}', at.deploys)
    await at.sees(said, "why: is not an argument")


PAID = '{"to": "Ada", "amount": 20, "token": "hunter2-hunter2"}'
HID = '[[policy]]\ntools = ["pay"]\napprovers = ["group:S0ONCALL"]\nredact = ["token"]\n'
ASKS = '[[policy]]\ninputs = ["*"]\napprovers = ["group:S0ONCALL"]\n'


@pytest.mark.office(HID + ASKED.replace('redact = ["token"]\n', "") + ASKS + ONE, target=LAB)
async def test_what_an_earlier_call_hid_is_hidden_in_what_the_agent_says_and_asks_on_later_cards(at: Office) -> None:
    """Their own policies hide nothing, and know nothing of it."""
    thread = await at.ann.says(f"@adk-confirm pay {PAID}", at.deploys)
    await at.sees(thread, "Pay: Ada")
    why = '{"project": "old", "why": "the safe opens with hunter2-hunter2"}'
    await at.ann.says(f"@adk-confirm delete_project {why}", at.deploys, thread=thread)
    await at.sees(thread, f"the safe opens with {MASK}")
    await at.ann.says('@adk-confirm survey {"topic": "hunter2-hunter2"}', at.deploys, thread=thread)
    await at.sees(thread, f"What about {MASK}?")
    await at.rests()
    posted = "".join(str(made.args) for made in at.slack.calls)
    assert "with hunter2" not in posted
    assert "about hunter2" not in posted
