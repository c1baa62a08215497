"""Statements with named parameters, made once.

_FIND = Prepared(select(t.c.id, t.c.body).where(t.c.id == bindparam("id_")))

row = _FIND.first(tx, id_=7)        # a named tuple, or None
_SAVE(tx, id_=7, body_="…")         # how many rows it changed
_ADD.many(tx, [{"id": 7}, …])       # the same statement for each of these
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import CursorResult, Delete, Select, Update
from sqlalchemy.sql.dml import Insert

from runtime.store.transaction import SqlDialect, Tx

Statement = Select[*tuple[Any, ...]] | Insert | Update | Delete


class Prepared:
    """`statement` may be a function of the dialect, for example for an upsert."""

    def __init__(self, statement: Statement | Callable[[SqlDialect], Statement]) -> None:
        self._given = statement

    def __call__(self, tx: Tx, /, **parameters: object) -> int:
        return self._run(tx, parameters).rowcount

    def many(self, tx: Tx, /, rows: Sequence[dict[str, object]]) -> None:
        self._run(tx, rows)

    def first(self, tx: Tx, /, **parameters: object) -> Any:
        return self._run(tx, parameters).first()

    def all(self, tx: Tx, /, **parameters: object) -> Sequence[Any]:
        return self._run(tx, parameters).all()

    def _run(self, tx: Tx, parameters: dict[str, object] | Sequence[dict[str, object]]) -> CursorResult[Any]:
        statement = self._given(tx.dialect) if callable(self._given) else self._given
        return tx.execute(statement, parameters)
