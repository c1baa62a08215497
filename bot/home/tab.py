"""Draws Home tabs when somebody opens theirs, and keeps them up to date for an hour afterwards.

Nothing is queued for tabs, and no click waits for them. The ledger shows whether something happened since a tab was
drawn. Each tab is checked every few seconds at most, and published only if it would look different.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass, replace

from sqlalchemy import bindparam, func, select, update

from blocks.home import home_tab
from bot.home.query import HomeQuery, HomeReader
from bot.leasing.due_rows import RowKind
from bot.policy.approvers import Person
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import Gone
from bot.store.ledger_lines import LINES
from bot.store.repository import HOMES
from bot.store.tables import homes, ledger
from runtime.errors import NotFound, StoreError
from runtime.jsontypes import JsonObject, canonical
from runtime.store.database import Database, Tx
from runtime.store.lease import Lease
from runtime.store.prepared import Prepared
from runtime.store.upsert import insert_if_absent
from runtime.store.wakeups import until_stopped

log = logging.getLogger(__name__)

KEPT_FOR = 3600.0
PAUSE = 3.0
"""The least seconds between two checks of one tab."""

_POLL, _BETWEEN = 5.0, 1.0
_STRAGGLERS = 2.0
"""A ledger line is stamped before its transaction ends. A line that is at most this much older than a check may have
been missed by it."""


@dataclass(frozen=True, kw_only=True)
class HomeTab:
    key: str
    reader: HomeReader
    version: int
    digest: str | None
    hash: str | None


class HomeTabs:
    """Decides which tabs are drawn again, and when."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stopping = asyncio.Event()

    async def opened(self, reader: HomeReader) -> None:
        await self._database.run(mark_opened, reader)

    async def run(self) -> None:
        """Makes tabs due when something has happened since they were drawn. Returns when it is stopped."""
        with self._database.waiter(LINES) as waiter:
            while not self._stopping.is_set():
                await until_stopped(self._stopping, waiter.wait(_POLL))
                await self._mark_due()
                await until_stopped(self._stopping, asyncio.sleep(_BETWEEN))

    def stop(self) -> None:
        self._stopping.set()

    async def _mark_due(self) -> None:
        try:
            if await self._database.read(is_behind):
                await self._database.run(mark_tabs_due)
        except StoreError as error:
            log.warning("the store did not answer; Home tabs stay as they are for now: %s", error)


class TabDrawer:
    """Draws the tabs that are due."""

    def __init__(self, sender: Sender, home_query: HomeQuery) -> None:
        self._sender, self._home_query = sender, home_query

    @property
    def kind(self) -> RowKind:
        return RowKind(homes, homes.c.key, HOMES, self.attend, at_once=4, can_wait=True)

    async def attend(self, key: str, lease: Lease) -> None:
        home, at = await lease.read(read_home, key)
        composed = await self._home_query.home(home.reader, home.version + 1)
        digest = _digest(home_tab(replace(composed.view, version=1)))
        if digest != home.digest:
            home = await self._publish(lease, replace(home, digest=digest), home_tab(composed.view))
        again = not composed.final or home.digest is None
        await lease.run(record_look, home, at, again)

    async def _publish(self, lease: Lease, home: HomeTab, view: JsonObject) -> HomeTab:
        """Publishes with Slack's `hash`. If another replica published meanwhile, Slack refuses, and the tab is drawn
        again."""
        reader = home.reader
        try:
            published = await self._sender.under(lease.sure).publish_home(
                reader.at, reader.person.user, view, home.hash
            )
        except Gone as gone:
            if gone.code == "hash_conflict":
                return replace(home, hash=None, digest=None, version=home.version + 1)
            log.info("the Home tab of %s stays as it is: %s", reader.person.user, gone)
            return home
        return replace(home, hash=published.hash or None, version=home.version + 1)


def _digest(view: JsonObject) -> str:
    return hashlib.sha256(canonical(view).encode("utf-8", "surrogatepass")).hexdigest()


# Transactions


def mark_opened(tx: Tx, reader: HomeReader) -> None:
    """Makes the tab due at once, whatever it showed before, since Slack may have forgotten it."""
    key, at = f"{reader.at.team}/{reader.person.user}", tx.now()
    first = {
        "key": key,
        "team": reader.at.team,
        "user_id": reader.person.user,
        "opened_at": at,
        "looked_at": 0.0,
        "version": 0,
        "due_at": at,
        "failures": 0,
    }
    if not tx.execute(insert_if_absent(tx.dialect, homes), first).rowcount:
        fresh = update(homes).where(homes.c.key == key)
        tx.execute(fresh.values(opened_at=at, due_at=at, digest=None, hash=None, parked_at=None, failures=0))
    tx.notify(HOMES)


def read_home(tx: Tx, key: str) -> tuple[HomeTab, float]:
    row = tx.execute(select(homes).where(homes.c.key == key)).one_or_none()
    if row is None:
        raise NotFound(f"Nobody opened the Home tab {key}.")
    reader = HomeReader(person=Person(row.team, row.user_id), at=Workspace.of(row))
    home = HomeTab(key=key, reader=reader, version=row.version, digest=row.digest, hash=row.hash)
    return home, tx.now()


def record_look(tx: Tx, home: HomeTab, at: float, again: bool) -> None:
    """Records what was shown, and as of when. The tab is due again if something happened after `at`, or somebody opened
    it meanwhile."""
    here = update(homes).where(homes.c.key == home.key)
    tx.execute(here.values(looked_at=at, version=home.version, owed_since=None, failures=0, trouble=None))
    since = here.where(homes.c.opened_at <= at)
    tx.execute(since.values(digest=home.digest, hash=home.hash, due_at=at + PAUSE if again else None))


_LAST_LINE = Prepared(select(func.max(ledger.c.at).label("at")))
_IS_BEHIND = (
    homes.c.opened_at > bindparam("opened_"),
    homes.c.due_at.is_(None),
    homes.c.looked_at < bindparam("looked_"),
)
_BEHIND = Prepared(select(homes.c.key).where(*_IS_BEHIND).limit(1))


def _behind_parameters(tx: Tx) -> dict[str, object] | None:
    last: float | None = _LAST_LINE.first(tx).at
    return None if last is None else {"opened_": tx.now() - KEPT_FOR, "looked_": last + _STRAGGLERS}


def is_behind(tx: Tx) -> bool:
    """Whether something has happened that an open tab may not show yet."""
    found = _behind_parameters(tx)
    return found is not None and _BEHIND.first(tx, **found) is not None


def mark_tabs_due(tx: Tx) -> None:
    found = _behind_parameters(tx)
    if found is not None:
        stirred = update(homes).where(*_IS_BEHIND).values(due_at=homes.c.looked_at + PAUSE, parked_at=None)
        tx.execute(stirred, found)
        tx.notify(HOMES)
