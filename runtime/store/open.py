"""Opens the runtime's store: migrates its schema, and ends leases that nobody can hold any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from runtime.store.database import Database
from runtime.store.migrate import MigrationHistory, migrate
from runtime.store.sessions import free_all

HISTORY = MigrationHistory("runtime", Path(__file__).parent / "migrations", "0002")


async def open_store(url: str, clock: Callable[[], float] | None = None) -> Database:
    """Raises `StoreError` with what to do about it."""
    database = await Database.open(url, clock=clock)
    try:
        await bring_up_to_date(database)
        await database.settle_in(free_all)
    except BaseException:
        await database.close()
        raise
    return database


async def bring_up_to_date(database: Database) -> None:
    """The runtime's tables in a database that somebody else has opened, for more than the runtime."""
    await migrate(database, HISTORY)
