"""Prepared statements do the same as SQLAlchemy, on both databases."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, Double, Integer, MetaData, Table, Text, bindparam, insert, select, update

from runtime.errors import StoreError
from runtime.store.database import Database, Tx
from runtime.store.prepared import Prepared

notes = Table(
    "prepared_notes",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("text", Text),
    Column("at", Double),
    Column("tries", Integer, nullable=False),
)

_ADD = Prepared(insert(notes).values({column.name: bindparam(f"{column.name}_") for column in notes.c}))
_FIND = Prepared(select(notes).where(notes.c.id == bindparam("id_")))
_LATEST = Prepared(select(notes.c.id).order_by(notes.c.id.desc()).limit(2))
_CLEAR = Prepared(update(notes).where(notes.c.id == bindparam("id_")).values(text=bindparam("text_"), tries=0, at=None))


def _add(tx: Tx, *ids: int) -> None:
    for number in ids:
        _ADD(tx, id_=number, text_=f"note {number} · “ü”", at_=number / 4, tries_=3)


async def _filled(database: Database) -> None:
    await database.run(lambda tx: notes.create(tx.connection))
    await database.run(_add, 1, 2, 3)


async def test_it_finds_and_changes_rows(database: Database) -> None:
    await _filled(database)
    row = await database.read(lambda tx: _FIND.first(tx, id_=3))
    assert (row.id, row.text, row.at, row.tries) == (3, "note 3 · “ü”", 0.75, 3)
    assert await database.read(lambda tx: _FIND.first(tx, id_=4)) is None
    assert [row.id for row in await database.read(_LATEST.all)] == [3, 2]
    assert await database.run(lambda tx: _CLEAR(tx, id_=3, text_=None)) == 1
    assert await database.run(lambda tx: _CLEAR(tx, id_=4, text_=None)) == 0
    assert tuple(await database.read(lambda tx: _FIND.first(tx, id_=3))) == (3, None, None, 0)


async def test_what_it_was_not_given_is_not_taken_for_nothing() -> None:
    database = await Database.open(":memory:")
    await _filled(database)
    with pytest.raises(TypeError, match="text_"):
        await database.run(lambda tx: _CLEAR(tx, id_=3))
    assert (await database.read(lambda tx: _FIND.first(tx, id_=3))).text is not None
    await database.close()


async def test_it_takes_part_in_its_transaction(database: Database) -> None:
    await _filled(database)

    def half_done(tx: Tx) -> None:
        _CLEAR(tx, id_=1, text_="lost")
        raise StoreError("enough")

    with pytest.raises(StoreError, match="enough"):
        await database.run(half_done)
    assert (await database.read(lambda tx: _FIND.first(tx, id_=1))).text == "note 1 · “ü”"
