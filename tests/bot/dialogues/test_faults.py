"""Slack limits calls, fails, hangs or loses its answers at each step: the call still ends as it should.

One live card with the right face in the end, each line of the thread once and in its order, and nobody else waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import product

import pytest
from _pytest.mark import ParameterSet

from adk_confirm.bot.slack.calls import CallLimits
from adk_confirm.runtime.jsontypes import JsonObject, as_object
from adk_confirm.runtime.rest.listening import CannotServe
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.lease import topic_of
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.faults import Fault, Faults
from adk_confirm.sandbox.workspace.records import Channel
from tests.support.office import AT_ONCE, IN_CI_ON_BOTH, LAB, PAY, POLICY, Office, Opens, operates
from tests.support.stores import change_job

STORY = "✅ @ann, done: Pay: Ada, amount 20. Approved by bob"
ANSWER = 'pay: {"did":"pay"}'
QUICK = CallLimits(time_limit=0.2, posts=AT_ONCE.posts, lookups=10)

Where = Callable[[JsonObject], bool]


def marked(event: str) -> Where:
    return lambda args: event in str(args.get("metadata"))


STEPS: dict[str, tuple[str, Where | None]] = {
    "who shares the channel": ("conversations.info", None),
    "the card is posted": ("chat.postMessage", marked("confirmation_card")),
    "a line is posted": ("chat.postMessage", marked("confirmation_line")),
    "the agent's words are posted": ("chat.postMessage", marked("confirmation_said")),
    "the card is changed": ("chat.update", marked("confirmation_card")),
    "who clicked": ("users.info", None),
    "who is in the group": ("usergroups.users.list", None),
}
WRONGS: dict[str, Callable[[Faults, str, Where | None], Fault]] = {
    "is limited": lambda faults, method, where: faults.limits(method, retry_after=1, where=where),
    "fails": lambda faults, method, where: faults.fails(method, where=where),
    "fails though it is done": lambda faults, method, where: faults.fails(method, status=503, acted=True, where=where),
    "is cut off": lambda faults, method, where: faults.cuts(method, where=where),
    "is cut off though it is done": lambda faults, method, where: faults.cuts(method, acted=True, where=where),
    "hangs": lambda faults, method, where: faults.hangs(method, where=where),
    "is garbled": lambda faults, method, where: faults.garbles(method, where=where),
}
AT_EVERY_LANDING = {
    ("the card is posted", "is cut off though it is done"),
    ("the card is posted", "hangs"),
    ("a line is posted", "fails though it is done"),
    ("the agent's words are posted", "is cut off though it is done"),
    ("the card is changed", "is limited"),
    ("who is in the group", "is limited"),
}


def every_case() -> Iterator[ParameterSet]:
    for step, wrong in product(STEPS, WRONGS):
        marks = () if (step, wrong) in AT_EVERY_LANDING else (pytest.mark.slow,)
        yield pytest.param(step, wrong, id=f"{step}-{wrong}".replace(" ", "_"), marks=marks)


@asynccontextmanager
async def time_passing(at: Office) -> AsyncIterator[None]:
    """Whenever there is nothing to do, it is a few seconds later."""

    async def passes() -> None:
        while True:
            await at.rests()
            await at.later(seconds=5)

    passing = asyncio.create_task(passes())
    try:
        yield
    finally:
        passing.cancel()
        await asyncio.wait({passing})


async def is_posted_whole_and_once(at: Office) -> None:
    await at.ann.finds(STORY, at.deploys)
    await at.ann.finds(ANSWER, at.deploys)
    await at.slack.until(lambda: all("Approve" not in card.buttons for card in at.cards()), what="no card to be live")
    await at.rests()
    posted = at.ann.sees(at.deploys)
    assert [posted.count(line) for line in (STORY, ANSWER)] == [1, 1], posted
    assert posted.index(STORY) < posted.index(ANSWER), posted
    (card,) = at.cards()
    assert "Done: Pay" in card
    assert [line["tool"] for line in at.ran()] == ["pay"]


def refusals(at: Office) -> int:
    return at.bob.sees(at.deploys).count("Try again in a minute")


async def approves(at: Office) -> None:
    """Once the card is there; what Slack could not be asked about is tried again, as bob was told."""
    card = await at.bob.finds("Approve", at.deploys)

    def answered(before: int) -> bool:
        return "Approve" not in at.bob.now(card).buttons or refusals(at) > before

    while "Approve" in at.bob.now(card).buttons:
        before = refusals(at)
        await at.bob.clicks(card, "Approve")
        await at.slack.until(partial(answered, before), what="an answer to bob")


@pytest.mark.parametrize(("step", "wrong"), list(every_case()))
async def test_what_goes_wrong_once(open_office: Opens, step: str, wrong: str) -> None:
    async with open_office(POLICY, target=LAB, limits=QUICK) as at, time_passing(at):
        method, where = STEPS[step]
        fault = WRONGS[wrong](at.slack.faults, method, where)
        # A long reply never shares its message with the line of the decision.
        words = f"{PAY}\nat length" if step == "a line is posted" else PAY
        story = asyncio.gather(at.ann.says(f"@adk-confirm {words}", at.deploys), approves(at))
        await fault.reached()
        fault.release()
        await story
        await is_posted_whole_and_once(at)


async def withdraws(at: Office, card: Seen) -> None:
    await at.ann.clicks(card, "Withdraw")
    await (await at.ann.gets_modal("Withdraw")).submits()
    await at.slack.until(lambda: "Approve" not in at.bob.now(card).buttons, what="the card to show the end")


async def late_it_does_not_stay(at: Office, card: Seen, hang: Fault) -> None:
    hang.release()
    await at.slack.until(lambda: "Approve" in at.bob.now(card).buttons, what="the late drawing")
    await at.later(seconds=30)
    await at.rests()
    assert "Approve" not in at.bob.now(card).buttons


@pytest.mark.office(f"{POLICY}quorum = 2\n", target=LAB, limits=QUICK)
async def test_a_drawing_that_slack_does_last_does_not_stay(at: Office) -> None:
    """Nobody waited for its answer any more, and a later one was done first."""
    card = await at.ask(PAY)
    hang = at.slack.faults.hangs("chat.update")
    await at.bob.clicks(card, "Approve")
    await hang.reached()
    await withdraws(at, card)

    await late_it_does_not_stay(at, card, hang)


@pytest.mark.office(POLICY, target=LAB, limits=QUICK)
async def test_a_card_that_slack_posts_last_does_not_stay_beside_the_other(at: Office) -> None:
    hang = at.slack.faults.hangs("chat.postMessage", where=marked("confirmation_card"))
    asking = asyncio.create_task(at.ask(PAY))
    await hang.reached()
    card = await asking

    hang.release()

    await at.slack.until(lambda: len(at.cards()) == 2, what="the late card")
    await at.later(seconds=30)
    await at.rests()
    assert [one.ts for one in at.cards()] == [card.ts]


@pytest.mark.parametrize(("event", "line"), [("confirmation_line", STORY), ("confirmation_said", ANSWER)])
async def test_a_line_that_slack_posts_last_does_not_stay_beside_the_other(
    open_office: Opens, event: str, line: str
) -> None:
    async with open_office(POLICY, target=LAB, limits=QUICK) as at:
        hang = at.slack.faults.hangs("chat.postMessage", where=marked(event))
        await at.ann.says(f"@adk-confirm {PAY}\nat length", at.deploys)
        await approves(at)
        await hang.reached()
        await at.ann.finds(line, at.deploys)

        hang.release()

        await at.slack.until(lambda: at.ann.sees(at.deploys).count(line) == 2, what="the late line")
        await at.later(seconds=30)
        await at.rests()
        await is_posted_whole_and_once(at)


@pytest.mark.office(f"{POLICY}quorum = 3\n", target=LAB, limits=QUICK)
async def test_nor_does_one_that_was_sent_right_before_the_cards_are_drawn_once_more(at: Office) -> None:
    card = await at.ask(PAY)
    at.slack.faults.cuts("chat.update")
    await at.bob.clicks(card, "Approve")
    await at.slack.until(lambda: "2 more" in at.bob.now(card), what="the card to be drawn at the next try")
    await at.rests()
    await at.later(seconds=19)
    hang = at.slack.faults.hangs("chat.update")
    await at.lead.clicks(card, "Approve")
    await hang.reached()
    await withdraws(at, card)
    await at.rests()
    await at.later(seconds=2)
    await at.rests()

    await late_it_does_not_stay(at, card, hang)


@pytest.mark.office(f'{POLICY}card = "channel"\n', target=LAB, limits=QUICK)
async def test_nor_does_a_thread_go_on_to_offer_what_is_over(at: Office) -> None:
    """The thread says where the card is, as soon as the channel takes it."""
    at.slack.faults.refuses("chat.postMessage", "not_in_channel", where=marked("confirmation_card"))
    hang = at.slack.faults.hangs("chat.update", where=marked("pointer"))
    said = await at.ann.says(f"@adk-confirm {PAY}", at.deploys)
    await hang.reached()
    there = await at.sees(said, "is in #deploys")
    await at.ann.clicks(there, "Withdraw…", sure=True)
    await at.slack.until(lambda: not at.ann.now(there).buttons, what="the thread to offer nothing")
    await at.rests()

    hang.release()

    await at.slack.until(lambda: at.ann.now(there).buttons, what="the late drawing")
    await at.later(seconds=30)
    await at.rests()
    assert not at.ann.now(there).buttons


# Around the card


A_VERDICT_FAILS = ["is limited", "fails", "is cut off", "is cut off though it is done"]


@pytest.mark.parametrize("wrong", A_VERDICT_FAILS)
@pytest.mark.parametrize("method", ["views.open", "chat.postEphemeral"])
async def test_a_verdict_comes_through_in_the_end(open_office: Opens, wrong: str, method: str) -> None:
    """In a window of its own, or beside the card if none can be opened."""
    rules = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0LEADS"]\n'
    async with open_office(rules, limits=QUICK) as at:
        at.slack.group("leads", at.ann, id="S0LEADS")  # who is in it is looked up when a vote is counted
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.bob.clicks(card, "Deny…")
        form = await at.bob.gets_modal("Deny")  # before time passes: what opens it lives for three seconds
        fault = WRONGS[wrong](at.slack.faults, method, None)
        if method == "chat.postEphemeral":
            at.slack.faults.refuses("views.open", "expired_trigger_id", times=None)
        async with time_passing(at):
            await form.submits({"Reason": "no"})
            await fault.reached()
            await at.slack.until(lambda: "you are not an approver" in heard(at.bob, at.deploys) or None)


def heard(person: Person, channel: Channel) -> str:
    """All that only this person saw."""
    beside = [one for one in person.messages(channel) if one.ephemeral]
    return "\n".join(map(str, [*beside, *person.windows]))


# Slack is away


async def test_a_click_is_stored_while_slack_answers_nothing(open_office: Opens) -> None:
    async with open_office(limits=QUICK) as at, time_passing(at):
        card = await at.ask("reimburse 1500 for the team dinner")
        at.slack.faults.cuts("*", times=None)
        made = await at.lead.clicks(card, "Approve")
        assert made.acked
        await at.slack.until(lambda: len(at.slack.calls_of("users.info")) > 1, what="Slack to be asked")
        at.slack.faults.clear()
        await at.slack.until(lambda: "Approve" not in at.ann.now(card).buttons or refusals(at), what="it to be heard")


@pytest.mark.office('[[policy]]\ntools = ["*"]\napprovers = ["user:U0LEAD"]\n', limits=QUICK)
@pytest.mark.parametrize("wrong", ["fails", "is cut off", "is limited"])
async def test_slack_is_away_for_a_while_and_nothing_is_lost(at: Office, wrong: str) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    away = {
        "fails": lambda: at.slack.faults.fails("chat.*", times=None),
        "is cut off": lambda: at.slack.faults.cuts("chat.*", times=None),
        "is limited": lambda: at.slack.faults.limits("chat.*", retry_after=60, times=None),
    }[wrong]()
    assert (await at.lead.clicks(card, "Approve")).acked
    said = await at.cyd.says("@adk-confirm what runs as checkout?", at.deploys)
    async with time_passing(at):
        await at.slack.until(lambda: away.met > 6, what="Slack to be tried")
        assert at.cyd.sees(at.deploys, thread=said).count("2.4.0") == 0

        at.slack.faults.clear()

        await at.sees(card, "Done: Reimburse", "I reimbursed 1500")
        await at.cyd.finds("2.4.0", at.deploys, thread=said)
    await at.rests()
    assert at.cyd.sees(at.deploys).count("2.4.0") == 1
    assert at.ann.sees(at.deploys).count("I reimbursed 1500") == 1
    assert at.ann.sees(at.deploys).count(". Approved by lead") == 1
    assert len(at.ran()) == 1


async def test_a_report_counts_no_time_in_which_slack_had_no_card(at: Office, database_url: str) -> None:
    busy = at.slack.faults.limits("chat.postMessage", retry_after=60)
    said = await at.ann.says("@adk-confirm reimburse 1500 for the team dinner", at.deploys)
    await busy.reached()
    await at.later(minutes=1)
    card = await at.sees(said, "Approve")
    await at.later(seconds=2)
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "Done: Reimburse")
    report = await operates(at, database_url, "audit", "report", "--to", "2100-01-01")
    speed = as_object(report["approvals"])
    assert (speed["timed"], speed["within_5_s"]) == (1, 1)


@pytest.mark.office('[[policy]]\ntools = ["*"]\napprovers = ["user:U0LEAD"]\n', limits=QUICK)
async def test_the_token_is_revoked_midway_and_a_new_one_goes_on(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.rests()
    asking = at.slack.faults.hangs("users.info")
    assert (await at.lead.clicks(card, "Approve")).acked
    await asking.reached()
    at.slack.install.revoked = True
    asking.release()
    await at.rests()
    await at.stops()

    at.slack.install = at.slack.workspace.directory.install(at.slack.team)
    await at.starts(at.policies)

    at.slack.clock.advance(60)  # no window can be opened with the click any more
    async with time_passing(at):
        await at.lead.finds("whether you may decide. Vote again in a minute", at.deploys, thread=card)
        assert at.ran() == []
        await at.lead.clicks(card, "Approve")
        await at.sees(card, "Done: Reimburse", "I reimbursed 1500")
    assert len(at.ran()) == 1


async def test_slack_is_away_for_a_moment_when_the_bot_starts(at: Office) -> None:
    await at.stops()
    at.slack.faults.fails("auth.test")
    await at.starts(at.policies)
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "Done: Reimburse")


async def test_a_token_that_slack_refuses_is_reported_at_once(at: Office) -> None:
    await at.stops()
    at.slack.install.revoked = True
    with pytest.raises(CannotServe, match=r"refused SLACK_BOT_TOKEN \(token_revoked\)\. Install the app again"):
        await at.starts(at.policies)


@pytest.mark.office(socket=True)
async def test_an_app_token_that_slack_refuses_is_reported_at_once(at: Office) -> None:
    await at.stops()
    at.slack.faults.refuses("apps.connections.open", "invalid_auth", times=None)
    with pytest.raises(
        CannotServe, match=r"SLACK_APP_TOKEN was not accepted: make an app-level token with connections"
    ):
        await at.starts(at.policies)


# One does not keep the others


@pytest.mark.office(limits=CallLimits(posts=AT_ONCE.posts))
async def test_a_session_that_hangs_keeps_no_other_waiting(at: Office) -> None:
    here = at.slack.channel("elsewhere", at.ann, at.bob)
    hang = at.slack.faults.hangs("chat.*", times=None, where=lambda args: args.get("channel") == here.id)
    await at.ann.says("@adk-confirm reimburse 1500 for the team dinner", here)
    await hang.reached()

    card = await at.ask("reimburse 1600 for the team dinner")
    await at.bob.clicks(card, "Approve")

    await at.sees(card, "I reimbursed 1600")
    at.slack.faults.clear()
    await at.bob.finds("Approve", here)


async def test_a_thread_that_was_deleted_keeps_no_other_waiting(open_office: Opens) -> None:
    async with open_office() as at, time_passing(at):
        said = await at.ann.says("@adk-confirm reimburse 1500 for the team dinner", at.deploys)
        await at.ann.deletes(said)
        card = await at.ask("reimburse 1600 for the team dinner")
        await at.bob.clicks(card, "Approve")
        await at.sees(card, "I reimbursed 1600")


@IN_CI_ON_BOTH
async def test_a_row_that_can_not_be_read_stops_nobody(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.rests()
    await at.bot.database.run(spoil_every_row)

    await at.bob.clicks(card, "Approve")
    await at.sees(card, "is not the one that was asked about")
    other = await at.ask("reimburse 1600 for the team dinner")
    await at.bob.clicks(other, "Approve")

    await at.sees(other, "I reimbursed 1600")
    assert [line["amount"] for line in at.ran()] == [1600]


def spoil_every_row(tx: Tx) -> None:
    tx.run("UPDATE bot_confirmations SET body = '{'")
    change_job(tx, "confirmation", due_at=tx.now())
    tx.notify(topic_of("confirmation"))
