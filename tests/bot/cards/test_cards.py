"""Cards as people see them, also when calls to Slack fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from adk_confirm.bot.confirmation.confirmation import OutcomeKind, Place
from adk_confirm.bot.slack.calls import CallLimits
from adk_confirm.bot.slack.troubles import Gone, Later
from tests.support.deciding import ANNA, BEN, LEAD, every_state, make_policy
from tests.support.office import Office
from tests.support.outgoing import Outgoing, outgoing


@pytest.fixture
async def out(request: pytest.FixtureRequest) -> AsyncIterator[Outgoing]:
    quick = "hang" in request.node.name or "late" in request.node.name
    async with outgoing(CallLimits(time_limit=1.0 if quick else 10.0)) as ready:
        yield ready


async def test_a_post_that_slack_carries_out_late_is_cleared_away_with_the_next_drawing(out: Outgoing) -> None:
    out.open(make_policy(approvers=["user:U0ANNA"]))
    hang = out.slack.faults.hangs("chat.postMessage")
    await out.drawn()
    first = out.card

    hang.release()
    await out.slack.until(lambda: len(out.cards_in()) == 2, what="the second copy")
    out.desk.approve(ANNA)
    await out.drawn()

    assert out.card.ts == first.ts
    assert "Approved: Deploy" in out.card


async def test_a_copy_that_comes_late_is_the_card_if_the_one_that_is_known_is_gone(out: Outgoing) -> None:
    """Otherwise its buttons would stay for good, though the call is decided."""
    out.open(make_policy(approvers=["user:U0ANNA"]))
    hang = out.slack.faults.hangs("chat.postMessage")
    await out.drawn()
    hang.release()
    await out.slack.until(lambda: len(out.cards_in()) == 2, what="the second copy")
    known, late = out.cards_in()
    if known.ts != out.desk.row.places[0].ts:
        known, late = late, known
    out.slack.workspace.messages.delete(out.deploys, known.message)

    out.in_doubt()
    out.desk.deny(ANNA)
    await out.drawn()

    assert out.card.ts == late.ts
    assert "Denied: Deploy" in out.card


async def test_strays_are_deleted_and_a_foreign_bots_copy_is_left_alone(out: Outgoing) -> None:
    row = out.open(make_policy(approvers=["user:U0ANNA"]))
    (place,) = await out.cards.draw(out.lease, row, out.session)
    mine = out.card.message
    post, thread = out.slack.workspace.messages.post, out.session.thread_ts
    post(out.deploys, mine.user, thread_ts=thread, text=mine.text, metadata=mine.metadata, by=out.slack.install)
    mallory = out.slack.person("mallory", is_bot=True)
    foreign = post(out.deploys, mallory.id, thread_ts=thread, text="not a card", metadata=mine.metadata)

    out.in_doubt()
    await out.drawn()

    assert [card.ts for card in out.cards_in()] == [place.ts, foreign.ts]


async def test_a_limit_longer_than_a_lease_bears_is_not_slept_through(out: Outgoing) -> None:
    row = out.open(make_policy(approvers=["user:U0ANNA"]))
    out.slack.faults.limits("chat.postMessage", retry_after=60)

    with pytest.raises(Later) as later:
        await out.cards.draw(out.lease, row, out.session)
    with pytest.raises(Later) as again:
        await out.cards.draw(out.lease, row, out.session)

    assert 55 < again.value.after <= later.value.after == 60
    assert out.waits == []
    assert len(out.slack.calls_of("chat.postMessage")) == 1
    assert out.slack.calls_of("conversations.replies") == []  # nothing was posted, so nothing is looked for


async def test_a_card_that_slack_does_not_take_goes_out_as_text_and_has_no_live_buttons(
    out: Outgoing, caplog: pytest.LogCaptureFixture
) -> None:
    out.open(make_policy(approvers=["user:U0ANNA"]))
    out.slack.faults.refuses("chat.postMessage", "invalid_blocks")
    await out.drawn()
    assert out.card.buttons == ()
    assert "version `2.4.1`" in out.card.fallback or "2.4.1" in out.card.fallback
    assert "sent as plain text" in caplog.text

    out.desk.deny(ANNA)
    out.slack.faults.refuses("chat.update", "msg_blocks_too_long")
    await out.drawn()
    assert out.card.message.blocks == []
    assert "Denied:" in out.card.fallback


async def test_a_deleted_card_comes_back_while_it_is_needed_and_stays_away_after(out: Outgoing) -> None:
    out.open(make_policy(approvers=["user:U0ANNA", "user:U0BEN"], quorum=2))
    await out.drawn()
    out.slack.workspace.messages.delete(out.deploys, out.card.message)
    out.desk.approve(ANNA)
    await out.drawn()
    assert "Needs 1 more approval" in out.card

    out.slack.workspace.messages.delete(out.deploys, out.slack.workspace.messages.find(out.deploys.id, out.card.ts))
    out.desk.deny(BEN)
    await out.drawn()
    assert out.cards_in() == []


async def test_a_card_elsewhere_that_was_deleted_before_the_thread_leads_to_it_comes_back(out: Outgoing) -> None:
    leads = out.slack.channel("leads", out.lead, id="C0LEADS")
    out.open(make_policy(approvers=["user:U0LEAD"], channel="C0LEADS"), [Place(channel="C0LEADS")])
    fault = out.slack.faults.hangs("chat.getPermalink", where=lambda args: args.get("channel") == "C0LEADS")
    drawing = asyncio.create_task(out.drawn())
    await fault.reached()
    (first,) = out.cards_in(leads, out.lead)
    out.slack.workspace.messages.delete(leads, first.message)
    out.slack.faults.clear()

    await drawing

    (card,) = out.cards_in(leads, out.lead)
    assert card.ts != first.ts
    assert out.posted() == ["The card for Deploy: 2.4.1, 3 replicas is in #leads.\n[Withdraw…]"]


async def test_in_another_channel_card_and_thread_lead_to_each_other(out: Outgoing) -> None:
    leads = out.slack.channel("leads", out.lead, id="C0LEADS")
    out.open(make_policy(approvers=["user:U0LEAD"], channel="C0LEADS"), [Place(channel="C0LEADS")])

    await out.drawn()

    (card,) = out.cards_in(leads, out.lead)
    assert "Conversation" in card
    assert f"p{out.thread.ts.replace('.', '')}" in str(card.message.blocks)
    line = "The card for Deploy: 2.4.1, 3 replicas is in #leads."
    assert out.posted() == [f"{line}\n[Withdraw…]"]
    out.desk.approve(LEAD)
    await out.drawn()
    assert out.posted() == [line], "it leads there, and there is nothing left to withdraw"
    out.desk.begin()
    out.desk.host_says(OutcomeKind.DONE)
    await out.drawn()
    assert len(out.slack.calls_of("chat.update")) == 3, "the card twice, the line once and no more"


async def test_of_two_lines_that_lead_to_a_card_the_one_that_is_drawn_again_stays(out: Outgoing) -> None:
    """The first came late, after the thread was searched for it. The thread's own search leaves both alone."""
    out.slack.channel("leads", out.lead, id="C0LEADS")
    people = ["user:U0LEAD", "user:U0ANNA"]
    out.open(make_policy(approvers=people, quorum=2, channel="C0LEADS"), [Place(channel="C0LEADS")])
    await out.drawn()
    (first,) = out.asker.messages(out.deploys, thread=out.thread)[1:]
    post, line = out.slack.workspace.messages.post, first.message
    second = post(
        out.deploys, line.user, thread_ts=out.thread.ts, text=line.text, metadata=line.metadata, by=out.slack.install
    )
    places = [replace(one, ts=second.ts) if one.pointer else one for one in out.desk.row.places]
    out.desk.row = replace(out.desk.row, places=tuple(places))

    await out.writer.delete_copies(out.lease, out.session, out.slack.clock.now())
    out.in_doubt()
    out.desk.approve(LEAD)
    await out.drawn()

    assert [one.ts for one in out.asker.messages(out.deploys, thread=out.thread)[1:]] == [second.ts]


