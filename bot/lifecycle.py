"""Slack in, about people and the app itself: a changed account, an uninstalled app, revoked tokens."""

from __future__ import annotations

import logging

from slack_bolt.async_app import AsyncAck, AsyncApp

from bot.attempts import begin
from bot.clicks import Body
from bot.directory import Directory
from bot.ledger import SYSTEM, LineKind
from bot.rows import now, write_step
from bot.steps import Step
from runtime.database import Database, Tx

log = logging.getLogger(__name__)

_SAID = {
    "app_uninstalled": "The app was uninstalled from {team}.",
    "tokens_revoked": "Slack revoked this app's token for {team}.",
}


class Lifecycle:
    def __init__(self, database: Database, directory: Directory) -> None:
        self._database, self._directory = database, directory

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

    async def removed(self, body: Body, ack: AsyncAck) -> None:
        event = body["event"]
        tokens = event.get("tokens")
        if event["type"] == "app_uninstalled" or (isinstance(tokens, dict) and tokens.get("bot")):
            sentence = _SAID[event["type"]].format(team=str(body.get("team_id") or "this workspace"))
            if await self._database.run(note_removal, str(body.get("event_id") or ""), sentence):
                log.error("%s Nobody can be asked until it is installed again: set its new SLACK_BOT_TOKEN.", sentence)
        await ack()


def note_removal(tx: Tx, event_id: str, sentence: str) -> bool:
    """Once for each event, however often it is delivered."""
    if begin(tx, SYSTEM, f"event:{event_id}"[:300]) is not None:
        return False
    write_step(tx, SYSTEM, Step(kind=LineKind.UNINSTALLED, at=now(tx), text=sentence))
    return True
