"""Closes what belonged to a workspace that removed the app, since nobody there can decide any more.

Any replica closes whatever is open and belongs to a workspace that left, and continues after a crash. The removal
itself is one transaction, in `removal`.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import select, union

from bot.audit.ledger import LineKind
from bot.confirmation import decision_texts
from bot.confirmation.decision import refuse, revoke
from bot.confirmation.model import Confirmation, State
from bot.confirmation.outcome import lapse_again
from bot.confirmation.states import ConfirmationEvent, Transition
from bot.confirmation.stored_json import UnreadableRecord
from bot.policy.approvers import SLACK
from bot.slack.outbound.calls import Workspace
from bot.slack.workspaces.removal import DEPARTURES, OPEN, Departure, find_departures, of, record_closed
from bot.store.repository import lock_confirmation, now, save
from bot.store.tables import confirmations, grants, sessions
from runtime.errors import ConfirmError
from runtime.store.wakeups import until_stopped

if TYPE_CHECKING:
    from runtime.store.database import Database, Tx

log = logging.getLogger(__name__)

AT_ONCE = 50
"""How many are closed in one transaction, so that clicks of other workspaces get their turn in between."""

POLL = 60.0


def abandon(row: Confirmation, now: datetime) -> Transition:
    """Ends a confirmation: nothing of it may begin any more. What runs, or ran, is reported when it ends. If everything
    has ended, nothing changes."""
    ended = revoke(row, now, SLACK) if row.grant_until is not None else Transition(row=row)
    steps = tuple(replace(step, who=None) for step in ended.steps)
    ended, row = replace(ended, steps=steps), ended.row
    if row.state is State.WAITING:
        change = refuse(row, ConfirmationEvent.WITHDRAW, LineKind.WITHDRAWN, now, None, decision_texts.REMOVED_TO_MODEL)
    elif row.state is not State.APPROVED or row.outcome is not None or row.handed_at is not None:
        return ended
    elif row.attempt > 1:
        change = lapse_again(row, now)
    else:
        change = refuse(
            row, ConfirmationEvent.LAPSE, LineKind.LAPSED, now, None, decision_texts.APPROVED_REMOVED_TO_MODEL
        )
    return replace(change.after(*steps), revoked_by=ended.revoked_by)


class RemovalCleanup:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Runs until `stop`."""
        with self._database.waiter(DEPARTURES) as waiter:
            while not self._stopping.is_set():
                await self._look()
                await until_stopped(self._stopping, waiter.wait(POLL))

    def stop(self) -> None:
        self._stopping.set()

    async def _look(self) -> None:
        try:
            for departure in await self._database.read(find_departures):
                await self._close(departure)
        except ConfirmError as error:
            log.warning("what a workspace left open is closed later: %s", error)

    async def _close(self, departure: Departure) -> None:
        after, left = "", 0
        while True:
            some = await self._database.run(close_some, departure, after)
            left += some.left
            if some.after is None:
                break
            after = some.after
        if not left:
            await self._database.run(record_closed, departure)


@dataclass(frozen=True)
class CleanupProgress:
    """Where to continue, if there is more, and how many were `left` to a replica that can read them."""

    after: str | None
    left: int


def close_some(tx: Tx, departure: Departure, after: str) -> CleanupProgress:
    """Closes some of what belongs to a workspace or an organisation that left."""
    granted = (
        select(grants.c.id)
        .join(sessions, sessions.c.key == grants.c.session)
        .where(grants.c.revoked_at.is_(None), grants.c.until > tx.now())
        .where(of(sessions, departure.id), grants.c.id > after)
    )
    open_ = select(confirmations.c.id).where(OPEN, of(confirmations, departure.id), confirmations.c.id > after)
    ids = tx.execute(union(open_, granted).order_by("id").limit(AT_ONCE)).scalars().all()
    left = sum(not _close_one(tx, departure, confirmation) for confirmation in ids)
    return CleanupProgress(str(ids[-1]) if len(ids) == AT_ONCE else None, left)


def _close_one(tx: Tx, departure: Departure, confirmation: str) -> bool:
    """Closes one. False: this version can't read it, and a replica that can will close it."""
    try:
        session, row = lock_confirmation(tx, confirmation)
    except UnreadableRecord:
        return False
    if departure.ends(tx, Workspace.of(row.asked), row.asked_at.timestamp()):
        change = abandon(row, now(tx))
        if change.row is not row:
            save(tx, session, change)
    return True
