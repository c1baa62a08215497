"""Many clicks, late clicks, repeated clicks: there is one decision, and everybody learns what their click did."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.office import IN_CI_ON_BOTH, Office, Opens, withdraws

ONE = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL", "user:U0LEAD"]\n'
TWO = f"{ONE}quorum = 2\n"


pytestmark = pytest.mark.office(TWO)


@IN_CI_ON_BOTH
async def test_fifty_people_click_at_once(open_office: Opens) -> None:
    quorum = 5
    policy = f'[[policy]]\ntools = ["*"]\napprovers = ["group:S0CROWD"]\nquorum = {quorum}\n'
    async with open_office(policy) as at:
        crowd = [at.slack.person(f"voter{n}", id=f"U0VOTER{n}") for n in range(50)]
        at.slack.group("crowd", *crowd, id="S0CROWD")
        at.slack.workspace.directory.set_members(at.deploys.id, add=tuple(person.id for person in crowd))
        card = await at.ask("reimburse 1500 for the team dinner")

        made = await asyncio.gather(*(person.clicks(card, "Approve") for person in crowd))

        assert all(delivery.acked for delivery in made)
        done = await at.sees(card, "Done: Reimburse")
        decided = (await at.sees(card, ". Approved by")).text.removesuffix(".")
        names = decided.partition(" Approved by ")[2].replace(" and ", ", ").split(", ")
        counted = [person for person in crowd if person.name in names]
        assert len(counted) == quorum
        for person in set(crowd) - set(counted):
            await person.gets_modal("You are too late")
        assert done.buttons == ("All details", "History")
        await at.sees(card, "I reimbursed 1500")
        assert len(at.ran()) == 1


async def test_the_same_click_again_is_the_same_click(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    made = await at.bob.clicks(card, "Approve")
    again = await asyncio.gather(*(at.slack.repeats(made) for _ in range(5)))
    assert all(delivery.acked for delivery in again)
    await at.sees(card, "Needs 1 more")

    await at.lead.clicks(card, "Approve")
    await at.sees(card, "I reimbursed 1500")
    assert (await at.slack.repeats(made)).acked

    await at.rests()
    assert at.ann.sees(at.deploys).count(". Approved by bob and lead") == 1
    assert not at.bob.windows
    assert len(at.ran()) == 1


@pytest.mark.office
async def test_a_refused_click_that_arrives_again_is_no_further_try(at: Office) -> None:
    """At the third try the thread tells of somebody who may not decide."""
    card = await at.ask("reimburse 1500 for the team dinner")
    made = await at.oscar.clicks(card, "Approve")
    await at.oscar.gets_modal("you are not an approver")
    await at.rests()
    for _ in range(4):
        assert (await at.slack.repeats(made)).acked
    await at.rests()
    assert "oscar" not in at.ann.sees(at.deploys, thread=card)
    assert len(at.oscar.windows) == 1
    assert not any(one.ephemeral for one in at.oscar.messages(at.deploys))

    for _ in range(2):
        await at.oscar.clicks(card, "Approve")
    await at.sees(card, "oscar")


@pytest.mark.office('[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL"]\n')
async def test_a_refused_vote_that_arrives_again_stays_refused(at: Office) -> None:
    """Meanwhile whoever it is of came into the group: only a new click counts."""
    card = await at.ask("reimburse 1500 for the team dinner")
    made = await at.oscar.clicks(card, "Approve")
    await at.oscar.gets_modal("you are not an approver")
    at.slack.group("oncall", at.bob, at.oscar, id="S0ONCALL")
    await at.later(minutes=1)

    assert (await at.slack.repeats(made)).acked
    await at.rests()
    assert not at.ran()

    await at.oscar.clicks(at.oscar.now(card), "Approve")
    await at.sees(card, "Approved by oscar")


async def test_a_click_on_an_older_revision_is_not_counted(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.edits(at.bob, card, amount="1200")
    await at.sees(card, "€1,500.00 → €1,200.00")

    made = await at.lead.clicks(card, "Approve", stale=True)

    assert made.acked
    await at.lead.gets_modal("The card changed.")
    await at.rests()
    fresh = at.lead.now(card)
    assert "· approved by bob ·" in fresh
    assert at.ran() == []

    await at.lead.clicks(fresh, "Approve")
    await at.sees(card, "I reimbursed 1200")


@pytest.mark.parametrize("form", ["Edit", "Deny"])
async def test_a_form_for_an_older_revision_is_not_counted(at: Office, form: str) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.lead.clicks(card, "Edit…" if form == "Edit" else form)
    late = await at.lead.gets_modal(form)
    await at.edits(at.bob, card, amount="1200")
    await at.sees(card, "€1,500.00 → €1,200.00")

    await late.submits({"amount": "1100"} if form == "Edit" else {"Reason": "no"})

    await at.lead.gets_modal("The card changed.")
    assert at.lead.notices == []
    assert "· approved by bob ·" in at.lead.now(card)


@IN_CI_ON_BOTH
async def test_one_persons_two_clicks_at_once_are_one_vote(at: Office) -> None:
    card = await at.ask("deploy checkout 2.4.1 to prod")

    await asyncio.gather(*(at.bob.clicks(card, "Approve") for _ in range(4)))

    await at.sees(card, "· approved by bob ·")
    await at.rests()
    assert "· approved by bob ·" in at.bob.now(card)
    assert at.ran() == []


async def test_an_edit_removes_earlier_approvals_and_counts_as_one(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "· approved by bob ·")

    await at.edits(at.lead, card, amount="1200")
    edited = await at.sees(card, "· approved by @lead ·")
    fell = await at.sees(card, "@bob, decide again: lead edited")
    assert "/archives/" in str(fell.message.blocks), "it leads to the card"
    assert at.ran() == []

    await at.bob.clicks(edited, "Approve")
    await at.sees(card, "I reimbursed 1200")
    assert [line["amount"] for line in at.ran()] == [1200]


@IN_CI_ON_BOTH
@pytest.mark.office(ONE)
async def test_approve_and_deny_at_once_are_one_decision(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.cyd.clicks(card, "Deny…")
    form = await at.cyd.gets_modal("Deny")

    await asyncio.gather(at.bob.clicks(card, "Approve"), form.submits({"Reason": "too dear"}))

    await at.slack.until(lambda: "Approve" not in at.ann.now(card).buttons, what="the card to be decided")
    await at.rests()
    ran = len(at.ran())
    seen = at.ann.sees(at.deploys, thread=card)
    assert ("🚫 Denied by cyd" in seen) == (ran == 0)
    assert ("✅ @ann, done: " in seen) == (ran == 1)
    if ran:  # the form closed when it was sent, so the verdict is in a window of its own
        await at.cyd.gets_modal("is approved already")
    else:
        await at.bob.gets_modal("You are too late for ")


async def test_what_needs_no_question_waits_for_the_vote_before_it(at: Office) -> None:
    """Bob's approval waits for Slack. That ann may withdraw is known, and still her word comes second."""
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.lead.clicks(card, "Approve")
    await at.sees(card, "Needs 1 more")
    silence = at.slack.faults.hangs("users.info", times=None, where=lambda args: args.get("user") == at.bob.id)
    assert (await at.bob.clicks(card, "Approve")).acked
    await silence.reached()
    await withdraws(at.ann, card)
    silence.release()
    await at.sees(card, "I reimbursed 1500")
    await at.ann.gets_modal("You are too late")


