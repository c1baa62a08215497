"""Slack in, about people and the app itself: a changed account, an uninstalled app, revoked tokens."""

from __future__ import annotations

from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_bolt.context.async_context import AsyncBoltContext

from bot.clicks import Body
from bot.departures import Removal
from bot.directory import Directory
from bot.slack_calls import Workspace
from bot.workspaces import Workspaces

_SAID = {
    "app_uninstalled": "The app was uninstalled from {place}.",
    "tokens_revoked": "Slack revoked this app's token for {place}.",
}


class Lifecycle:
    def __init__(self, directory: Directory, workspaces: Workspaces) -> None:
        self._directory, self._workspaces = directory, workspaces

    def register(self, app: AsyncApp) -> None:
        app.event("user_change")(self.user_changed)
        for event in _SAID:
            app.event(event)(self.removed)

    async def user_changed(self, body: Body, ack: AsyncAck) -> None:
        """Somebody became a guest, left, or got another address: it is asked again with their next vote."""
        user = body["event"].get("user")
        if isinstance(user, dict) and isinstance(user.get("id"), str):
            self._directory.forget(user["id"])
        await ack()

    async def removed(self, body: Body, context: AsyncBoltContext, ack: AsyncAck) -> None:
        event = body["event"]
        tokens = event.get("tokens")
        if event["type"] == "app_uninstalled" or (isinstance(tokens, dict) and tokens.get("bot")):
            await self._workspaces.removed(_removal(body, _SAID[event["type"]], context))
        await ack()


def _removal(body: Body, sentence: str, context: AsyncBoltContext) -> Removal:
    """An organisation's installation is told as that of one of its workspaces."""
    team = "" if context.is_enterprise_install else str(body.get("team_id") or "")
    told = body.get("event_time")
    return Removal(
        at=Workspace(team, context.enterprise_id),
        sentence=sentence,
        event=str(body.get("event_id") or ""),
        before=float(told) if isinstance(told, int | float) else None,
    )
