"""Opens the runtime's store: updates its schema, and ends the leases of processes that no longer exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from runtime.store.database import Database
from runtime.store.migrate import MigrationHistory, migrate
from runtime.store.sessions import free_all

HISTORY = MigrationHistory("runtime", Path(__file__).parent / "migrations", "0002")


async def open_store(url: str, clock: Callable[[], float] | None = None) -> Database:
    """Opens the store. Raises `StoreError`, which says what to do."""
    database = await Database.open(url, clock=clock)
    try:
        await bring_up_to_date(database)
        await database.run_if_alone(free_all)
    except BaseException:
        await database.close()
        raise
    return database


async def bring_up_to_date(database: Database) -> None:
    """Creates or updates the runtime's tables in a database that is also used for other things."""
    await migrate(database, HISTORY)
