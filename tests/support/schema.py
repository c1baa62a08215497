"""Checks that the migrations create the tables that the code expects."""

from __future__ import annotations

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import MetaData

from runtime.store.database import Tx


def drift(tx: Tx, metadata: MetaData) -> list[object]:
    """The differences between a migrated store and the code; empty if there are none. Ignores other packages' tables.

    `assert await database.read(drift, metadata) == []`, after `await migrate(database, HISTORY)`.
    """

    def ours(_: object, name: str | None, kind: str, reflected: bool, counterpart: object) -> bool:
        return not (kind == "table" and reflected and counterpart is None)

    options = {"include_object": ours, "compare_type": True, "compare_server_default": True}
    return list(compare_metadata(MigrationContext.configure(tx.connection, opts=options), metadata))
