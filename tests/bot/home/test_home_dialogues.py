"""The Home tab, `/approvals`, and a card's history."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from adk_confirm.bot.confirmation.confirmation import Confirmation
from adk_confirm.bot.confirmation.decision import open_confirmation
from adk_confirm.bot.confirmation.stored_json import from_json
from adk_confirm.bot.store.repository import chain_of, read_session, save
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import Tx
from tests.support import lab
from tests.support.office import LAB, ONE, PAY, Office

TWO = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL", "user:U0LEAD"]\nquorum = 2\n'


async def test_a_home_is_drawn_when_it_is_opened_and_once_ones_own_vote_there_is_counted(at: Office) -> None:
    await at.bob.opens_home("Nothing waits for you.")
    await at.ask("reimburse 1500 for the team dinner")
    await at.rests()
    assert "Nothing waits for you." in str(at.bob.home())
    home = await at.bob.opens_home("the team dinner")

    await at.later(minutes=2)  # what the bot knew of people is old
    hang = at.slack.faults.hangs("use*", times=None)
    await home.clicks("Review…")
    await (await at.bob.gets_modal("Approve")).submits()
    await hang.reached()
    assert len(at.slack.calls_of("views.publish")) == 2
    at.slack.faults.clear("use*")

    await at.bob.sees_home("Nothing waits for you.")
    assert len(at.slack.calls_of("views.publish")) == 3


async def test_a_home_says_that_a_call_may_be_missing_if_who_decides_could_not_be_looked_up(at: Office) -> None:
    missing = "A call that waits for you may be missing here"
    at.slack.faults.refuses("usergroups.*", "missing_scope", times=None)
    await at.ask("reimburse 1500 for the team dinner")
    home = await at.bob.opens_home(missing)
    assert "Nothing waits for you" not in home
    await at.bob.commands("/approvals", "", at.deploys)
    await at.bob.finds(missing, at.deploys)
    at.slack.faults.clear()
    await at.later(minutes=2)
    assert missing not in await at.bob.opens_home("Waiting for you (1)")


@pytest.fixture
def _no_plan() -> Iterator[None]:
    lab.plan.clear()
    yield
    lab.plan.clear()


async def says_why(at: Office, why: str) -> None:
    """Home and `/approvals` say, to who decides and to others, why nobody can approve what waits."""
    home = await at.bob.opens_home("Waiting for you (1)")
    assert why in home
    assert home.buttons == ("Review…",)
    assert why in await at.ann.opens_home("You asked for")
    for person, title in ((at.bob, "Waiting for you (1)"), (at.oscar, "Waiting in this channel (1)")):
        await person.commands("/approvals", "", at.deploys)
        assert why in (await person.finds(title, at.deploys)).text


@pytest.mark.usefixtures("_no_plan")
@pytest.mark.office(ONE, target=LAB)
async def test_while_it_is_looked_up_what_an_edit_does_lists_say_that_it_can_be_approved_after_that(
    at: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_GATE", str(tmp_path / "gate"))
    card = await at.ask('migrate {"table": "users"}')
    await at.edits(at.cyd, card, table="slow")
    why = "The edited call gets its plan. It can be approved after that."
    await at.sees(card, why)
    await says_why(at, why)


@pytest.mark.usefixtures("_no_plan")
@pytest.mark.office(ONE, target=LAB)
async def test_lists_say_that_nobody_can_approve_a_call_whose_preview_failed_and_why(at: Office) -> None:
    lab.plan["shows"] = ConnectionError("no route to the database")
    said = await at.ann.says('@adk-confirm migrate {"table": "users"}', at.deploys)
    why = ": its plan failed. Edit it to try again, or deny it. The reason: ConnectionError: no route to the database"
    await at.sees(said, why)
    await says_why(at, why)


async def test_what_home_opens_has_everything_and_deny(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    home = await at.bob.opens_home("Reimburse €1,500")

    await home.clicks("Review…")
    review = await at.bob.gets_modal("Approve")
    assert "Needs 1 approval" in review
    assert "1500" in review
    await review.clicks("Deny…")
    await (await at.bob.gets_modal("The agent reads this")).submits({"Reason": "too dear"})

    await at.bob.sees_home("Nothing waits for you.")
    await at.ann.finds("Denied: Reimburse", at.deploys, thread=card)
    assert at.bob.modal() is None
    assert at.ran() == []


async def test_a_home_shows_the_twenty_most_urgent_and_counts_the_others(at: Office) -> None:
    await at.ask("reimburse 1500 for the team dinner")
    await at.bot.database.run(multiplied, 30)

    home = await at.bob.opens_home("Waiting for you (31)")

    assert "and 11 more" in home
    shown = re.findall(r"Reimburse €1,5(\d\d)", home.text)
    assert shown == [str(number) for number in range(30, 10, -1)], "those that were asked last expire first"
    assert home.buttons.count("Review…") == 20
    assert at.slack.calls_of("views.publish")[-1].args["user_id"] == at.bob.id


def multiplied(tx: Tx, times: int) -> None:
    """As if more had been asked so often, each time a euro more and due a minute earlier."""
    row = from_json(Confirmation, tx.value("SELECT body FROM bot_confirmations"))
    session = read_session(tx, chain_of(row.asked.session))
    for number in range(1, times + 1):
        arguments: JsonObject = {**row.asked.arguments, "amount": 1500 + number}
        asked = replace(row.asked, request_id=f"again-{number}", arguments=arguments)
        change = open_confirmation(f"again{number}", asked, row.policy, row.asked_at)
        drawn = tuple(replace(place, drawn_version=99) for place in row.places)
        due = row.deadline - timedelta(minutes=number)
        save(tx, session, replace(change, row=replace(change.row, places=drawn, deadline=due)), new=True)


@pytest.mark.office(TWO)
async def test_after_my_vote_it_waits_for_others_only(at: Office) -> None:
    card = await at.ask("deploy checkout 2.4.1 to prod")
    home = await at.bob.opens_home("Deploy checkout")
    await home.clicks("Review…")
    await (await at.bob.gets_modal("Approve")).submits()
    await at.bob.sees_home("Nothing waits for you.")

    home = await at.lead.opens_home("1 of 2")
    await home.clicks("Review…")
    await (await at.lead.gets_modal("Approve")).submits()
    await at.ann.finds("Done: Deploy", at.deploys, thread=card)
    assert len(at.ran()) == 1

    for one in (at.bob, at.lead):
        assert "Decided by you" in await one.opens_home(" · done")
    assert "Decided by you" not in await at.ann.opens_home("You asked for")


@pytest.mark.office(TWO, target=LAB)
async def test_whoever_approved_what_another_denied_did_not_deny_it(at: Office) -> None:
    card = await at.ask(PAY)
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "approved by bob")
    await at.denies(at.lead, at.lead.now(card), "Not before Friday")
    await at.sees(card, "Denied by lead")
    await at.bob.opens_home(" · denied · you approved ")
    assert " · denied · " not in await at.lead.opens_home(" · you denied ")


@pytest.mark.office(ONE, target=LAB)
async def test_whoever_edited_and_did_not_approve_did_not_decide(at: Office) -> None:
    said = await at.ann.says('@adk-confirm migrate {"table": "users"}', at.deploys)
    card = await at.bob.finds("Migrate users", at.deploys, thread=said)
    await at.edits(at.bob, card, table="orders")
    await at.sees(said, "Plan, changed by the edit")
    await at.cyd.clicks(at.cyd.now(card), "Approve")
    await at.sees(said, "Approved by cyd")
    assert "Decided by you" not in await at.bob.opens_home("Nothing waits for you.")


async def test_approvals_lists_to_one_person_what_waits_for_them_and_here(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")

    await at.bob.commands("/approvals", "", at.deploys)
    listed = await at.bob.finds("Waiting for you (1)", at.deploys)
    assert listed.ephemeral
    assert listed.buttons == ("Review…",)
    await at.oscar.commands("/approvals", "", at.deploys)
    others = await at.oscar.finds("Waiting in this channel (1)", at.deploys)
    assert others.buttons == ()
    await at.oscar.commands("/approvals", "help", at.deploys)
    assert (await at.oscar.finds("Only you see it", at.deploys)).ephemeral
    for word in ("history", "withdraw"):
        await at.oscar.commands("/approvals", word, at.deploys)
        await at.oscar.finds(f"/approvals does not know {word}: it is in the ⋯ menu of the card.", at.deploys)

    await at.bob.clicks(listed, "Review…")
    await (await at.bob.gets_modal("Approve")).submits()

    await at.ann.finds("Done: Reimburse", at.deploys, thread=card)
    await at.bob.finds("Nothing waits for you.", at.deploys)
    await at.rests()
    assert at.bob.now(listed).buttons == ()
    assert len(at.ran()) == 1
