"""A session's thread, brought up to date: ledger lines in their order, and what the agent said, where it belongs.

One writer a session, under a lease of its own: while Slack is slow or away, the session's agent runs all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bot.audit.ledger import LedgerLine
from bot.confirmation.model import Confirmation
from bot.hosts.host import Said
from bot.leasing.lease_loop import NotNow
from bot.store.mailbox import read_session
from bot.store.outbox import Telling, all_told, is_stale, next_telling, spoke, told_up_to
from bot.store.repository import Session, session_confirmations
from bot.store.slack_lanes import cards_under_way
from runtime.store.lease import Lease

CARDS_FIRST = 0.5
"""A card that is on its way is waited for so long at a time: people decide on it, and lines only tell of it."""


class Thread(Protocol):
    """The thread as the teller writes to it."""

    async def tell(
        self, lease: Lease, session: Session, lines: Sequence[LedgerLine], rows: Sequence[Confirmation]
    ) -> int:
        """Ledger lines as one message; the number of the last one told."""
        ...

    async def say(
        self, lease: Lease, session: Session, said: Said, *, rows: Sequence[Confirmation] = (), retry: str | None = None
    ) -> str:
        """The message's ts; the same event again is the same message."""
        ...

    async def close_left(self, lease: Lease, session: Session) -> None:
        """What the agent was saying when its run was cut."""
        ...


class Teller:
    def __init__(self, thread: Thread) -> None:
        self._thread = thread

    async def attend(self, key: str, lease: Lease) -> None:
        session = await lease.read(read_session, key)
        while (telling := await lease.read(next_telling, key)) is not None:
            if await lease.read(cards_under_way, key):
                raise NotNow(CARDS_FIRST, "A card of the session is on its way.")
            await self._tell(lease, session, telling)
        if await lease.read(is_stale, key):
            await self._thread.close_left(lease, session)
        await lease.run(all_told, key)

    async def _tell(self, lease: Lease, session: Session, telling: Telling) -> None:
        rows = await lease.read(session_confirmations, session.key)
        if telling.said is None:
            seq = await self._thread.tell(lease, session, telling.lines, rows)
            await lease.run(told_up_to, session.key, seq)
        else:
            ts = await self._thread.say(lease, session, telling.said, rows=rows, retry=telling.retry)
            await lease.run(spoke, session.key, telling.said.event, ts)
