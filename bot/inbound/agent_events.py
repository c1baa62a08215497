"""Slack in, for an app that is declared as an agent: the stop button, and what Slack tells every agent."""

from __future__ import annotations

from slack_bolt.async_app import AsyncAck, AsyncApp

from bot.inbound.payloads import Body, told_at
from bot.policy.approvers import Person
from bot.store.stops import Stop, stop_run
from runtime.store.database import Database


class AgentEvents:
    def __init__(self, database: Database, app_name: str) -> None:
        self._database, self._app_name = database, app_name

    def register(self, app: AsyncApp) -> None:
        app.event("agent_session_stopped")(self.stopped)
        app.event("app_context_changed")(self.ignored)

    async def stopped(self, body: Body, ack: AsyncAck) -> None:
        """Somebody pressed stop. It is stored before the ack, so that it holds wherever the agent runs."""
        event, at = body["event"], told_at(body)
        channel, thread_ts, user = (str(event.get(part) or "") for part in ("channel", "thread_ts", "user"))
        if at.team and channel and thread_ts and user:
            stop = Stop(
                app=self._app_name,
                team=at.team,
                channel=channel,
                thread_ts=thread_ts,
                person=Person(at.team, user),
                event=str(event.get("event_ts") or body.get("event_id") or ""),
            )
            await self._database.run(stop_run, stop)
        await ack()

    async def ignored(self, ack: AsyncAck) -> None:
        """Nothing of it is kept."""
        await ack()
