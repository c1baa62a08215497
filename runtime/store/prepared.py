"""Statements that are compiled once: on SQLite, SQLAlchemy's care of one execution costs ten times what SQLite's does.

For the few that every click runs, whose parameters are texts and numbers; everything else goes through `Tx.execute`.

    _FIND = Prepared(select(t.c.id, t.c.body).where(t.c.id == bindparam("id_")))

    row = _FIND.first(tx, id_=7)        # a named tuple, or None
    _SAVE(tx, id_=7, body_="…")         # how many rows it changed
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Select, Update
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.dml import Insert

from runtime.store.transaction import Tx


@dataclass(frozen=True)
class _Compiled:
    text: str
    fixed: dict[str, object]
    needed: frozenset[str]
    row: Callable[[Sequence[Any]], Any]


class Prepared:
    def __init__(self, statement: Select[*tuple[Any, ...]] | Insert | Update) -> None:
        self._statement = statement
        self._compiled: _Compiled | None = None

    def __call__(self, tx: Tx, /, **parameters: object) -> int:
        if tx.dialect == "sqlite":
            return self._run(tx, parameters).rowcount
        return tx.execute(self._statement, parameters).rowcount

    def first(self, tx: Tx, /, **parameters: object) -> Any:
        if tx.dialect != "sqlite":
            return tx.execute(self._statement, parameters).first()
        found = self._run(tx, parameters).fetchone()
        return None if found is None else self._on_sqlite().row(found)

    def all(self, tx: Tx, /, **parameters: object) -> list[Any]:
        if tx.dialect != "sqlite":
            return list(tx.execute(self._statement, parameters).all())
        row = self._on_sqlite().row
        return [row(found) for found in self._run(tx, parameters)]

    def _run(self, tx: Tx, parameters: dict[str, object]) -> sqlite3.Cursor:
        compiled = self._on_sqlite()
        if parameters.keys() != compiled.needed:
            raise TypeError(f"{compiled.text!r} needs {sorted(compiled.needed)}, not {sorted(parameters)}")
        raw = tx.connection.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        return raw.execute(compiled.text, compiled.fixed | parameters)

    def _on_sqlite(self) -> _Compiled:
        if self._compiled is None:
            compiled = self._statement.compile(dialect=sqlite.dialect(paramstyle="named"))
            names = (
                [column.name for column in self._statement.selected_columns]
                if isinstance(self._statement, Select)
                else []
            )
            fixed = {name: value for name, value in compiled.params.items() if not compiled.binds[name].required}
            needed = frozenset(compiled.params) - frozenset(fixed)
            row = cast("Any", namedtuple)("Found", names)
            self._compiled = _Compiled(str(compiled), fixed, needed, row._make)
        return self._compiled
