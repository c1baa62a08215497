"""Handles Slack's events about people and the app itself: changed accounts, an uninstalled app, revoked tokens, and
workspaces in which an organisation may use the app or no longer may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_bolt.context.async_context import AsyncBoltContext
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse

from bot.inbound.payloads import Body
from bot.slack.directory.directory import Directory
from bot.slack.outbound.calls import Workspace
from bot.slack.workspaces.removal import AccessChange, Removal
from bot.slack.workspaces.tokens import Workspaces

_SAID = {
    "app_uninstalled": "The app was uninstalled from {place}.",
    "tokens_revoked": "Slack revoked this app's token for {place}.",
}

_ACCESS = {"team_access_granted": True, "team_access_revoked": False}


class Lifecycle:
    def __init__(self, directory: Directory, workspaces: Workspaces) -> None:
        self._directory, self._workspaces = directory, workspaces

    def register(self, app: AsyncApp) -> None:
        app.event("user_change")(self.user_changed)
        for event in _SAID:
            app.event(event)(self.removed)
        for event in _ACCESS:
            app.event(event)(self.access)

    async def user_changed(self, body: Body, ack: AsyncAck) -> None:
        """Somebody became a guest, left, or changed their address. Their account is looked up again at their next
        vote."""
        user = body["event"].get("user")
        if isinstance(user, dict) and isinstance(user.get("id"), str):
            self._directory.forget(user["id"])
        await ack()

    async def removed(self, body: Body, context: AsyncBoltContext, ack: AsyncAck) -> None:
        event = body["event"]
        tokens = event.get("tokens")
        if event["type"] == "app_uninstalled" or (isinstance(tokens, dict) and tokens.get("bot")):
            await self._workspaces.handle_removal(_removal(body, _SAID[event["type"]], context))
        await ack()

    async def access(self, body: Body, context: AsyncBoltContext, ack: AsyncAck) -> None:
        event = body["event"]
        teams, enterprise = event.get("team_ids"), context.enterprise_id
        if isinstance(teams, list) and enterprise:
            access = AccessChange(
                enterprise=enterprise,
                teams=tuple(team for team in teams if isinstance(team, str)),
                granted=_ACCESS[event["type"]],
                at=float(event.get("event_ts") or body["event_time"]),
            )
            await self._workspaces.handle_access_change(access)
        await ack()


class InstallationOfEvent(AsyncMiddleware):
    """Runs before Bolt looks for a token. Slack sends events about an organisation's grants with a workspace's id, for
    which there may be no token yet, or none any more."""

    async def async_process(
        self,
        *,
        req: AsyncBoltRequest,
        resp: BoltResponse,  # noqa: ARG002  (likewise)
        next: Callable[[], Awaitable[BoltResponse]],  # noqa: A002  (Bolt's)
    ) -> BoltResponse | None:
        event = req.body.get("event")
        if isinstance(event, dict) and event.get("type") in _ACCESS:
            req.context["team_id"], req.context["is_enterprise_install"] = None, True
        return await next()


def _removal(body: Body, sentence: str, context: AsyncBoltContext) -> Removal:
    """Slack reports the removal from an organisation as that of one of its workspaces."""
    team = "" if context.is_enterprise_install else str(body.get("team_id") or "")
    event_time = body.get("event_time")
    return Removal(
        at=Workspace(team, context.enterprise_id),
        sentence=sentence,
        event=str(body.get("event_id") or ""),
        before=float(event_time) if isinstance(event_time, int | float) else None,
    )
