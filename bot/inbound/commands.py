"""The `/approvals` command, "Try again" after an agent's failure, and "Ask again" after a call that did not run."""

from __future__ import annotations

from slack_bolt.async_app import AsyncAck, AsyncApp

from adk_confirm.blocks import notices
from adk_confirm.blocks.card import ASKED_AGAIN
from adk_confirm.blocks.click_ids import Action, parse_id
from adk_confirm.blocks.words import AGENT_FAILED
from adk_confirm.bot.cards import modals
from adk_confirm.bot.confirmation import decision_texts
from adk_confirm.bot.confirmation.confirmation import Seat
from adk_confirm.bot.confirmation.shown import stage_of
from adk_confirm.bot.home.lists import Lists
from adk_confirm.bot.inbound.after_ack import AfterAck
from adk_confirm.bot.inbound.payloads import Body, ident, needed, read_click
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.store.repository import read_confirmation
from adk_confirm.bot.store.transactions import RetryResult, ask_once_more, say_again
from adk_confirm.runtime.jsontypes import as_text
from adk_confirm.runtime.store.database import Database

COMMAND = "/approvals"
ASKED = {
    RetryResult.AGAIN: "The agent is asked again. A new card follows if it proposes the call once more.",
    RetryResult.GONE: "The agent was asked again before. Its answer is in the thread.",
    RetryResult.NOT_YOURS: "Somebody else asked for this. They can ask again, or you can ask the agent yourself.",
}
NOT_YOURS = "Somebody else wrote this message. They can try again, or you can ask the agent yourself."
MOST_DIGITS = 15


class Commands:
    def __init__(self, database: Database, slack: Slack, lists: Lists, after_ack: AfterAck) -> None:
        self._database, self._slack = database, slack
        self._lists, self._after_ack = lists, after_ack

    def register(self, app: AsyncApp) -> None:
        app.command(COMMAND)(self.approvals)
        app.action(Action.RETRY.value)(self.retry)
        app.action(Action.ASK_AGAIN.value)(self.ask_again)

    async def approvals(self, body: Body, ack: AsyncAck) -> None:
        await ack()
        team, url = ident(body.get("team_id")), as_text(body.get("response_url"))
        seat = Seat(person=Person(team, needed(body, "user_id")), team=team, channel=ident(body.get("channel_id")))
        word = as_text(body.get("text")).strip().casefold()
        shows = self._lists.help(seat, url, word) if word else self._lists.show(seat, url)
        self._after_ack.begin("the list", shows, seat, url)

    # Messages that an agent could not answer

    async def retry(self, body: Body, ack: AsyncAck) -> None:
        """Sends a message to the agent again, once, for the person who wrote it."""
        click = read_click(body)
        letter, seat = parse_id(click.value), click.seat
        known = letter is not None and letter.isascii() and letter.isdigit() and len(letter) <= MOST_DIGITS
        done = await self._database.run(say_again, int(letter or 0), seat.person) if known else RetryResult.GONE
        await ack()
        if done is RetryResult.NOT_YOURS:
            self._after_ack.tell(NOT_YOURS, seat)
        elif done is RetryResult.AGAIN and seat.channel and seat.message:
            message = notices.notice_message(f"{AGENT_FAILED} 🔁 Trying again.")
            self._after_ack.begin("a notice", self._slack.update(seat.channel, seat.message, message))

    async def ask_again(self, body: Body, ack: AsyncAck) -> None:
        """Tells the agent to ask for a call again, in the name of the person who asked for it."""
        click = read_click(body)
        row = await self._database.read(read_confirmation, parse_id(click.value) or "")
        told = modals.GONE
        if row is not None and stage_of(row.state, row.outcome.kind if row.outcome else None) in ASKED_AGAIN:
            said = decision_texts.ask_anew(row.asked.tool, row.asked.call_id)
            told = ASKED[await self._database.run(ask_once_more, row.id, said, click.seat.person)]
        await ack()
        self._after_ack.tell(told, click.seat, title="Ask again")