async def test_a_channel_that_the_app_is_not_in_is_reported_in_the_thread_until_somebody_invites_it(
    out: Outgoing,
) -> None:
    leads = out.slack.channel("leads", out.lead, id="C0LEADS", with_app=False)
    out.open(make_policy(approvers=["user:U0LEAD"], channel="C0LEADS"), [Place(channel="C0LEADS")])

    with pytest.raises(AssertionError):
        await out.drawn(tries=3)

    assert isinstance(out.troubles[-1], Gone)
    why = "The app is not in this channel. Invite it there with /invite."
    assert out.posted() == [f"The card for Deploy: 2.4.1, 3 replicas can't be posted in #leads. {why}"]
    out.slack.workspace.directory.set_members("C0LEADS", add=(out.slack.install.bot_user_id,))
    await out.drawn()
    (line,) = out.posted()
    assert line == "The card for Deploy: 2.4.1, 3 replicas is in #leads.\n[Withdraw…]"
    assert len(out.cards_in(leads, out.lead)) == 1


async def test_whatever_slack_refuses_a_card_for_is_said_in_the_thread(out: Outgoing) -> None:
    """Whoever asked would wait until it expires, and would not know for what."""
    out.slack.channel("leads", out.lead, id="C0LEADS")
    out.open(make_policy(approvers=["user:U0LEAD"], channel="C0LEADS"), [Place(channel="C0LEADS")])
    new = "a_code_that_slack_has_since_today"
    out.slack.faults.refuses("chat.postMessage", new, where=lambda args: args["channel"] == "C0LEADS", times=3)

    with pytest.raises(AssertionError):
        await out.drawn(tries=3)

    why = f"Slack does not take chat.postMessage: {new}."
    assert out.posted() == [f"The card for Deploy: 2.4.1, 3 replicas can't be posted in #leads. {why}"]


