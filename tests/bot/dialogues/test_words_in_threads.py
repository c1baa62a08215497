"""Messages in a thread are never lost: the agent gets them, or their author is told what to do."""

from __future__ import annotations

import pytest

from adk_confirm.bot.inbound.payloads import read_message_event
from adk_confirm.bot.store.pause import pause_runs, resume_runs, switch_runs
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.sandbox.people.people import Person
from tests.support.office import LAB, ONE, PAY, TALKER, Office, Opens
from tests.support.talking import mouth

pytestmark = pytest.mark.office(ONE, target=LAB)


def notes_for(at: Office, person: Person) -> list[str]:
    """What only this person was told."""
    return [one.text for one in person.messages(at.deploys) if one.ephemeral]


async def test_where_others_write_a_plain_reply_gets_a_hint_once_each(at: Office) -> None:
    card = await at.ask(PAY)
    await at.oscar.says("who is Ada?", at.deploys, thread=card)
    hint = await at.oscar.finds("agent did not read this", at.deploys, thread=card)
    assert hint.ephemeral
    assert "mention @adk-confirm" in hint
    for label in ("Deny…", "Withdraw…"):
        assert label in hint
        assert label in card.buttons
    await at.ann.says("a colleague", at.deploys, thread=card)
    await at.ann.finds("agent did not read this", at.deploys, thread=card)
    await at.oscar.says("ah", at.deploys, thread=card)
    await at.rests()
    assert (len(notes_for(at, at.oscar)), len(notes_for(at, at.ann))) == (1, 1)
    assert "You said" not in at.ann.sees(at.deploys)


async def test_words_of_an_approver_get_the_buttons_and_what_a_mention_would_cost(at: Office) -> None:
    card = await at.ask(PAY)
    await at.bob.says("approve", at.deploys, thread=card)
    hint = await at.bob.finds("Words don't count as a vote", at.deploys, thread=card)
    assert hint.ephemeral
    assert "If you mention @adk-confirm here, you can't approve any more" in hint
    await at.bob.clicks(hint, "Review…")
    await (await at.bob.gets_modal("Approve")).submits()
    await at.sees(card, "Done: Pay")
    assert len(at.ran()) == 1


async def test_an_approver_who_mentions_the_agent_learns_it_and_the_card_names_them(at: Office) -> None:
    card = await at.ask(PAY)
    assert "can't approve" not in at.ann.sees(at.deploys)
    await at.bob.says("@adk-confirm is this right?", at.deploys, thread=card)
    told = await at.bob.finds("You spoke to the agent, so you can no longer approve", at.deploys, thread=card)
    assert told.ephemeral
    assert "Pay: Ada, amount 20" in told
    await at.sees(card, "bob can't approve: they spoke to the agent here.")
    await at.bob.says("@adk-confirm and this?", at.deploys, thread=card)
    await at.rests()
    assert len(notes_for(at, at.bob)) == 1
    await at.bob.clicks(at.bob.now(card), "Approve")
    await at.bob.gets_modal("You can't approve this, because you spoke to the agent in this conversation")
    assert at.ran() == []
    await at.cyd.clicks(at.cyd.now(card), "Approve")
    await at.sees(card, "Done: Pay")
    assert len(at.ran()) == 1


@pytest.mark.office(ONE + 'allow_requester = "speakers"\n', target=LAB)
async def test_where_speaking_bars_nobody_a_mention_costs_nothing(at: Office) -> None:
    card = await at.ask(PAY)
    await at.bob.says("approve", at.deploys, thread=card)
    hint = await at.bob.finds("Words don't count as a vote", at.deploys, thread=card)
    assert "any more" not in hint
    await at.bob.says("@adk-confirm is this right?", at.deploys, thread=card)
    await at.rests()
    assert len(notes_for(at, at.bob)) == 1
    assert "can't approve" not in at.ann.sees(at.deploys)


async def test_stop_offers_whoever_asked_to_withdraw(at: Office) -> None:
    card = await at.ask(PAY)
    await at.ann.says("wait!", at.deploys, thread=card)
    offer = await at.sees(card, "does not stop what waits")
    assert offer.ephemeral
    assert offer.buttons == ("Withdraw…",)
    await at.ann.clicks(offer, "Withdraw…", sure=True)
    await at.sees(card, "Withdrawn: Pay")
    assert at.ran() == []


async def test_stop_offers_an_approver_to_deny_each_call_that_waits(at: Office) -> None:
    said = await at.ann.says(f'@adk-confirm {PAY}\nnote {{"text": "x"}}\npay {{"to": "Bea", "amount": 30}}', at.deploys)
    await at.sees(said, "to Bea", "to Ada")
    await at.bob.says("@adk-confirm stop", at.deploys, thread=said)  # the agent hears it as well
    offer = await at.bob.finds("does not stop what waits", at.deploys, thread=said)
    deny = offer.buttons[0]
    assert [("Ada" in button, "Bea" in button) for button in sorted(offer.buttons)] == [
        (True, False),
        (False, True),
    ]
    assert all(button.startswith("Deny… Pay") for button in offer.buttons)
    await at.bob.clicks(offer, deny)
    await (await at.bob.gets_modal("Deny")).submits({"Reason": "not now"})
    await at.sees(said, "denied by bob")
    await at.oscar.says("cancel", at.deploys, thread=said)
    await at.oscar.finds("To stop what waits", at.deploys, thread=said)


async def test_words_that_wait_for_a_busy_agent_get_a_sign(open_office: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adk_confirm.bot.inbound.events.HINT_AFTER", 0.1)
    mouth.begins_anew()
    async with open_office(ONE, target=TALKER) as at:
        said = await at.ann.says("@adk-confirm hello", at.deploys)
        await at.slack.until(lambda: mouth.heard or None)
        await at.ann.says("and what runs as checkout?", at.deploys, thread=said)
        sign = await at.sees(said, "It reads your message next")
        assert sign.ephemeral
        mouth.say("Hi.", None, "2.4.0.", None)
        await at.sees(said, "2.4.0.")
        assert len(notes_for(at, at.ann)) == 1


async def test_words_during_a_pause_get_a_sign(open_office: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adk_confirm.bot.inbound.events.HINT_AFTER", 0.1)
    async with open_office(ONE, target=LAB, time_moves=True) as at:
        await switch_runs(at.bot.database, pause_runs)
        said = await at.ann.says(f"@adk-confirm {PAY}", at.deploys)
        sign = await at.sees(said, "reads your message once they are resumed")
        assert sign.ephemeral
        await switch_runs(at.bot.database, resume_runs)
        await at.later(seconds=5)
        await at.sees(said, "to Ada")


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        *(
            (text, True)
            for text in ("stop", "Wait!", "please cancel it", "no, wait a minute", "STOP THIS NOW!!", "don't")
        ),
        *((text, False) for text in ("what runs as checkout?", "stop by tomorrow", "wait for the deploy", "go on", "")),
    ],
)
def test_what_asks_to_stop(text: str, stops: bool) -> None:
    event: JsonObject = {
        "type": "message",
        "channel": "C1",
        "ts": "2.2",
        "thread_ts": "1.1",
        "user": "U0ANN",
        "text": text,
    }
    found = read_message_event({"team_id": "T0ACME", "event": event}, "oncall", "U0BOT")
    assert found is not None
    assert found.stops is stops
