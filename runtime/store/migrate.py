"""Migrates a store's tables to the version that the code expects. Each package has a history of Alembic scripts.

To add a revision to a package:

1. Write `migrations/m0002_why.py` beside the earlier ones:

       revision = "0002"
       down_revision = "0001"

       def upgrade() -> None:
           op.add_column("sessions", sa.Column("colour", sa.Text))

2. Set the history's `head` to "0002", and change the table in the code to match: a test compares them.

Expand first, contract in a later release: replicas of the version before still run on these tables, so a new column
is nullable or has a server default. Scripts only go forward. They run in one transaction with
everything before them in the same start; on SQLite they add, they don't rebuild (rebuilding a table drops it, and
what refers to it goes with it).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Column, MetaData, Select, String, Table, func, inspect, select, text

from runtime.errors import StoreError
from runtime.store.database import Database, Tx

# Alembic has one `op` per process.
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


@dataclass(frozen=True)
class MigrationHistory:
    """The revisions of one package's tables. `head` is the one for which its code was written."""

    name: str
    directory: Path
    head: str

    @property
    def version_table(self) -> str:
        return f"{self.name}_version"


async def migrate(database: Database, history: MigrationHistory) -> None:
    """Updates the schema at every start, before the first use. Alembic is imported only if there is something to do."""
    current = await database.read(version, history)
    if current == history.head:
        return
    if database.read_only:
        raise StoreError(
            f"The store's {history.name} tables are at revision {current or 'none'}, and this version of "
            f"adk-confirm reads revision {history.head}. Start the service of this version once on the store, "
            "or read it with the version that writes it."
        )
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        await database.run(_upgrade, history)


def version(tx: Tx, history: MigrationHistory) -> str | None:
    """The store's revision; None before the first."""
    if not inspect(tx.connection).has_table(history.version_table):
        return None
    current: str | None = tx.execute(_asked_version(history.version_table)).scalar_one_or_none()
    return current


@cache
def _asked_version(table: str) -> Select[*tuple[Any, ...]]:
    return select(Table(table, MetaData(), Column("version_num", String(32))).c.version_num)


def _upgrade(tx: Tx, history: MigrationHistory) -> None:
    if tx.dialect == "postgresql":
        # Replicas that start together take turns. The second has nothing left to do.
        key = int.from_bytes(blake2b(history.version_table.encode(), digest_size=8).digest(), signed=True)
        tx.execute(text("SET LOCAL lock_timeout = 0"))  # however long the first one takes
        tx.execute(select(func.pg_advisory_xact_lock(key)))
    current = version(tx, history)
    if current == history.head:
        return

    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    directory = str(history.directory)
    scripts = ScriptDirectory(directory, version_locations=[directory])
    if scripts.get_current_head() != history.head:
        raise ValueError(f"{history} does not end at {scripts.get_current_head()}, its newest script")
    try:
        scripts.get_revision(current or "base")
    except CommandError as error:
        raise StoreError(
            f"The store's {history.name} tables are at revision {current}, which this version of adk-confirm "
            f"does not know (it knows {history.head}): a newer version was started on it. Start that one."
        ) from error
    context = MigrationContext.configure(tx.connection, opts={"version_table": history.version_table})
    with Operations.context(context):
        for step in reversed(list(scripts.iterate_revisions(history.head, current or "base"))):
            step.module.upgrade()
            context.stamp(scripts, step.revision)
