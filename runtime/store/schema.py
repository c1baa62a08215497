"""The version of a package's tables. A new store gets the tables as they are in the code.

To change a table of a released version: change it in `tables.py`, and append a function to the schema's `upgrades` that
changes a store of the version before in the same way. Upgrades run in order, in one transaction, when a service starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Column, Integer, MetaData, String, Table, delete, func, insert, inspect, select, text

from runtime.errors import StoreError
from runtime.store.database import Database, Tx

_versions = Table(
    "adk_confirm_versions",
    MetaData(),
    Column("package", String(32), primary_key=True),
    Column("version", Integer, nullable=False),
)
_ONE_AT_A_TIME = 0x61646B636F6E66  # the lock for replicas that start together


@dataclass(frozen=True)
class StoreSchema:
    """The tables of a package. `upgrades[0]` makes version 2 of version 1."""

    package: str
    tables: MetaData
    upgrades: tuple[Callable[[Tx], object], ...] = ()

    @property
    def version(self) -> int:
        return 1 + len(self.upgrades)

    def misfit(self, at: int | None) -> str | None:
        """Why a store of this version can't be used, and what to do. None: it can."""
        if at == self.version:
            return None
        found = f"The store's {self.package} tables are of version {at or 'none'}, and this program's {self.version}"
        if at is None or at < self.version:
            return f"{found}: start the service of this program once on the store."
        return f"{found}: a newer program was started on it. Use that one."


async def lay_out(database: Database, schema: StoreSchema) -> None:
    """Creates or upgrades the tables. Raises `StoreError` if the store can't be used."""
    at = await database.read(version, schema)
    if at != schema.version and not database.read_only:
        at = await database.run(_lay_out, schema)
    if (why := schema.misfit(at)) is not None:
        raise StoreError(why)


def version(tx: Tx, schema: StoreSchema) -> int | None:
    """The version of the store's tables. None: there are none."""
    if not inspect(tx.connection).has_table(_versions.name):
        return None
    found = select(_versions.c.version).where(_versions.c.package == schema.package)
    return tx.execute(found).scalar_one_or_none()


def _lay_out(tx: Tx, schema: StoreSchema) -> int:
    if tx.dialect == "postgresql":
        tx.execute(text("SET LOCAL lock_timeout = 0"))  # however long the first one takes
        tx.execute(select(func.pg_advisory_xact_lock(_ONE_AT_A_TIME)))
    _versions.create(tx.connection, checkfirst=True)
    at = version(tx, schema)
    if at is None:
        _create(tx, schema)
    elif at < schema.version:
        for upgrade in schema.upgrades[at - 1 :]:
            upgrade(tx)
    else:
        return at
    tx.execute(delete(_versions).where(_versions.c.package == schema.package))
    tx.execute(insert(_versions).values(package=schema.package, version=schema.version))
    return schema.version


def _create(tx: Tx, schema: StoreSchema) -> None:
    there = set(inspect(tx.connection).get_table_names()) & set(schema.tables.tables)
    if there:
        raise StoreError(
            f"The store has a table {min(there)}, but no version of it: another program made it, or an unreleased one. "
            "Use another store."
        )
    if tx.dialect == "postgresql":
        for index in (index for table in schema.tables.tables.values() for index in table.indexes):
            if "where" in index.info:
                index.dialect_options["postgresql"]["where"] = index.info["where"]
    schema.tables.create_all(tx.connection, checkfirst=False)
