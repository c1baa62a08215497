"""Handles the opening of the Home tab or a direct message."""

from __future__ import annotations

from functools import partial

from slack_bolt.async_app import AsyncAck, AsyncApp

from bot.home.lists import Lists
from bot.home.query import HomeReader
from bot.inbound.after_ack import AfterAck
from bot.inbound.payloads import Body, team_of_event
from bot.inbound.prompts import Prompts
from bot.policy.approvers import Person
from bot.slack.directory.names import NameLookup
from bot.slack.outbound.client import Sender


class HomeEvents:
    def __init__(self, sender: Sender, names: NameLookup, lists: Lists, prompts: Prompts) -> None:
        self._lists, self._prompts = lists, prompts
        self._errands = AfterAck(sender, names)

    def register(self, app: AsyncApp) -> None:
        app.event("app_home_opened")(self.home_opened)

    async def drain(self) -> None:
        """Waits for what is being sent."""
        await self._errands.drain()

    async def home_opened(self, body: Body, ack: AsyncAck) -> None:
        event, team = body["event"], team_of_event(body)
        if event.get("tab") == "home" and team and event.get("user"):
            reader = HomeReader(person=Person(team, str(event["user"])), team=team)
            self._errands.begin("the Home tab", self._errands.retried(partial(self._lists.publish_home, reader)))
        await ack()
        channel = str(event.get("channel") or "")
        if event.get("tab") == "messages" and channel and self._prompts.wanted:
            self._errands.begin("the suggested prompts", self._prompts.suggest(channel))
