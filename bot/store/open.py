"""Opens the store that the bot and its agents share, with the tables of both."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from adk_confirm.bot.store.checkpoint_rows import secret_fits
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.store.database import Database, sqlite_path
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.runtime.store.tables import SCHEMA as RUNTIME_SCHEMA
from adk_confirm.runtime.store.tables import StoreSchema
from adk_confirm.runtime.store.tables import open_store as open_laid_out

SCHEMA = StoreSchema("bot", Path(__file__).with_name("schema.sql"))
SCHEMAS = (RUNTIME_SCHEMA, SCHEMA)

SEALED_OTHERWISE = (
    "The ledger was sealed with another secret, or its end was changed: set ADK_CONFIRM_SECRET (or what seals in its "
    "place) to what it was."
)

audit_log = logging.getLogger("adk_confirm.audit")


async def open_store(url: str, secret: str, clock: Callable[[], float] | None = None) -> Database:
    """Opens the store. Raises `StoreError`, which says what to do. The ledger can only be written with the secret it
    was begun with."""
    database = await open_laid_out(url, clock, Seal(secret), SCHEMAS)
    try:
        if not await database.read(secret_fits):
            audit_log.error(SEALED_OTHERWISE)
    except BaseException:
        await database.close()
        raise
    return database


async def open_beside(url: str, secret: str, clock: Callable[[], float] | None) -> Database:
    """Opens the store for a command, beside a service or without one. With another secret than the service's, nothing
    can be written."""
    database = await Database.open(url, clock=clock, context=Seal(secret), beside=True)
    try:
        await require_secret(database)
    except BaseException:
        await database.close()
        raise
    return database


async def require_secret(database: Database) -> None:
    """Raises `Invalid` if the ledger was sealed with another secret."""
    if not await database.read(secret_fits):
        raise Invalid(f"{SEALED_OTHERWISE} Nothing was done.")


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite store. None for another store."""
    return sqlite_path(url) if url.startswith("sqlite") else None
