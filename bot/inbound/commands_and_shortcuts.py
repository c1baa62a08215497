"""The `/approvals` command, the shortcut that shows a card's history, and "Try again" after an agent's failure."""

from __future__ import annotations

from contextlib import suppress

from slack_bolt.async_app import AsyncAck, AsyncApp

from blocks import verdict, words
from blocks.ids import Action, confirmation_in, parse_id
from blocks.words import AGENT_FAILED, TRIED_AGAIN
from bot.cards import forms
from bot.home.lists import Lists
from bot.home.query import HomeReader
from bot.inbound.after_ack import Addressee, AfterAck
from bot.inbound.payloads import Body, click_target, person_of, team_of_event
from bot.policy.approvers import Person
from bot.slack.api import Slack
from bot.slack.directory import Directory
from bot.slack.errors import Gone
from bot.slack.limits import UPDATE_VIEW
from bot.store.repository import read_history
from bot.store.retry import RetryResult, say_again
from runtime.jsontypes import JsonObject
from runtime.store.database import Database

COMMAND = "/approvals"
HISTORY = "adk_confirm_history"
NOT_YOURS = "Somebody else wrote this message. They can try again, or you can ask the agent yourself."
MOST_DIGITS = 15
LOOKING = "Asking Slack who can see this…"
NOT_SEEN = (
    "The history is shown to people who can see the card, and Slack did not say that you can. Use this on the card "
    "itself; if you do, try again in a minute."
)
NO_CARD = "This message is not a card. Use this on a message that asks for approval."


class Commands:
    def __init__(self, database: Database, slack: Slack, directory: Directory, lists: Lists, errands: AfterAck) -> None:
        self._database, self._slack, self._directory = database, slack, directory
        self._lists, self._errands = lists, errands

    def register(self, app: AsyncApp) -> None:
        app.command(COMMAND)(self.approvals)
        app.shortcut(HISTORY)(self.history)
        app.action(Action.RETRY.value)(self.retry)

    async def approvals(self, body: Body, ack: AsyncAck) -> None:
        await ack()
        team, channel, url = team_of_event(body), str(body["channel_id"]), str(body["response_url"])
        reader = HomeReader(person=Person(team, str(body["user_id"])), team=team)
        wants_help = str(body.get("text") or "").strip().casefold() == "help"
        show = self._lists.help if wants_help else self._lists.show
        self._errands.begin("the list", show(reader, channel, url), Addressee.reader(reader, channel, url))

    # History

    async def history(self, body: Body, ack: AsyncAck) -> None:
        await ack()
        self._errands.begin("the history", self._show_history(body), Addressee.of(body))

    async def _show_history(self, body: Body) -> None:
        """Shows the history if the person can see the card. Any app can post a message that names a confirmation, so
        Slack is asked who can see the real card. This may take longer than the trigger is valid."""
        confirmation = confirmation_in(body.get("message"))
        if confirmation is None:
            looking = verdict.notice_modal(NO_CARD, words.TITLE_HISTORY)
        else:
            looking = verdict.notice_modal(LOOKING, words.TITLE_HISTORY)
        self._slack.turn_for_view(person_of(body).user)
        opened = await self._slack.open_view(body["trigger_id"], looking)
        if confirmation is not None:
            view = await self._history_for(person_of(body), confirmation)
            with suppress(Gone):  # the person closed it meanwhile
                await self._slack.call(UPDATE_VIEW, view_id=opened, view=view)

    async def _history_for(self, person: Person, confirmation: str) -> JsonObject:
        found = await self._database.read(read_history, confirmation)
        if found is None:
            return verdict.notice_modal(NO_CARD, words.TITLE_HISTORY)
        row, _ = found
        if not await self._directory.sees_any(row.asked.team, row.card_channels, person):
            return verdict.notice_modal(NOT_SEEN, words.TITLE_HISTORY)
        return forms.history_view(*found)

    # Messages that an agent could not answer

    async def retry(self, body: Body, ack: AsyncAck) -> None:
        """Sends a message to the agent again, once, for the person who wrote it."""
        letter, voter = parse_id(body["actions"][0].get("value")), person_of(body)
        known = letter is not None and letter.isascii() and letter.isdigit() and len(letter) <= MOST_DIGITS
        done = await self._database.run(say_again, int(letter or 0), voter) if known else RetryResult.GONE
        await ack()
        target = click_target(body, voter)
        if done is RetryResult.NOT_YOURS:
            self._errands.tell(NOT_YOURS, Addressee(target))
        elif done is RetryResult.AGAIN and (channel := target.get("channel")) and (ts := target.get("message_ts")):
            message = verdict.notice_message(f"{AGENT_FAILED} {TRIED_AGAIN}")
            update = self._slack.update(str(channel), str(ts), message)
            self._errands.begin("a notice", update)
