"""Handles Slack's events besides messages: the Home tab and the direct message are opened, the stop button is pressed,
something about a person changes."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from slack_bolt.async_app import AsyncAck, AsyncApp

from bot.home.lists import Lists
from bot.home.query import HomeReader
from bot.hosts.host import Host, Unreachable
from bot.inbound.after_ack import AfterAck
from bot.inbound.payloads import Body, team_of_event
from bot.policy.approvers import Person
from bot.slack.api import Slack
from bot.slack.directory import Directory
from bot.slack.errors import SlackTrouble
from bot.slack.limits import SUGGEST_PROMPTS
from bot.store.stops import StopPress, stop_run
from runtime.store.database import Database

log = logging.getLogger(__name__)

_PATIENCE = 1.0
_LONGEST_TITLE = 60


class Events:
    """`prompts`: what the direct message with the agent suggests."""

    def __init__(
        self,
        database: Database,
        host: Host,
        slack: Slack,
        directory: Directory,
        lists: Lists,
        errands: AfterAck,
        prompts: tuple[str, ...],
    ) -> None:
        self._database, self._host, self._slack, self._directory = database, host, slack, directory
        self._lists, self._errands, self._prompts = lists, errands, prompts

    def register(self, app: AsyncApp) -> None:
        app.event("app_home_opened")(self.home_opened)
        app.event("agent_session_stopped")(self.stopped)
        app.event("user_change")(self.user_changed)
        app.event("app_context_changed")(self.ignored)

    async def home_opened(self, body: Body, ack: AsyncAck) -> None:
        """The Home tab or a direct message."""
        event, team = body["event"], team_of_event(body)
        if event.get("tab") == "home" and team and event.get("user"):
            reader = HomeReader(person=Person(team, str(event["user"])), team=team)
            self._errands.begin("the Home tab", self._errands.retried(partial(self._lists.publish_home, reader)))
        await ack()
        channel = str(event.get("channel") or "")
        if event.get("tab") == "messages" and channel and self._prompts:
            self._errands.begin("the suggested prompts", self._suggest_prompts(channel))

    async def _suggest_prompts(self, channel: str) -> None:
        """Errors are ignored, since nobody waits for the prompts."""
        prompts = [{"title": _short(one), "message": one} for one in self._prompts]
        try:
            await self._slack.call(SUGGEST_PROMPTS, channel_id=channel, prompts=prompts)
        except SlackTrouble as trouble:
            log.info("no prompts are suggested: %s", trouble)

    async def stopped(self, body: Body, ack: AsyncAck) -> None:
        """Stores that somebody pressed stop. This happens before the ack, so it works wherever the agent runs."""
        event, team = body["event"], team_of_event(body)
        channel, thread_ts, user = (str(event.get(part) or "") for part in ("channel", "thread_ts", "user"))
        if team and channel and thread_ts and user:
            stop = StopPress(
                app=self._host.app,
                team=team,
                channel=channel,
                thread_ts=thread_ts,
                person=Person(team, user),
                event=str(event.get("event_ts") or body.get("event_id") or ""),
            )
            await self._database.run(stop_run, stop, together=await self._siblings_together())
        await ack()

    async def _siblings_together(self) -> bool:
        """Whether answers of one turn wait for each other. Waits only briefly for the host, since Slack waits three
        seconds for its ack."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return (await self._host.capabilities()).siblings_together
        except (Unreachable, TimeoutError):
            return True

    async def user_changed(self, body: Body, ack: AsyncAck) -> None:
        """Somebody became a guest, left, or changed their address. Their account is looked up again at their next
        vote."""
        user = body["event"].get("user")
        if isinstance(user, dict) and isinstance(user.get("id"), str):
            self._directory.forget(user["id"])
        await ack()

    async def ignored(self, ack: AsyncAck) -> None:
        """Slack sends this event to every agent."""
        await ack()


def _short(prompt: str) -> str:
    """
    >>> _short("Deploy checkout")
    'Deploy checkout'
    >>> _short("word " * 20)
    'word word word word word word word word word word word word…'
    """
    return prompt if len(prompt) <= _LONGEST_TITLE else f"{prompt[: _LONGEST_TITLE - 1].rstrip()}…"
