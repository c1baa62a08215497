"""The card is the call: what it shows is what the tool gets, and a policy decides about that."""

from __future__ import annotations

import pytest

from tests.support.office import LAB, Office

POLICIES = """
[[policy]]
tools = ["delete_project"]
when = "args.force == true"
approvers = ["user:U0LEAD"]

[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL"]
"""


@pytest.mark.office(POLICIES, target=LAB)
async def test_a_model_can_neither_invent_reassuring_arguments_nor_choose_its_policy(at: Office) -> None:
    phantoms = '"dry_run": true, "environment": "staging", "confirmed_by": "lead"'
    first = await at.ann.says(
        f'@adk-confirm delete_project {{"project": "payments", "force": "yes", {phantoms}}}', at.deploys
    )
    told = await at.sees(first, "confirmed_by: is not an argument")
    assert "dry_run: is not an argument (there are: force, project, recursive)" in told
    assert "environment: is not an argument" in told
    await at.rests()
    assert at.offers(first) == []

    await at.ann.says('@adk-confirm delete_project {"project": "payments", "force": "yes"}', at.deploys, thread=first)
    card = await at.sees(first, "Delete payments, recursive yes")
    given, default = card.text.split("The tool's defaults:")
    assert "force yes" in given
    assert "recursive yes" in default
    assert "*Needs 1 approval* from @lead" in card, "the stricter policy decides"

    await at.refuses(at.bob, card, "Approve", "you are not an approver")
    await at.lead.clicks(card, "Approve")
    await at.sees(first, ", done")
    [ran] = at.ran()
    assert (ran["project"], ran["recursive"], ran["force"]) == ("payments", True, True)


@pytest.mark.office(POLICIES, target=LAB)
async def test_a_default_can_be_edited_and_is_then_a_choice(at: Office) -> None:
    card = await at.ask('delete_project {"project": "payments"}')
    assert "recursive yes" in card.text.split("The tool's defaults:")[1]
    await at.bob.clicks(card, "Edit…")
    form = await at.bob.gets_modal("Edit")
    await form.submits({"recursive": "no"})
    await at.sees(card, ", done")
    await at.rests()  # the thread may tell of it before the card is drawn
    [ran] = at.ran()
    assert (ran["project"], ran["recursive"], ran["force"]) == ("payments", False, False)
    shown = at.ann.now(card).text
    assert "recursive yes → no" in shown


LONG = """
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL"]
grant = "30m"
grant_on = []
"""


@pytest.mark.office(LONG, target="tests.support.leaky:agent")
async def test_a_call_that_no_view_can_hold_is_refused_and_a_shorter_one_is_shown_whole(at: Office) -> None:
    """Also when a grant would let it through unseen."""
    said = await at.ann.says("@adk-confirm unlock 9000", at.deploys)
    told = await at.sees(said, "It can't be shown, so nobody can approve it.")
    assert "The call is too long for a window in Slack. Ask the agent for less in one call." in told
    await at.sees(said, "too long for a window in Slack. Send less in one call")
    card = await at.ask("unlock 5800")
    await at.bob.clicks(card, "Allow more")
    form = await at.bob.gets_modal("Approve")
    assert str(form).replace("\n", "").count("@headers") == 5800
    await form.submits()
    await at.sees(card, "Done: Unlock")

    await at.ann.says("@adk-confirm unlock 9000", at.deploys, thread=card)
    await at.sees(card, "It can't be shown, so nobody can approve it.")