async def test_approvers_in_direct_messages(out: Outgoing) -> None:
    people = {who: await out.api.open_dm(who.user) for who in (ANNA, LEAD)}
    places = [Place(channel=channel, person=who) for who, channel in people.items()]
    out.open(make_policy(approvers=["user:U0ANNA", "user:U0LEAD"]), places)
    out.slack.faults.refuses("chat.postMessage", "user_disabled", where=lambda args: args["channel"] == people[LEAD])

    await out.drawn()

    (card,) = out.cards_in(out.ann.place(None))
    assert "Asked by dana" in card
    (line,) = out.posted()
    assert line == "The card for Deploy: 2.4.1, 3 replicas went to anna as a direct message.\n[Withdraw…]"


async def test_an_escalation_waits_for_slack_to_say_who_is_in_the_group(out: Outgoing) -> None:
    out.slack.group("leads", out.lead, id="S0LEADS")
    policy = make_policy(approvers=["user:U0BEN"], escalate_to=["group:S0LEADS"], escalate_after="10m")
    secret = out.slack.channel("secret", out.asker, private=True, id="C0SECRET")
    out.open(policy, [Place(channel=secret.id)])
    await out.drawn()
    out.desk.wait(minutes=11)
    out.slack.faults.fails("usergroups.users.list", times=None)

    with out.impatient(), pytest.raises(AssertionError, match="S0LEADS"):
        await out.drawn(tries=2)

    trouble = out.troubles[-1]
    assert isinstance(trouble, Later)
    out.slack.faults.clear()
    await out.drawn()
    assert len(out.cards_in(out.lead.place(None), out.lead)) == 1


async def test_a_card_that_could_never_be_posted_is_given_up_once_it_is_decided(out: Outgoing) -> None:
    out.slack.channel("leads", out.lead, id="C0LEADS", with_app=False)
    out.open(make_policy(approvers=["user:U0LEAD"], channel="C0LEADS"), [Place(channel="C0LEADS")])
    with pytest.raises(AssertionError):
        await out.drawn(tries=3)
    out.desk.wait(hours=25)
    await out.drawn(tries=3)
    assert len(out.posted()) == 1


# Every state there is, as Slack would take it


async def test_every_state_and_outcome_has_a_card_that_slack_takes(out: Outgoing) -> None:
    seen = 0
    for row in every_state(out.open(make_policy(approvers=["user:U0ANNA"], grant="30m", confirm_dialog=True))):
        out.desk.row = replace(row, places=out.desk.row.places)
        await out.drawn()
        assert "deploy" in out.card
        seen += 1
    assert seen == 7 * 9
    assert {made.error for made in out.slack.calls} == {""}


TWO = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL", "user:U0LEAD"]\nquorum = 2\n'


@pytest.mark.office(TWO)
async def test_windows_name_people_as_their_cards_do(at: Office) -> None:
    card = await at.ask("reimburse 1500 for the team dinner")
    await at.bob.clicks(card, "Approve")
    card = await at.cyd.finds("· approved by bob ·", at.deploys, thread=card)
    for button, words in (
        ("History", "bob approved it: 1 of 2 approvals."),
        ("All details", "Asked by ann through oncall"),
        ("All details", "Needs 1 more approval from @oncall or @lead · approved by bob"),
    ):
        await at.cyd.clicks(card, button)
        window = await at.cyd.gets_modal(words)
        assert "@bob" not in window
        assert "@ann" not in window
        window.closes()
