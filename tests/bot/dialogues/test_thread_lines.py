"""What a thread says about a call: little, in order, and once."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from adk_confirm.bot.store.agent_status import SUSPENDED_AFTER
from adk_confirm.sandbox.people.seen import Seen
from tests.support.counting import at_most, counted_work
from tests.support.office import LAB, ONE, PAY, Office

CYCLES = 4
LOOK_UPS = ("conversations.info", "users.info", "usergroups.users.list")
"""Who people are is asked every 30 seconds at most, once for all calls that wait."""

BY_THE_CLOCK = ("claim_due", "postpone", "release", "renew", "mark_tabs_due")
"""Transactions that a slow machine makes more often."""


def posts(at: Office, thread: Seen) -> list[str]:
    """What the app says in a thread for everybody."""
    seen = at.ann.messages(at.deploys, thread=thread)
    return [one.text for one in seen if one.author == "adk-confirm" and not one.ephemeral]


def lines(at: Office, thread: Seen) -> list[str]:
    """The first line of each."""
    return [one.split("\n")[0] for one in posts(at, thread)]


@pytest.mark.office(time_moves=True)
@pytest.mark.parametrize("waits", [False, True], ids=["at once", "after a while"])
@pytest.mark.parametrize("sessions", [True, False], ids=["sessions", "no sessions"])
async def test_an_approval_is_a_card_a_line_and_the_reply_and_costs_few_calls(
    at: Office, waits: bool, sessions: bool
) -> None:
    if not sessions:
        at.slack.faults.refuses("agents.sessions.*", "unknown_method", times=None)

    async def cycle() -> Seen:
        card = await at.ask("deploy checkout 2.4.1 to prod")
        if waits:
            await at.later(seconds=SUSPENDED_AFTER + 1)
            await at.rests()
        await at.bob.clicks(card, "Approve")
        await at.sees(card, "is on prod now")
        await at.later(seconds=2)
        await at.rests()
        return card

    await cycle()  # who people are is known from here on, and whether Slack takes sessions
    before = len(at.slack.calls)
    with counted_work() as work:
        cards = [await cycle() for _ in range(CYCLES)]

    # On a slow machine the agent is shown as at work, and a call that is decided at once as suspended.
    calls = Counter(made.method for made in at.slack.calls[before:] if made.args.get("status") != "processing")
    statuses = calls["agents.sessions.setStatus"]
    if waits or not sessions:
        assert statuses == (2 * CYCLES if sessions else CYCLES if waits else 0)  # refused: tried once a wait
    scenario = "Slack calls of a cycle" + (" that waits, in an agent" if waits and sessions else "")
    at_most(scenario, sum(calls[one] for one in calls if one not in LOOK_UPS) / CYCLES)
    if not waits and not sessions:  # statuses come as time passes
        at_most("transactions of a cycle", sum(work[one] for one in work if one not in BY_THE_CLOCK) / CYCLES)
    for card in cards:
        done, *said = posts(at, card)
        assert "Done:" in done
        decided, reply = said  # never in one message: people could not tell our words from the agent's
        assert decided.startswith("✅ @ann, done: Deploy checkout 2.4.1 to prod. Approved by bob")
        assert reply == "checkout 2.4.1 is on prod now."


@pytest.mark.office(ONE, target=LAB)
async def test_what_did_not_count_is_shown_to_that_person_and_after_three_tries_once_to_all(at: Office) -> None:
    card = await at.ask(PAY)
    for count in range(1, 6):
        await at.oscar.clicks(card, "Approve")
        await at.rests()
        assert len(at.oscar.windows) == count
    await at.lead.clicks(card, "Approve")
    await at.rests()
    assert not at.slack.calls_of("chat.postEphemeral"), "it is said in the windows alone"

    assert lines(at, card)[1:] == [
        "✋ oscar tried three times to decide on Pay: Ada, amount 20, but no vote counted: the policy names others."
    ]
    refused = "SELECT count(*) FROM bot_ledger WHERE kind = 'vote refused' AND content LIKE '%U0OSCAR%'"
    assert await at.bot.database.read(lambda tx: int(tx.value(refused))) == 3


@pytest.mark.office(ONE, target=LAB)
async def test_calls_of_one_thread_are_named_in_their_lines(at: Office) -> None:
    said = await at.ann.says(f'@adk-confirm {PAY}\npay {{"to": "Bea", "amount": 30}}', at.deploys)
    ada, bea = await asyncio.gather(*(at.ann.finds(f"to {name}", at.deploys, thread=said) for name in ("Ada", "Bea")))
    await at.bob.clicks(ada, "Approve")
    await at.sees(said, "done: Pay: Ada, amount 20. Approved by bob")
    await at.denies(at.cyd, bea, "too dear")
    await at.sees(said, '"reason":"too dear"')
    await at.rests()

    lines = "\n".join(posts(at, said)[2:]).split("\n")
    assert lines[0].startswith("✅ @ann, done: Pay: Ada, amount 20. Approved by bob.")
    assert lines[1] == "🚫 @ann, denied by cyd: Pay: Bea, amount 30."
    assert lines[2].startswith("pay: ")
