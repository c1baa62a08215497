"""The tables' version: new, older, newer and foreign stores, and replicas that start at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.postgres import SESSION
from adk_confirm.runtime.store.tables import SCHEMA, StoreSchema, lay_out, version
from tests.support.kill import child, here


def add_colours(tx: Tx) -> None:
    tx.run("ALTER TABLE notes ADD COLUMN colour TEXT")
    tx.run("CREATE INDEX notes_by_colour ON notes (colour)")


FIRST = StoreSchema("example", Path(__file__).with_name("notes_1.sql"))
SECOND = StoreSchema("example", Path(__file__).with_name("notes_2.sql"), (add_colours,))


@pytest.fixture
def database_url(blank_url: str) -> str:
    """What is laid out here starts from nothing."""
    return blank_url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """Without a secret, which is noted in the runtime's tables."""
    opened = await Database.open(database_url)
    yield opened
    await opened.close()


def shape(tx: Tx) -> object:
    if tx.dialect == "sqlite":
        return tx.all("SELECT name, type, \"notnull\" FROM pragma_table_info('notes')"), tx.all(
            "SELECT name FROM pragma_index_list('notes') ORDER BY name"
        )
    columns = "SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_name = 'notes'"
    return tx.all(f"{columns} ORDER BY 1"), tx.all(
        "SELECT indexdef FROM pg_indexes WHERE tablename = 'notes' ORDER BY 1"
    )


def start_anew(tx: Tx) -> None:
    tx.run("DROP TABLE notes")
    tx.run("DELETE FROM adk_confirm_versions")


async def test_the_first_real_migration(database: Database) -> None:
    """An upgrade keeps what is stored, and leaves the tables that a new store gets."""
    await lay_out(database, FIRST)
    await database.run(lambda tx: tx.run("INSERT INTO notes (id, words) VALUES (1, 'old')"))
    await lay_out(database, SECOND)
    await lay_out(database, SECOND)
    assert await database.read(version, SECOND) == 2
    assert await database.read(lambda tx: tx.all("SELECT words, colour FROM notes")) == [("old", None)]
    upgraded = await database.read(shape)
    await database.run(start_anew)
    await lay_out(database, SECOND)
    assert await database.read(shape) == upgraded


async def test_an_upgrade_may_take_longer_than_other_statements(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SESSION, "statement_timeout", "200")

    def slowly(tx: Tx) -> None:
        tx.all("SELECT pg_sleep(0.5)")
        add_colours(tx)

    database = await Database.open(postgres_url)
    await lay_out(database, FIRST)
    await lay_out(database, replace(SECOND, upgrades=(slowly,)))
    assert await database.read(version, SECOND) == 2
    await database.close()


async def test_one_that_fails_leaves_the_store_as_it_was(database: Database) -> None:
    def breaks(tx: Tx) -> None:
        raise ValueError("the second upgrade is broken")

    await lay_out(database, FIRST)
    before = await database.read(shape)
    with pytest.raises(ValueError, match="the second upgrade is broken"):
        await lay_out(database, replace(SECOND, upgrades=(add_colours, breaks)))
    assert await database.read(version, FIRST) == 1
    assert await database.read(shape) == before


async def test_a_store_of_a_newer_version_is_refused(database: Database) -> None:
    await lay_out(database, SECOND)
    with pytest.raises(StoreError) as refused:
        await lay_out(database, FIRST)
    assert str(refused.value) == (
        "The store's example tables are of version 2, and this program's 1: a newer program was started on it. Use "
        "that one."
    )


async def test_a_reader_changes_nothing_and_says_what_to_do(database_url: str, database: Database) -> None:
    await lay_out(database, FIRST)
    reader = await Database.open(database_url, read_only=True)
    await lay_out(reader, FIRST)
    with pytest.raises(StoreError, match=r"of version 1, and this program's 2: start the service .* once on the store"):
        await lay_out(reader, SECOND)
    with pytest.raises(StoreError, match="The store's runtime tables are of version none"):
        await lay_out(reader, SCHEMA)
    await reader.close()


async def test_a_store_with_tables_of_another_program_is_refused(database: Database) -> None:
    await database.run(lambda tx: tx.run("CREATE TABLE notes (id INTEGER)"))
    with pytest.raises(StoreError, match="has a table notes, but no version of it"):
        await lay_out(database, FIRST)


async def start(url: str) -> None:
    here("started")
    database = await Database.open(url)
    await lay_out(database, SCHEMA)
    await database.close()


async def test_processes_that_start_together_take_turns(postgres_url: str) -> None:
    async with child(start, postgres_url) as one, child(start, postgres_url) as two:
        await asyncio.gather(one.reached("started"), two.reached("started"))
        one.go_on()
        two.go_on()
        await asyncio.gather(one.finished(), two.finished())