@pytest.mark.office(f'{ONE}expires_after = "1h"\n')
async def test_a_form_that_comes_after_the_end_says_so(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    for person, button in ((at.bob, "Edit…"), (at.cyd, "Deny")):
        await person.clicks(card, button)
    edit, denial = await at.bob.gets_modal("Edit"), await at.cyd.gets_modal("Deny")

    await at.later(minutes=61)
    await at.sees(card, "⌛ @ann, nobody decided in time: ")
    await edit.submits({"amount": "1200"})
    await denial.submits({"Reason": "too dear"})

    await at.bob.gets_modal(". Expired")
    await at.cyd.gets_modal(". Expired")
    assert at.ran() == []


@pytest.mark.office(f'{ONE}expires_after = "1h"\n')
async def test_a_click_that_was_late_before_the_clock_was_looked_at_is_late(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    at.slack.clock.advance(3601)  # and the worker sleeps on

    await at.refuses(at.bob, card, "Approve", "You are too late")
    assert at.ran() == []


@pytest.mark.office(ONE)
async def test_who_lost_the_right_meanwhile_is_refused_at_the_submit(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.bob.clicks(card, "Edit…")
    form = await at.bob.gets_modal("Edit")
    at.slack.group("oncall", at.cyd, id="S0ONCALL")

    await form.submits({"amount": "1200"})

    await at.bob.gets_modal("you are not an approver")
    assert at.ran() == []
    await at.cyd.clicks(card, "Approve")
    await at.sees(card, "I reimbursed 1500")


async def test_what_slack_said_of_a_group_is_believed_for_half_a_minute_and_no_longer(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.cyd.clicks(card, "Approve")
    await at.sees(card, "Needs 1 more")
    at.slack.group("oncall", at.cyd, id="S0ONCALL")
    await at.later(seconds=30)

    await at.refuses(at.bob, card, "Approve", "you are not an approver")
    assert at.ran() == []
