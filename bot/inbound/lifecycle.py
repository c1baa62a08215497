"""Handles Slack's events about people."""

from __future__ import annotations

from slack_bolt.async_app import AsyncAck, AsyncApp

from bot.inbound.payloads import Body
from bot.slack.directory.directory import Directory


class Lifecycle:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def register(self, app: AsyncApp) -> None:
        app.event("user_change")(self.user_changed)

    async def user_changed(self, body: Body, ack: AsyncAck) -> None:
        """Somebody became a guest, left, or changed their address. Their account is looked up again at their next
        vote."""
        user = body["event"].get("user")
        if isinstance(user, dict) and isinstance(user.get("id"), str):
            self._directory.forget(user["id"])
        await ack()
