"""Slack's events: messages, the Home tab and the direct message are opened, the stop button is pressed, something about
a person changes.

Whoever writes in a thread gets a note if the agent reads it later, or not at all, and learns how to stop a call.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial

from slack_bolt.async_app import AsyncAck, AsyncApp

from adk_confirm.blocks import notices
from adk_confirm.bot.confirmation.confirmation import Seat, VoteKind
from adk_confirm.bot.home.lists import Lists
from adk_confirm.bot.hosts.host import Host
from adk_confirm.bot.inbound.after_ack import AfterAck
from adk_confirm.bot.inbound.payloads import Body, ident, read_message_event, team_of
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.slack.directory import Directory
from adk_confirm.bot.slack.rate_limits import SUGGEST_PROMPTS
from adk_confirm.bot.slack.troubles import SlackTrouble
from adk_confirm.bot.store.letters import (
    MessageHint,
    MessageResult,
    SlackMessage,
    StopPress,
    receive_mention,
    receive_reply,
    stop_run,
    why_it_waits,
)
from adk_confirm.bot.telemetry.spans import work_span
from adk_confirm.runtime.jsontypes import as_object, as_text
from adk_confirm.runtime.recent_dict import RecentDict
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.telemetry import tracing

log = logging.getLogger(__name__)

HINT_AFTER = 2.0
"""A message that the agent reads within this many seconds needs no hint: its answer is one."""
_MENTIONS = 1000
_LONGEST_TITLE = 60


class Events:
    """The listeners for Slack's events. `prompts`: what the direct message with the agent suggests to say."""

    def __init__(
        self,
        database: Database,
        host: Host,
        slack: Slack,
        directory: Directory,
        lists: Lists,
        after_ack: AfterAck,
        prompts: tuple[str, ...],
    ) -> None:
        self._database, self._host, self._slack, self._directory = database, host, slack, directory
        self._lists, self._after_ack, self._prompts = lists, after_ack, prompts
        self._mentions = RecentDict[tuple[str, str, str], asyncio.Future[bool]](_MENTIONS)  # whether each is stored

    def register(self, app: AsyncApp) -> None:
        app.event("app_mention")(self.message)
        app.event("message")(self.message)
        app.event("app_home_opened")(self.home_opened)
        app.event("agent_session_stopped")(self.stopped)
        app.event("user_change")(self.user_changed)
        app.event("app_context_changed")(self.ignored)

    # Messages

    async def message(self, body: Body, context: Body, ack: AsyncAck) -> None:
        bot = as_text(context.get("bot_user_id"))
        found = read_message_event(body, self._host.app, bot)
        if found is None:
            await ack()
            return
        first = self._mentions.get(mention := (found.heard.team, found.heard.channel, found.heard.ts))
        if found.by_name and first is not None and await asyncio.shield(first):
            await ack()  # a mention arrives as two events, often at once: this is the second
            return
        stored = self._mentions[mention] = asyncio.get_running_loop().create_future()
        try:
            with work_span("mention", session=found.heard.session) as span:
                heard = replace(found.heard, trace=tracing.traceparent())
                receive = receive_mention if found.by_name else receive_reply
                listened = await self._database.run(receive, heard, found.stops)
                span.forgotten = not listened.new
        except BaseException:
            stored.set_result(False)
            raise
        stored.set_result(found.by_name)
        await ack()
        if listened.sign is not None:
            self._after_ack.begin("a hint", self._give_hint(listened, heard, bot))

    async def _give_hint(self, listened: MessageResult, heard: SlackMessage, bot: str) -> None:
        """Sends the hint to the writer alone, where they wrote."""
        seat = Seat(person=heard.person, team=heard.team, channel=heard.channel, thread_ts=heard.thread_ts)
        match listened.sign:
            case MessageHint.QUEUED | MessageHint.PAUSED:
                await asyncio.sleep(HINT_AFTER)
                why = await self._database.read(why_it_waits, listened.session, heard.ts)
                if why is not None:
                    await self._slack.whisper(seat, notices.queued_message(paused=why is MessageHint.PAUSED))
            case MessageHint.HINT:
                may = await self._lists.query.waiting(seat, listened.waiting)
                await self._slack.whisper(seat, notices.hint_message(bot, may))
            case MessageHint.SPOKE:
                if calls := await self._lists.query.waiting(seat, listened.waiting, silent=True):
                    await self._slack.whisper(seat, notices.spoke_message(calls))
            case MessageHint.STOP:
                calls = await self._lists.query.waiting(seat, listened.waiting, VoteKind.DENY)
                if calls:
                    await self._slack.whisper(seat, notices.stop_message(calls, heard.person.user))
                elif not listened.new:
                    await self._slack.whisper(seat, notices.hint_message(bot))

    # The Home tab, prompts, stops

    async def home_opened(self, body: Body, ack: AsyncAck) -> None:
        """Somebody opened the Home tab or the direct message with the app."""
        event, team = as_object(body.get("event")), team_of(body)
        user, channel = ident(event.get("user")), ident(event.get("channel"))
        if event.get("tab") == "home" and team and user:
            seat = Seat(person=Person(team, user), team=team)
            self._after_ack.begin("the Home tab", self._after_ack.retried(partial(self._lists.publish_home, seat)))
        await ack()
        if event.get("tab") == "messages" and channel and self._prompts:
            self._after_ack.begin("the suggested prompts", self._suggest_prompts(channel))

    async def _suggest_prompts(self, channel: str) -> None:
        """Errors are ignored, since nobody waits for the prompts."""
        prompts = [{"title": _short(one), "message": one} for one in self._prompts]
        try:
            await self._slack.call(SUGGEST_PROMPTS, channel_id=channel, prompts=prompts)
        except SlackTrouble as trouble:
            log.info("no prompts are suggested: %s", trouble)

    async def stopped(self, body: Body, ack: AsyncAck) -> None:
        """Stores that somebody pressed stop. This happens before the ack, so it works wherever the agent runs."""
        event, team = as_object(body.get("event")), team_of(body)
        channel, thread_ts, user = (ident(event.get(part)) for part in ("channel", "thread_ts", "user"))
        if team and channel and thread_ts and user:
            stop = StopPress(
                app=self._host.app,
                team=team,
                channel=channel,
                thread_ts=thread_ts,
                person=Person(team, user),
                event=ident(event.get("event_ts")) or ident(body.get("event_id")),
            )
            await self._database.run(stop_run, stop)
        await ack()

    async def user_changed(self, body: Body, ack: AsyncAck) -> None:
        """Somebody became a guest, left, or changed their address. Their account is looked up again at their next
        vote."""
        user = as_object(as_object(body.get("event")).get("user"))
        self._directory.forget(as_text(user.get("id")))
        await ack()

    async def ignored(self, ack: AsyncAck) -> None:
        """Acknowledges an event that Slack sends to every agent, and does nothing."""
        await ack()


def _short(prompt: str) -> str:
    """
    >>> _short("Deploy checkout")
    'Deploy checkout'
    >>> _short("word " * 20)
    'word word word word word word word word word word word word…'
    """
    return prompt if len(prompt) <= _LONGEST_TITLE else f"{prompt[: _LONGEST_TITLE - 1].rstrip()}…"
