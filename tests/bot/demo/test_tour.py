"""The demo behind its page: the hints of the tour, the clock, and real crashes of the bot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adk_confirm.blocks import words
from adk_confirm.bot.confirmation.confirmation import Confirmation, OutcomeKind, State
from adk_confirm.demo.stage import Demo, running_demo
from adk_confirm.demo.tour import CARD, FIRST, FOURTH, QUESTION, SECOND, START, THIRD, Tour
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.sandbox.page.controls import BotState, Hint
from adk_confirm.sandbox.page.page_gestures import GESTURES, GestureContext
from adk_confirm.sandbox.page.screen import Screen
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.refusals import Invalid
from tests.support.deciding import Desk, make_asked, make_policy

LONG = 60.0
"""Seconds: the bot is another process, and its start takes as long as its imports."""


class Visitor:
    """Somebody who only does what the hints say."""

    def __init__(self, demo: Demo) -> None:
        self.demo = demo
        self.me = "ana"

    def hint(self) -> Hint | None:
        guide = self.demo.slack.page.stage.guide
        assert guide is not None
        return guide.hint(self.demo.people[self.me].user)

    async def follows(self, button: str, says: str = "") -> Seen | None:
        """Waits for a hint with this button, and presses it. A card to open is returned."""

        def look() -> Hint | None:
            hint = self.hint()
            return hint if hint and hint.button == button and says in hint.text else None

        hint = await self.demo.slack.until(look, timeout=LONG, what=f"the hint “{button}”, now {self.hint()}")
        assert hint.action is not None
        return await self._does(hint.action)

    async def _does(self, action: JsonObject) -> Seen | None:
        people, channel = self.demo.people, self.demo.channel
        match action:
            case {"be": str(wanted)}:
                self.me = next(name for name, each in people.items() if each.id == wanted)
            case {"say": str(text)}:
                await people[self.me].says(text, channel)
            case {"thread": str(ts)}:
                button = words.HAPPENED if "took effect" in (self.hint() or Hint("")).text else words.APPROVE
                person = people[self.me]

                def look() -> Seen | None:
                    cards = person.messages(channel, thread=ts)
                    return next((each for each in cards if button in each.buttons), None)

                return await self.demo.slack.until(look, timeout=LONG, what=f"a card with “{button}”")
            case {"do": str(gesture), **body}:
                user = people[self.me].user
                hands = GestureContext(self.demo.slack, user, self.demo.bot)
                await GESTURES[gesture].model_validate(body).perform(hands)
        return None

    async def has(self, count: int, state: State, outcome: OutcomeKind | None = None) -> None:
        """Waits until the last of so many confirmations is there."""
        tour = self.demo.slack.page.stage.guide

        def look() -> bool:
            rows: list[Confirmation] = getattr(tour, "rows", [])
            if len(rows) != count or rows[-1].state is not state:
                return False
            return outcome is None or (rows[-1].outcome is not None and rows[-1].outcome.kind is outcome)

        await self.demo.slack.until(look, timeout=LONG, what=f"{count} confirmations, the last {state}, {outcome}")


@pytest.mark.timeout(240)
async def test_the_hints_lead_through_approval_edit_expiry_crash_and_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects = tmp_path / "effects.jsonl"
    monkeypatch.setenv("ADK_CONFIRM_DEMO_LOG", str(effects))
    monkeypatch.setenv("SLACK_APP_TOKEN", "xapp-of-a-real-app")  # the demo must not use it
    async with running_demo(port=0) as demo:
        visitor = Visitor(demo)
        await begins_with_the_last(visitor, demo)
        leads_on_from_each(demo)
        await approves(visitor, demo)
        await corrects(visitor, demo)
        await lets_it_expire(visitor, demo)
        await crashes(visitor, demo)
    done = [json.loads(line) for line in effects.read_text().splitlines()]
    assert [(each["tool"], each.get("amount")) for each in done] == [
        ("refund", None),
        ("deploy", None),
        ("reimburse", 1200),
        ("refund", None),
    ]


async def begins_with_the_last(visitor: Visitor, demo: Demo) -> None:
    """Its hints are there at once. Whoever approves without them has seen no crash, and the tour still shows it."""
    await demo.people["ana"].says(FOURTH, demo.channel)

    def look() -> Hint | None:
        hint = visitor.hint()
        return hint if hint and hint.step == "4 of 4" else None

    hint = await demo.slack.until(look, timeout=LONG, what="the hint of the last story")
    assert "let the bot crash" in hint.text
    lee = demo.people["lee"]
    await lee.clicks(await lee.finds("Refund Ada", demo.channel, timeout=LONG), "Approve", sure=True)
    await visitor.has(1, State.APPROVED, OutcomeKind.DONE)


def leads_on_from_each(demo: Demo) -> None:
    """A story that somebody began has its hints, in whatever order."""
    tour = Tour(demo.people, demo.channel.id, demo.bot)
    begun: list[tuple[str, JsonObject, str]] = [
        ("deploy", {"service": "checkout"}, "1 of 4"),
        ("reimburse", {"amount": 1500}, "2 of 4"),
        ("deploy", {"service": "search"}, "3 of 4"),
        ("refund", {"customer": "Ada"}, "4 of 4"),
    ]
    for tool, arguments, step in begun:
        tour.rows = (Desk(make_policy(quorum=2), make_asked(tool, arguments)).row,)
        hint = tour.hint(demo.people["ana"].user)
        assert hint is not None
        assert hint.step == step


async def approves(visitor: Visitor, demo: Demo) -> None:
    await visitor.follows("Write it for me")
    assert FIRST in demo.people["ana"].sees(demo.channel)
    await visitor.follows("Be ben")
    card = await visitor.follows(CARD, "Look at what would change")
    assert card is not None
    assert "- checkout 2.4.0\n+ checkout 2.4.1" in card.text
    await demo.people["ben"].clicks(card, "Approve")
    await visitor.follows("Be chris")
    card = await visitor.follows(CARD, "Press Approve")
    assert card is not None
    await demo.people["chris"].clicks(card, "Approve")
    await visitor.has(2, State.APPROVED, OutcomeKind.DONE)


async def corrects(visitor: Visitor, demo: Demo) -> None:
    await visitor.follows("Be ana")
    await visitor.follows("Write it for me")
    assert SECOND in demo.people["ana"].sees(demo.channel)
    await visitor.follows("Be ben")
    card = await visitor.follows(CARD, "Press Edit")
    ben = demo.people["ben"]
    assert card is not None
    await ben.clicks(card, "Edit…")
    form = await ben.gets_modal(timeout=LONG)
    await form.submits({"amount": "1200"})
    await visitor.has(3, State.APPROVED, OutcomeKind.DONE)


async def lets_it_expire(visitor: Visitor, demo: Demo) -> None:
    await visitor.follows("Be ana")
    await visitor.follows("Write it for me")
    assert THIRD in demo.people["ana"].sees(demo.channel)
    await visitor.follows("+10 min", "reminded")
    await visitor.follows("+10 min", "lee is asked as well")
    await visitor.follows("+1 h", "expires")
    await visitor.has(4, State.EXPIRED)
    assert demo.bot.minutes_ahead == 80


async def crashes(visitor: Visitor, demo: Demo) -> None:
    slack, lee = demo.slack, demo.people["lee"]
    await visitor.follows("Write it for me")
    assert FOURTH in demo.people["ana"].sees(demo.channel)
    await visitor.follows("Crash during the next call")
    assert screen(demo)["bot"] == {"state": "running", "crashes_in_call": True, "minutes_ahead": 80}
    await visitor.follows("Be lee")
    card = await visitor.follows(CARD, "will not survive")
    assert card is not None
    await lee.clicks(card, "Approve", sure=True)
    await slack.until(lambda: demo.bot.state is BotState.DOWN, timeout=LONG, what="the crash")
    with pytest.raises(Invalid, match="not running"):
        await demo.bot.crash()
    clicked = await lee.clicks(lee.now(card), "All details") if "All details" in card.buttons else None
    assert clicked is None or clicked.reason == "connection_failed"

    await visitor.follows(START)
    assert demo.bot.state is BotState.RUNNING
    await visitor.has(5, State.APPROVED, OutcomeKind.UNKNOWN)
    await visitor.follows("Write the question", "Nobody knows")
    said = [each for each in demo.people["ana"].messages(demo.channel) if QUESTION in each][-1]
    await demo.people["ana"].finds("Refunds so far: 20 to Ada, 20 to Ada.", demo.channel, thread=said, timeout=LONG)
    visitor.me = "ana"
    await visitor.follows("Be lee")
    card = await visitor.follows(
        CARD, "It says “Refunds so far: 20 to Ada, 20 to Ada.” Say on the card whether it took effect"
    )
    assert card is not None
    await lee.clicks(card, words.HAPPENED, sure=True)
    await visitor.has(5, State.APPROVED, OutcomeKind.HAPPENED)
    hint = await slack.until(visitor.hint, what="the last hint")
    assert "That was the tour" in hint.text
    await demo.people["ana"].says(SECOND, demo.channel)  # now it is their own
    await visitor.has(6, State.WAITING)
    assert "That was the tour" in (visitor.hint() or hint).text


async def test_what_was_said_while_the_bot_was_away_reaches_it_as_soon_as_it_is_there() -> None:
    """Slack itself would try again after a minute."""
    async with running_demo(port=0) as demo:
        ana = demo.people["ana"]
        await demo.bot.crash()
        said = await ana.says(FIRST, demo.channel)
        await demo.slack.settled()
        await demo.bot.start()
        await ana.finds("to prod?", demo.channel, thread=said, timeout=LONG / 2)


def screen(demo: Demo) -> JsonObject:
    user = demo.people["ana"].user
    stage = Screen(demo.slack.workspace, user, demo.slack.page.stage).whole()["stage"]
    assert isinstance(stage, dict)
    return stage
