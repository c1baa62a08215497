"""Opens the runtime's store: creates its tables, and ends the leases of processes that no longer exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.jobs import free_all
from adk_confirm.runtime.store.schema_version import StoreSchema, lay_out
from adk_confirm.runtime.store.seal import Seal

SCHEMA = StoreSchema("runtime", Path(__file__).with_name("schema.sql"))


async def open_store(url: str, clock: Callable[[], float] | None = None, seal: Seal | None = None) -> Database:
    """Opens the store. Raises `StoreError`, which says what to do. Without a `seal`, calls are neither sealed nor
    checked."""
    database = await Database.open(url, clock=clock, context=seal)
    try:
        await lay_out(database, SCHEMA)
        await database.run_if_alone(free_all)
    except BaseException:
        await database.close()
        raise
    return database
