"""Handles events of an app that is declared as an agent: the stop button, and events that the app ignores."""

from __future__ import annotations

import asyncio

from slack_bolt.async_app import AsyncAck, AsyncApp

from bot.hosts.host import Host, Unreachable
from bot.inbound.payloads import Body, team_of_event
from bot.policy.approvers import Person
from bot.store.stops import StopPress, stop_run
from runtime.store.database import Database

_PATIENCE = 1.0


class AgentEvents:
    def __init__(self, database: Database, host: Host) -> None:
        self._database, self._host = database, host

    def register(self, app: AsyncApp) -> None:
        app.event("agent_session_stopped")(self.stopped)
        app.event("app_context_changed")(self.ignored)

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

    async def ignored(self, ack: AsyncAck) -> None:
        """Acks events that the app does not use."""
        await ack()
