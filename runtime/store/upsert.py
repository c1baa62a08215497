"""Builds `INSERT … ON CONFLICT` statements. It imports only the dialect in use, because each takes long to import."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from sqlalchemy import Executable, Table
from sqlalchemy.sql.dml import Insert

from runtime.store.transaction import SqlDialect


@cache
def insert_if_absent(dialect: SqlDialect, table: Table) -> Executable:
    """Inserts the row unless it exists. `rowcount` says whether it did."""
    statement: Executable = _insert(dialect, table).on_conflict_do_nothing().inline()
    return statement


@cache
def upsert(dialect: SqlDialect, table: Table, fixed: str | None = None) -> Insert:
    """Inserts the row, or replaces the one with its key. The column `fixed` never changes: leaving it out spares its
    index a write."""
    made = _insert(dialect, table)
    key = [column.name for column in table.primary_key]
    others = {c.name: made.excluded[c.name] for c in table.columns if c.name not in (*key, fixed)}
    statement: Insert = made.on_conflict_do_update(index_elements=key, set_=others)
    return statement


def _insert(dialect: SqlDialect, table: Table) -> Any:
    return import_module(f"sqlalchemy.dialects.{dialect}").insert(table)
