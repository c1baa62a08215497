"""The one store that the bot and its agents share: both schemas up to date."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import update

from bot.tables import ATTENDED
from runtime.database import Database, Tx
from runtime.migrate import History, migrate
from runtime.sessions import free_all as free_sessions
from runtime.store import bring_up_to_date

HISTORY = History("bot", Path(__file__).parent / "migrations", "0007")


async def open_store(url: str, clock: Callable[[], float] | None = None) -> Database:
    """Raises `StoreError` with what to do about it."""
    database = await Database.open(url, clock=clock)
    try:
        await bring_up_to_date(database)
        await migrate(database, HISTORY)
        await database.settle_in(free_all)
    except BaseException:
        await database.close()
        raise
    return database


def free_all(tx: Tx) -> None:
    """Whoever worked on a session or attended to a row before is gone."""
    free_sessions(tx)
    for table in ATTENDED:
        held = update(table).where(table.c.lease_token.is_not(None))
        tx.execute(held.values(lease_token=None, lease_until=None))
