"""Migrations: new, older, newer and broken stores, and replicas that start at the same time."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Column, Index, Integer, MetaData, Table, Text, text

from runtime.errors import StoreError
from runtime.store.database import Database, Tx
from runtime.store.migrate import MigrationHistory, migrate, version
from tests.support.kill import child, here
from tests.support.schema import drift

HERE = Path(__file__).parent / "example_history"
HISTORY = MigrationHistory("example", HERE, head="0002")

metadata = MetaData()
Table(
    "notes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("words", Text, nullable=False),
    Column("colour", Text),
    Index("notes_by_colour", "colour"),
)


@pytest.fixture
def database_url(blank_url: str) -> str:
    """What comes up to date here starts from nothing."""
    return blank_url


@pytest.fixture
def first_release(tmp_path: Path) -> MigrationHistory:
    """The same package as it was when it had one revision."""
    directory = tmp_path / "first release"
    directory.mkdir()
    shutil.copy(HERE / "m0001_notes.py", directory)
    return MigrationHistory("example", directory, head="0001")


def note(tx: Tx, words: str) -> None:
    tx.execute(text("INSERT INTO notes (words) VALUES (:words)"), {"words": words})


def notes(tx: Tx) -> list[tuple[str, str | None]]:
    return [(row.words, row.colour) for row in tx.execute(text("SELECT words, colour FROM notes ORDER BY words"))]


def insert_into(tx: Tx) -> None:
    tx.execute(text("INSERT INTO notes (id, words, colour) VALUES (7, 'new', 'blue')"))


async def test_a_fresh_store_gets_all_revisions(database: Database) -> None:
    assert await database.read(version, HISTORY) is None
    await migrate(database, HISTORY)
    assert await database.read(version, HISTORY) == "0002"
    assert await database.read(drift, metadata) == []
    await migrate(database, HISTORY)
    assert await database.read(version, HISTORY) == "0002"


async def test_an_older_store_is_brought_up_with_what_it_holds(
    database: Database, first_release: MigrationHistory
) -> None:
    await migrate(database, first_release)
    assert await database.read(drift, metadata) != []
    await database.run(lambda tx: tx.execute(text("INSERT INTO notes (id, words) VALUES (1, 'old')")))
    await migrate(database, HISTORY)
    await database.run(insert_into)
    assert await database.read(notes) == [("new", "blue"), ("old", None)]
    assert await database.read(drift, metadata) == []


async def test_a_store_of_a_newer_version_is_refused(database: Database, first_release: MigrationHistory) -> None:
    await migrate(database, HISTORY)
    with pytest.raises(StoreError) as refused:
        await migrate(database, first_release)
    assert str(refused.value) == (
        "The store's example tables are at revision 0002, which this version of adk-confirm does not know "
        "(it knows 0001): a newer version was started on it. Start that one."
    )
    assert await database.read(version, HISTORY) == "0002"


async def test_a_reader_changes_nothing_and_says_what_to_do(database_url: str, first_release: MigrationHistory) -> None:
    writer = await Database.open(database_url)
    await migrate(writer, first_release)
    reader = await Database.open(database_url, read_only=True)
    await migrate(reader, first_release)
    with pytest.raises(StoreError, match="at revision 0001, and this version of adk-confirm reads revision 0002"):
        await migrate(reader, HISTORY)
    assert await writer.read(version, HISTORY) == "0001"
    with pytest.raises(StoreError, match="tables are at revision none"):
        await migrate(reader, replace(HISTORY, name="bot"))
    await reader.close()
    await writer.close()


async def test_packages_have_histories_of_their_own(database: Database, tmp_path: Path) -> None:
    (tmp_path / "m0001_other.py").write_text(
        "from alembic import op\n"
        "import sqlalchemy as sa\n"
        "revision, down_revision = '0001', None\n"
        "def upgrade() -> None: op.create_table('others', sa.Column('id', sa.Integer, primary_key=True))\n"
    )
    other = MigrationHistory("other", tmp_path, head="0001")
    await asyncio.gather(migrate(database, HISTORY), migrate(database, other))
    assert await database.read(version, HISTORY) == "0002"
    assert await database.read(version, other) == "0001"
    assert await database.read(drift, metadata) == []


async def test_a_revision_that_fails_leaves_the_store_as_it_was(
    database: Database, first_release: MigrationHistory, tmp_path: Path
) -> None:
    await migrate(database, first_release)
    shutil.copy(HERE / "m0002_colours.py", first_release.directory)
    (first_release.directory / "m0003_broken.py").write_text(
        "from alembic import op\n"
        "revision, down_revision = '0003', '0002'\n"
        "def upgrade() -> None:\n"
        "    op.execute('CREATE TABLE half (id INTEGER)')\n"
        "    raise ValueError('the third revision is broken')\n"
    )
    with pytest.raises(ValueError, match="the third revision is broken"):
        await migrate(database, replace(first_release, head="0003"))
    assert await database.read(version, HISTORY) == "0001"

    def tables(tx: Tx) -> bool:
        from sqlalchemy import inspect

        return inspect(tx.connection).has_table("half")

    assert not await database.read(tables)
    await migrate(database, HISTORY)
    assert await database.read(drift, metadata) == []


async def test_a_head_that_was_not_moved_is_an_error_of_ours(database: Database) -> None:
    with pytest.raises(ValueError, match="does not end at 0002, its newest script"):
        await migrate(database, replace(HISTORY, head="0001"))


async def test_replicas_that_start_together_take_turns(postgres_url: str) -> None:
    replicas = [await Database.open(postgres_url) for _ in range(4)]
    await asyncio.gather(*(migrate(replica, HISTORY) for replica in replicas))
    assert await replicas[0].read(version, HISTORY) == "0002"
    for replica in replicas:
        await replica.close()


async def start_and_migrate(url: str) -> None:
    here("started")
    database = await Database.open(url)
    await migrate(database, HISTORY)
    await database.close()


async def test_processes_that_start_together_take_turns(postgres_url: str) -> None:
    """`op` is one per process, so only processes of their own show that the lock is the database's."""
    async with child(start_and_migrate, postgres_url) as one, child(start_and_migrate, postgres_url) as two:
        await asyncio.gather(one.reached("started"), two.reached("started"))
        one.go_on()
        two.go_on()
        await asyncio.gather(one.finished(), two.finished())
    database = await Database.open(postgres_url)
    assert await database.read(drift, metadata) == []
    await database.close()


async def test_a_store_that_is_up_to_date_does_not_load_alembic(sqlite_url: str) -> None:
    database = await Database.open(sqlite_url)
    await migrate(database, HISTORY)
    await database.close()
    script = (
        "import asyncio, sys; from pathlib import Path\n"
        "from runtime.store.database import Database; from runtime.store.migrate import MigrationHistory, migrate\n"
        "async def start():\n"
        "    database = await Database.open(sys.argv[1])\n"
        "    await migrate(database, MigrationHistory('example', Path('nowhere'), head='0002'))\n"
        "    await database.close()\n"
        "asyncio.run(start())\n"
        "print('alembic' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", script, sqlite_url], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
