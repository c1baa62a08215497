"""Reminders, escalation and expiry. The tests move the clock and wait for nothing."""

from __future__ import annotations

import pytest

from adk_confirm.bot.store.pause import pause_runs, resume_runs, switch_runs
from tests.support.office import LAB, ONE, PAY, Office, Opens


@pytest.mark.office(f'{ONE}remind_after = "10m"\n', target=LAB)
async def test_a_reminder_comes_once_and_in_its_time(at: Office) -> None:
    card = await at.ask(PAY)
    await at.later(minutes=9)
    await at.rests()
    assert "Reminder" not in at.ann.sees(at.deploys)

    await at.later(minutes=2)
    await at.ann.finds(
        "Reminder for @oncall: Pay: Ada, amount 20 has 0 of 1 approval. Expires", at.deploys, thread=card
    )
    await at.later(hours=1)
    await at.rests()
    assert at.ann.sees(at.deploys).count("Reminder") == 1

    await at.bob.clicks(at.bob.now(card), "Approve")
    await at.ann.finds("Done: Pay", at.deploys, thread=card)
    past = await at.ann.finds("⏰ Reminded @oncall of Pay: Ada, amount 20, ", at.deploys, thread=card)
    assert "Reminder for" not in at.ann.sees(at.deploys)
    assert "/archives/" not in str(past.message.blocks)


async def test_escalation_lets_others_decide_from_then_on(open_office: Opens) -> None:
    rules = f'{ONE}escalate_after = "20m"\nescalate_to = ["user:U0LEAD"]\n'
    async with open_office(rules, target=LAB) as at:
        card = await at.ask(PAY)
        await at.lead.clicks(card, "Approve")
        said = await at.lead.gets_modal("you are not an approver. @oncall can now, @lead from")
        assert "Withdraw…" not in said.buttons

        await at.later(minutes=21)
        line = await at.ann.finds("is escalated to @lead, who may decide as well", at.deploys, thread=card)
        assert line.thread == card.thread
        await at.ann.finds("escalated to @lead", at.deploys, thread=card)
        assert at.lead.messages() == []  # the channel is public: lead sees the card there

        await at.lead.clicks(at.lead.now(card), "Approve")
        await at.ann.finds("Done: Pay", at.deploys, thread=card)
        await at.ann.finds("⏫ Escalated Pay: Ada, amount 20 to @lead, ", at.deploys, thread=card)
        assert "may decide as well" not in at.ann.sees(at.deploys)


async def test_who_can_not_see_the_channel_gets_the_escalated_card_as_a_direct_message(open_office: Opens) -> None:
    rules = f'{ONE}escalate_after = "20m"\nescalate_to = ["group:S0LEADS"]\n'
    async with open_office(rules, target=LAB) as at:
        zoe = at.slack.person("zoe", id="U0ZOE")
        at.slack.group("leads", at.lead, zoe, id="S0LEADS")
        secret = at.slack.channel("secret", at.ann, at.bob, at.lead, private=True)
        said = await at.ann.says(f"@adk-confirm {PAY}", secret)
        card = await at.ann.finds("Approve", secret, thread=said)

        await at.later(minutes=21)
        hers = await zoe.finds("Approve")
        assert "to Ada" in hers
        await at.rests()
        assert at.lead.messages() == []

        await zoe.clicks(hers, "Approve")
        done = await zoe.finds("Done: Pay")
        assert done.ts == hers.ts
        assert done.buttons == ("All details", "History")
        await at.ann.finds("Done: Pay", secret, thread=said)
        await at.rests()
        assert at.ann.now(card).buttons == ("All details", "History")
        assert len(at.ran()) == 1


