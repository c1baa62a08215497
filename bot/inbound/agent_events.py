"""Slack in, for an app that is declared as an agent."""

from __future__ import annotations

from slack_bolt.async_app import AsyncAck, AsyncApp


class AgentEvents:
    def register(self, app: AsyncApp) -> None:
        for event in ("app_context_changed", "agent_session_stopped"):
            app.event(event)(self.ignored)

    async def ignored(self, ack: AsyncAck) -> None:
        """Slack sends it to every agent. Nothing of it is kept."""
        await ack()
