"""Where a card is posted, and who is told about it."""

from __future__ import annotations

import re

import pytest

from adk_confirm.sandbox.people.seen import Seen
from tests.support.office import LAB, ONE, PAY, Office, Opens


def in_channel(at: Office) -> list[Seen]:
    """What the channel shows outside its threads."""
    seen = at.ann.messages(at.deploys)
    return [one for one in seen if not one.message.is_reply or one.message.subtype == "thread_broadcast"]


@pytest.mark.office(ONE, target=LAB)
async def test_a_card_in_a_thread_is_also_shown_in_the_channel(at: Office) -> None:
    card = await at.ask(PAY)
    assert [one.ts for one in in_channel(at)] == [card.thread, card.ts]
    await at.rests()
    (event,) = [made for made in at.slack.deliveries if "thread_broadcast" in str(made.body)]
    assert (await at.slack.repeats(event)).acked

    await at.bob.clicks(card, "Approve")
    done = await at.sees(card, "Done: Pay")
    await at.rests()

    assert in_channel(at)[-1].ts == done.ts == card.ts
    assert at.ann.sees(at.deploys).count('pay: {"did":"pay"}') == 1
    assert "You said" not in at.ann.sees(at.deploys), "the card is nobody's words"


@pytest.mark.parametrize("where", ["thread", "channel"])
async def test_a_policy_says_where_its_cards_stand(open_office: Opens, where: str) -> None:
    async with open_office(f'{ONE}card = "{where}"\n', target=LAB) as at:
        said = await at.ann.says(f"@adk-confirm {PAY}", at.deploys)
        card = await at.ann.finds("Pay: ", at.deploys)
        assert (card.thread == said.ts) == (where == "thread")
        assert [one.ts for one in in_channel(at)] == ([said.ts] if where == "thread" else [said.ts, card.ts])
        if where == "channel":
            await at.sees(said, "The card for Pay: Ada, amount 20 is in #deploys")

        await at.bob.clicks(card, "Approve")
        await at.sees(said, "Approved by bob.")
        await at.slack.until(lambda: "Done: Pay" in at.ann.now(card) or None)


@pytest.mark.parametrize("where", ["both", "thread", "channel"])
async def test_who_is_refused_hears_it_once_in_a_window_or_beside_the_card(open_office: Opens, where: str) -> None:
    """Slack does not say whether a card that the thread and the channel show was pressed in the one or in the other."""
    async with open_office(f'{ONE}card = "{where}"\n', target=LAB) as at:
        card = await at.ask(PAY) if where != "channel" else await asked_in_channel(at)
        await at.oscar.clicks(card, "Approve")
        (await at.oscar.gets_modal("you are not an approver")).closes()
        at.slack.faults.refuses("views.open", "expired_trigger_id")
        await at.oscar.clicks(card, "Approve")
        await at.slack.until(lambda: at.slack.calls_of("chat.postEphemeral") or None)
        await at.rests()

        (said,) = [one for one in at.oscar.messages(at.deploys) if one.ephemeral]
        assert "you are not an approver" in said
        assert said.message.thread_ts == (card.thread if where == "thread" else "")
        assert len(at.oscar.windows) == 1


async def asked_in_channel(at: Office) -> Seen:
    await at.ann.says(f"@adk-confirm {PAY}", at.deploys)
    return await at.ann.finds("Pay: ", at.deploys)


# Who is notified


def pinged(seen: Seen) -> set[str]:
    """The people and groups that a message mentions."""
    return set(re.findall(r"<(?:@|!subteam\^)(\w+)>", f"{seen.fallback} {seen.message.blocks}"))


@pytest.mark.office(f'{ONE}remind_after = "10m"\n', target=LAB)
async def test_a_card_notifies_its_approvers_and_its_end_the_asker(at: Office) -> None:
    card = await at.ask(PAY)
    assert pinged(card) == {"S0ONCALL"}
    assert "Asked by ann" in card
    await at.later(minutes=11)
    assert pinged(await at.sees(card, "Reminder")) == {"S0ONCALL"}
    await at.bob.clicks(card, "Approve")
    assert pinged(await at.sees(card, "✅ @ann, done: Pay: Ada, amount 20. Approved by bob")) == {at.ann.id}


async def test_a_policy_says_who_is_notified_in_place_of_the_approvers(open_office: Opens) -> None:
    rules = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL", "user:U0LEAD"]\nnotify = ["user:U0CYD"]\n'
    async with open_office(f'{rules}remind_after = "10m"\n', target=LAB) as at:
        card = await at.ask(PAY)
        assert pinged(card) == {at.cyd.id}
        assert "*Needs 1 approval* from ＠oncall or lead" in card
        await at.later(minutes=11)
        assert pinged(await at.sees(card, "Reminder")) == {at.cyd.id}
        await at.lead.clicks(card, "Approve")
        await at.sees(card, "✅ @ann, done: Pay: Ada, amount 20. Approved by lead")


async def test_who_is_named_by_an_address_is_mentioned_on_the_card_and_in_a_reminder(open_office: Opens) -> None:
    rules = '[[policy]]\ntools = ["*"]\napprovers = ["email:release@example.com"]\nremind_after = "10m"\n'
    async with open_office(rules, target=LAB) as at:
        rita = at.slack.person("rita", id="U0RITA", email="release@example.com")
        card = await at.ask(PAY)
        assert pinged(card) == {rita.id}
        await at.later(minutes=11)
        assert pinged(await at.sees(card, "Reminder")) == {rita.id}


@pytest.mark.office(f"{ONE}dm = true\n", target=LAB)
async def test_each_approver_gets_a_direct_message_that_goes_with_the_decision(at: Office) -> None:
    card = await at.ask(PAY)
    for approver in (at.bob, at.cyd):
        note = await approver.finds("ann needs your approval · expires")
        assert note.text.startswith("⏳ Pay: Ada, amount 20? ")
        assert "/archives/" in str(note.message.blocks), "it leads to the card"
        assert note.buttons == ()
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "✅ @ann, done: Pay: Ada, amount 20. Approved by bob")
    await at.slack.until(lambda: not [*at.bob.messages(), *at.cyd.messages()] or None)
    assert at.lead.messages() == []
    await at.rests()


@pytest.mark.office(f"{ONE}quorum = 2\nedit = true\ndm = true\n", target=LAB)
async def test_a_direct_message_shows_the_call_as_it_was_edited(at: Office) -> None:
    card = await at.ask(PAY)
    await at.cyd.finds("amount 20? ann needs your approval")
    await at.edits(at.bob, card, amount="25")
    await at.cyd.finds("amount 25? ann needs your approval")
    assert len(at.cyd.messages()) == 1