@pytest.mark.office(f'{ONE}quorum = 2\nexpires_after = "1h"\n')
async def test_an_expiry_says_so_on_the_card_in_the_thread_and_to_the_agent(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.bob.clicks(card, "Approve")
    await at.ann.finds("Needs 1 more", at.deploys, thread=card)

    await at.later(minutes=61)

    expired = await at.ann.finds("with 1 of 2 approvals. It", at.deploys, thread=card)
    assert expired.ts == card.ts
    assert expired.buttons == ("All details", "History", "Ask again")
    await at.ann.finds("expired with 1 of 2 approvals: ", at.deploys, thread=card)
    await at.ann.finds("The reason: nobody decided within 1h.", at.deploys, thread=card)
    await at.cyd.clicks(card, "Approve", stale=True)
    await at.cyd.gets_modal(". Expired")
    assert at.ran() == []


@pytest.mark.office(f'{ONE}expires_after = "1h"\n', target=LAB)
async def test_a_vote_stored_before_the_deadline_counts_though_it_is_counted_after(at: Office) -> None:
    card = await at.ask(PAY)
    slow = at.slack.faults.hangs("users.info")
    await at.later(minutes=59)
    made = await at.bob.clicks(card, "Approve")
    assert made.acked
    await slow.reached()

    await at.later(minutes=10, meanwhile=True)
    await at.cyd.clicks(card, "Approve")  # too late, though nobody has said so yet
    slow.release()

    await at.ann.finds(". Approved by bob", at.deploys, thread=card)
    await at.ann.finds("Done: Pay", at.deploys, thread=card)
    await at.cyd.gets_modal("You are too late")
    assert len(at.ran()) == 1


@pytest.mark.office(f'{ONE}start_within = "15m"\n', target=LAB)
async def test_an_approval_that_can_not_begin_in_time_lapses(at: Office) -> None:
    card = await at.ask(PAY)
    await switch_runs(at.bot.database, pause_runs)
    await at.bob.clicks(card, "Approve")
    paused = await at.ann.finds("Paused: Pay", at.deploys, thread=card)
    assert paused.buttons == ("All details", "History")

    await at.later(minutes=16)

    lapsed = await at.ann.finds("Not started in time: Pay", at.deploys, thread=card)
    assert lapsed.buttons == ("All details", "History", "Ask again")
    await switch_runs(at.bot.database, resume_runs)
    await at.later(minutes=1)
    await at.ann.finds("not started in time: Pay: Ada, amount 20. Approved by bob", at.deploys, thread=card)
    await at.ann.finds("did not start within 15m", at.deploys, thread=card)
    await at.rests()
    assert at.ran() == []


@pytest.mark.office(ONE, target=LAB)
async def test_what_waits_in_a_pause_begins_when_it_ends(at: Office) -> None:
    card = await at.ask(PAY)
    await switch_runs(at.bot.database, pause_runs)
    await at.bob.clicks(card, "Approve")
    await at.ann.finds("Paused: Pay", at.deploys, thread=card)

    await switch_runs(at.bot.database, resume_runs)
    due = "SELECT count(*) FROM jobs WHERE kind = 'session' AND due_at > :now"
    assert await at.bot.database.run(lambda tx: tx.value(due, now=tx.now() + 1.0)) == 0
    await at.ann.finds("Done: Pay", at.deploys, thread=card)


@pytest.mark.office(ONE, target=LAB)
async def test_after_a_day_without_a_word_the_agent_is_told_that_nobody_knows(at: Office) -> None:
    card = await at.ask('loses {"what": "in the middle"}')
    await at.bob.clicks(card, "Approve")
    asks = await at.ann.finds("Did this take effect? Loses", at.deploys, thread=card)
    assert asks.buttons == ("All details", "History", "Yes, it did", "No, it didn't", "Run again…")
    await at.later(hours=23)
    await at.rests()
    assert at.ann.now(card).buttons == asks.buttons

    await at.later(hours=1, minutes=1)

    settled = await at.ann.finds("Outcome unknown: Loses", at.deploys, thread=card)
    assert settled.buttons == ("All details", "History")
    await at.ann.finds("Nobody knows whether Loses in the middle took effect", at.deploys, thread=card)
    await at.ann.finds("Nobody knows whether it took effect", at.deploys, thread=card)
    await at.bob.clicks(asks, "Yes, it did", stale=True, sure=True)
    await at.bob.gets_modal("This has already been answered")


def unknown(at: Office) -> list[str]:
    """What the thread says of attempts that ended in the unknown."""
    return [one.text for one in at.ann.messages(at.deploys) if "did this take effect?" in one]


@pytest.mark.office(f"{ONE}quorum = 2\n", target=LAB)
async def test_a_word_on_an_unknown_outcome_needs_a_fresh_quorum_to_run_again(at: Office) -> None:
    card = await at.ask('loses {"what": "in the middle"}')
    await at.bob.clicks(card, "Approve")
    await at.ann.finds("Needs 1 more", at.deploys, thread=card)
    await at.cyd.clicks(at.cyd.now(card), "Approve")
    asks = await at.ann.finds("Did this take effect? Loses", at.deploys, thread=card)

    await at.bob.clicks(asks, "Run again…", sure=True)
    await at.ann.finds("*1 of 2 votes to run it again*: bob", at.deploys, thread=card)
    await at.rests()
    assert len(unknown(at)) == 1, "one vote of two does not run it again"
    await at.cyd.clicks(at.cyd.now(card), "Run again…", sure=True)

    await at.slack.until(lambda: len(unknown(at)) == 2 or None)
    again = await at.ann.finds("Attempt 2", at.deploys, thread=card)
    assert "Did this take effect? Loses" in again
    await at.bob.clicks(again, "No, it didn't", sure=True)
    await at.ann.finds("It did not take effect: people looked", at.deploys, thread=card)
