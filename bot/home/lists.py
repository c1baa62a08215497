"""What one person sees of what waits: the Home tab, and the list that `/approvals` shows.

Both are drawn when somebody asks for them, and again after their own clicks. Nothing is stored for them.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from weakref import WeakValueDictionary

from adk_confirm.blocks.home import approvals, help_message, home_tab
from adk_confirm.blocks.kit import Message
from adk_confirm.bot.confirmation.confirmation import Seat
from adk_confirm.bot.home.query import HomeQuery
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.slack.rate_limits import PUBLISH
from adk_confirm.bot.slack.troubles import Later
from adk_confirm.bot.store.ledger_rows import LINES
from adk_confirm.bot.store.repository import read_confirmation
from adk_confirm.runtime.store.database import Database

COUNTED_WITHIN = 10.0


class Lists:
    def __init__(self, database: Database, slack: Slack, home_query: HomeQuery) -> None:
        self._database, self._slack, self.query = database, slack, home_query
        self._publishing: WeakValueDictionary[Person, asyncio.Lock] = WeakValueDictionary()

    async def publish_home(self, reader: Seat) -> None:
        """Publishes this person's Home tab. Raises `Later` if Slack is busy, or could not yet say what is for them."""
        async with self._publishing.setdefault(reader.person, asyncio.Lock()):  # what was read last is published last
            composed = await self.query.home(reader, _version())
            await self._slack.call(PUBLISH, user_id=reader.person.user, view=home_tab(composed.view))
        if not composed.final:
            raise Later("a lookup for the Home tab", 0.0)

    async def show(self, reader: Seat, url: str) -> None:
        """Shows what waits for this person, and what else waits in this channel."""
        await self._tell(reader, url, approvals(await self.query.approvals_list(reader, _version())))

    async def help(self, reader: Seat, url: str, word: str) -> None:
        await self._tell(reader, url, help_message(word))

    async def redraw(self, reader: Seat, url: str) -> None:
        """Draws the list again after a click in it. Buttons that no longer work disappear."""
        message = approvals(await self.query.approvals_list(reader, _version()))
        await self._slack.respond(url, message, replace_original=True)

    async def counted(self, confirmation: str, vote: str) -> None:
        """Waits until this vote is counted, but not for long: who presses again learns that it counts already."""
        with self._database.waiter(LINES) as waiter, suppress(TimeoutError):
            async with asyncio.timeout(COUNTED_WITHIN):
                while row := await self._database.read(read_confirmation, confirmation):
                    if all(pending.id != vote for pending in row.pending_votes):
                        return
                    await waiter.wait(0.5)

    async def _tell(self, reader: Seat, url: str, message: Message) -> None:
        if await self._slack.respond(url, message):
            return
        await self._slack.whisper(reader, message)


def _version() -> int:
    """A new number for each drawing, since Slack requires new block ids when a message changes."""
    return time.time_ns() // 1_000_000
