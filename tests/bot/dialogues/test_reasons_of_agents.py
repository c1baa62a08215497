"""Why an agent makes a call, in its own words: on the card, marked as such, and never in the tool."""

from __future__ import annotations

import pytest

from tests.support.office import BOTH_WAYS, LAB, ON_SQLITE, ONE, Office

ASKED = '[[policy]]\ntools = ["delete_project"]\napprovers = ["group:S0ONCALL"]\nreason = true\nredact = ["token"]\n'


pytestmark = ON_SQLITE


@BOTH_WAYS
@pytest.mark.office(ASKED + ONE, target=LAB)
async def test_it_is_on_the_card_as_the_agents_words_and_the_tool_does_not_get_it(at: Office) -> None:
    card = await at.ask('delete_project {"project": "old", "why": "Nobody has used it. <!channel> *now*"}')
    assert "Nobody has used it. <!channel> *now*\n— the agent" in card.text
    assert card.text.startswith("Delete old, recursive yes?"), "it is never the headline"
    await at.bob.clicks(card, "Approve")
    await at.sees(card, ", done")
    [ran] = at.ran()
    assert {*ran} == {"tool", "project", "recursive", "force", "call"}


@pytest.mark.office(ASKED + ONE, target=LAB)
async def test_a_long_one_is_cut_and_hides_nothing_that_runs(at: Office) -> None:
    card = await at.ask(f'delete_project {{"project": "old", "why": "{"because " * 100}"}}')
    assert "Approve" in card.buttons
    await at.bob.clicks(card, "See everything")
    shown = (await at.bob.gets_modal("All details")).text
    assert 250 < shown.count("because") * 8 <= 304


@pytest.mark.office(ONE, target=LAB)
async def test_an_agent_that_is_not_asked_can_not_slip_it_in(at: Office) -> None:
    said = await at.ann.says('@adk-confirm delete_project {"project": "old", "why": "it is fine"}', at.deploys)
    await at.sees(said, "why: is not an argument")
