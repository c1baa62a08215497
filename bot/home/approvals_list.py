"""The list that `/approvals` shows. Only one person sees it. It is updated through the response URL that Slack gave."""

from __future__ import annotations

import asyncio
import time

from blocks.home import approvals, help_message
from blocks.kit import Message
from bot.home.query import HomeQuery, HomeReader
from bot.slack.outbound.client import Sender
from bot.store.ledger_lines import LINES
from bot.store.repository import read_confirmation
from runtime.jsontypes import JsonObject
from runtime.store.database import Database

COUNTED_WITHIN = 10.0


class ApprovalsList:
    def __init__(self, database: Database, sender: Sender, home_query: HomeQuery) -> None:
        self._database, self._sender, self._home_query = database, sender, home_query

    async def show(self, reader: HomeReader, channel: str, url: str) -> None:
        """Shows what waits for this person, and what else waits in this channel."""
        await self._tell(
            reader, channel, url, approvals(await self._home_query.approvals_list(reader, channel, _version()))
        )

    async def help(self, reader: HomeReader, channel: str, url: str) -> None:
        await self._tell(reader, channel, url, help_message())

    async def redraw(self, reader: HomeReader, channel: str, url: str, votes: dict[str, str]) -> None:
        """Draws the list again after clicks in it, once these votes (by confirmation) are counted. Buttons that no
        longer work disappear."""
        with self._database.waiter(LINES) as waiter:
            try:
                async with asyncio.timeout(COUNTED_WITHIN):
                    while await self._any_pending(votes):
                        await waiter.wait(0.5)
            except TimeoutError:
                pass  # the list still shows their buttons; who presses again learns that their vote counts already
        message = approvals(await self._home_query.approvals_list(reader, channel, _version()))
        await self._sender.respond(url, message, replace_original=True)

    async def _any_pending(self, votes: dict[str, str]) -> bool:
        for confirmation, vote in votes.items():
            row = await self._database.read(read_confirmation, confirmation)
            if row is not None and any(pending.id == vote for pending in row.pending_votes):
                return True
        return False

    async def _tell(self, reader: HomeReader, channel: str, url: str, message: Message) -> None:
        if await self._sender.respond(url, message):
            return
        person, at = reader.person, reader.at
        target: JsonObject = {"team": at.team, "user": person.user, "channel": channel}
        await self._sender.whisper(target, message)


def _version() -> int:
    """A new number for each drawing, since Slack requires new block ids when a message changes."""
    return time.time_ns() // 1_000_000
