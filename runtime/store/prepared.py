"""Statements that are compiled once. On SQLite, SQLAlchemy needs ten times as long for an execution as SQLite itself.

For frequent statements whose parameters are texts and numbers. Everything else goes through `Tx.execute`.

    _FIND = Prepared(select(t.c.id, t.c.body).where(t.c.id == bindparam("id_")))

    row = _FIND.first(tx, id_=7)        # a named tuple, or None
    _SAVE(tx, id_=7, body_="…")         # how many rows it changed
    _ADD.many(tx, [{"id": 7}, …])       # the same statement for each of these
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Delete, Select, TypeDecorator, Update
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.dml import Insert

from runtime.store.transaction import SqlDialect, Tx

Statement = Select[*tuple[Any, ...]] | Insert | Update | Delete


@dataclass(frozen=True)
class _Compiled:
    text: str
    fixed: dict[str, object]
    needed: frozenset[str]
    written: Mapping[str, Callable[[Any], Any]]  # how columns of a type of their own write a parameter
    row: Callable[[Sequence[Any]], Any]

    def complete(self, parameters: dict[str, object]) -> dict[str, object]:
        if parameters.keys() != self.needed:
            raise TypeError(f"{self.text!r} needs {sorted(self.needed)}, not {sorted(parameters)}")
        if self.written:
            parameters = parameters | {name: write(parameters[name]) for name, write in self.written.items()}
        return self.fixed | parameters if self.fixed else parameters


class Prepared:
    """A statement that is compiled once. `statement` may be a function of the dialect, for example for an upsert."""

    def __init__(self, statement: Statement | Callable[[SqlDialect], Statement]) -> None:
        self._given = statement
        self._compiled: _Compiled | None = None

    def __call__(self, tx: Tx, /, **parameters: object) -> int:
        if tx.dialect == "sqlite":
            return self._run(tx, parameters).rowcount
        return tx.execute(self._statement(tx.dialect), parameters).rowcount

    def many(self, tx: Tx, /, rows: Sequence[dict[str, object]]) -> None:
        if tx.dialect == "sqlite":
            compiled = self._on_sqlite()
            tx.sqlite.executemany(compiled.text, [compiled.complete(row) for row in rows])
        else:
            tx.execute(self._statement(tx.dialect), rows)

    def first(self, tx: Tx, /, **parameters: object) -> Any:
        if tx.dialect != "sqlite":
            return tx.execute(self._statement(tx.dialect), parameters).first()
        found = self._run(tx, parameters).fetchone()
        return None if found is None else self._on_sqlite().row(found)

    def all(self, tx: Tx, /, **parameters: object) -> list[Any]:
        if tx.dialect != "sqlite":
            return list(tx.execute(self._statement(tx.dialect), parameters).all())
        row = self._on_sqlite().row
        return [row(found) for found in self._run(tx, parameters)]

    def _run(self, tx: Tx, parameters: dict[str, object]) -> sqlite3.Cursor:
        compiled = self._on_sqlite()
        return tx.sqlite.execute(compiled.text, compiled.complete(parameters))

    def _statement(self, dialect: SqlDialect) -> Statement:
        return self._given(dialect) if callable(self._given) else self._given

    def _on_sqlite(self) -> _Compiled:
        if self._compiled is None:
            statement = self._statement("sqlite")
            dialect = sqlite.dialect(paramstyle="named")
            compiled = statement.compile(dialect=dialect)
            names = [column.name for column in statement.selected_columns] if isinstance(statement, Select) else []
            fixed = {name: value for name, value in compiled.params.items() if not compiled.binds[name].required}
            needed = frozenset(compiled.params) - frozenset(fixed)
            written = {
                name: write
                for name in needed
                if isinstance(kind := compiled.binds[name].type, TypeDecorator)
                and (write := kind.bind_processor(dialect)) is not None
            }
            row = cast("Any", namedtuple)("Found", names)
            self._compiled = _Compiled(str(compiled), fixed, needed, written, row._make)
        return self._compiled
