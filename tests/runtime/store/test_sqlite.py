"""What only SQLite has: the file, its lock, its readers, and a full disk."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.sqlite import MOST_KNOWN
from tests.support.kill import child, here
from tests.support.stores import together


def create(tx: Tx) -> None:
    tx.run("CREATE TABLE parcels (id INTEGER PRIMARY KEY, content BLOB NOT NULL)")


def put(tx: Tx, number: int, size: int = 10) -> None:
    tx.insert("parcels", {"id": number, "content": b"x" * size})


def count(tx: Tx) -> int:
    n: int = tx.value("SELECT count(*) FROM parcels")
    return n


def bound_the_disk(tx: Tx) -> None:
    """From here on the file can't grow by more than a few pages."""
    pages: int = tx.value("PRAGMA page_count")
    tx.value(f"PRAGMA max_page_count={pages + 4}")


@pytest.fixture
async def database(sqlite_url: str) -> AsyncIterator[Database]:
    """A store with a table of its own."""
    opened = await Database.open(sqlite_url)
    await opened.run(create)
    yield opened
    await opened.close()


async def test_a_full_disk_fails_the_whole_group_and_then_the_store_goes_on(database: Database) -> None:
    await database.run(bound_the_disk)
    answers = await together(
        database, database.run(put, 1), database.run(count), database.run(put, 2, 1_000_000), database.run(put, 3)
    )
    *lost, after = answers
    assert [type(answer) for answer in lost] == [StoreError] * 3
    assert {str(answer) for answer in lost} == {
        "SQLite could not do this (database or disk is full). Nothing of it was stored."
    }
    assert (after, await database.read(count)) == (None, 1)


async def test_a_refusal_that_rests_on_what_was_not_stored_is_no_answer(database: Database) -> None:
    """The second saw what the first wrote; when that is lost, "there already" would be a lie."""
    await database.run(bound_the_disk)
    _, refused, _ = await together(
        database, database.run(put, 1), database.run(put, 1), database.run(put, 2, 1_000_000)
    )
    assert isinstance(refused, StoreError)
    await database.run(put, 1)


async def test_a_commit_that_fails_fails_the_group(database: Database) -> None:
    """A deferred constraint is looked at in the commit: nobody of the group has been told anything before."""
    await database.run(
        lambda tx: tx.run("CREATE TABLE labels (parcel REFERENCES parcels (id) DEFERRABLE INITIALLY DEFERRED)")
    )
    answers = await together(
        database, database.run(put, 1), database.run(lambda tx: tx.run("INSERT INTO labels VALUES (99)"))
    )
    assert [str(answer) for answer in answers] == [
        "SQLite could not do this (FOREIGN KEY constraint failed). Nothing of it was stored."
    ] * 2
    assert await database.read(count) == 0


async def test_a_function_that_ends_the_transaction_is_found_out(database: Database) -> None:
    with pytest.raises(StoreError, match="ended from inside"):
        await database.run(lambda tx: tx.run("ROLLBACK"))
    await database.run(put, 1)
    assert await database.read(count) == 1


async def test_when_the_writer_breaks_nobody_waits_for_ever(database: Database) -> None:
    def break_it(tx: Tx) -> None:
        tx._connection.close()

    answers = await asyncio.wait_for(together(database, database.run(put, 1), database.run(break_it)), 60)
    assert {str(answer) for answer in answers} == {
        "SQLite's writer broke (Cannot operate on a closed database.). Nothing of it was stored. Restart this process."
    }
    with pytest.raises(StoreError, match="The store is closed"):
        await database.run(put, 2)
    assert await database.read(count) == 0


async def test_those_that_wait_together_share_one_commit(database: Database) -> None:
    commits: list[str] = []

    def watch(tx: Tx) -> None:
        tx._connection.set_trace_callback(
            lambda statement: commits.append(statement) if statement == "COMMIT" else None
        )

    await database.run(watch)
    commits.clear()
    await together(database, *(database.run(put, number) for number in range(300)))
    assert 2 <= len(commits) <= 3  # 256 and the rest; before them, perhaps, the one that held them up


async def test_a_second_writer_is_refused_and_readers_are_not(sqlite_url: str, tmp_path: Path) -> None:
    first = await Database.open(sqlite_url)
    await first.run(create)
    with pytest.raises(StoreError, match="already served by process") as refused:
        await Database.open(sqlite_url)
    assert "use PostgreSQL to run several" in str(refused.value)

    reader = await Database.open(sqlite_url, read_only=True)
    assert await reader.read(count) == 0
    await first.run(put, 1)
    assert await reader.read(count) == 1
    with pytest.raises(StoreError, match="opened for reading only"):
        await reader.run(put, 2)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await reader.read(put, 2)
    await first.close()
    assert await reader.read(count) == 1
    await reader.close()

    second = await Database.open(f"sqlite:///{tmp_path}/../{tmp_path.name}/store.db")
    assert await second.read(count) == 1
    await second.close()


async def test_readers_do_not_wait_for_a_writer_that_takes_long(database: Database) -> None:
    go_on = threading.Event()
    writing = asyncio.create_task(database.run(lambda _: go_on.wait()))
    assert await asyncio.gather(*(database.read(count) for _ in range(20))) == [0] * 20
    assert not writing.done()
    go_on.set()
    await writing


async def test_files_that_are_no_store_get_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"There is no store at .*/store\.db yet"):
        await Database.open(f"sqlite:///{tmp_path}/store.db", read_only=True)
    assert list(tmp_path.iterdir()) == []

    with pytest.raises(StoreError, match=r"missing/store\.db\.lock can't be written \(No such file"):
        await Database.open(f"sqlite:///{tmp_path}/missing/store.db")

    (tmp_path / "picture.db").write_bytes(b"GIF89a" * 1000)
    for read_only in (False, True):
        with pytest.raises(StoreError, match=r"picture\.db can't be .* as a SQLite store: file is not a database"):
            await Database.open(f"sqlite:///{tmp_path}/picture.db", read_only=read_only)

    (tmp_path / "directory.db").mkdir()
    with pytest.raises(StoreError, match=r"directory\.db can't be opened as a SQLite store: unable to open"):
        await Database.open(f"sqlite:///{tmp_path}/directory.db")


async def test_a_damaged_file_gets_a_sentence(sqlite_url: str, tmp_path: Path) -> None:
    database = await Database.open(sqlite_url)
    await database.run(create)
    for number in range(20):
        await database.run(put, number, 3_000)
    await database.close()
    with (tmp_path / "store.db").open("r+b") as file:
        file.seek(2 * 4096)
        file.write(b"\xff" * 60_000)

    database = await Database.open(sqlite_url)
    for asking in (database.read, database.run):
        with pytest.raises(StoreError, match="database disk image is malformed"):
            await asking(lambda tx: tx.all("SELECT * FROM parcels"))
    await database.close()


async def test_what_is_answered_is_on_the_disk(sqlite_url: str) -> None:
    """The settings that a power cut asks about."""
    database = await Database.open(sqlite_url)

    def settings(tx: Tx) -> dict[str, object]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return {name: tx.value(f"PRAGMA {name}") for name in names}

    assert await database.run(settings) == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    await database.close()


async def test_trouble_that_sqlite_tells_in_detail_is_trouble_of_the_store(sqlite_url: str) -> None:
    """An index that misses a row: SQLITE_CORRUPT_INDEX, which is SQLITE_CORRUPT with more bits."""
    path = sqlite_url.removeprefix("sqlite:///")

    def run(*statements: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            return [tuple(row) for statement in statements for row in connection.execute(statement)]
        finally:
            connection.close()

    index = "FROM sqlite_master WHERE name = 'named'"
    run("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT)", "CREATE INDEX named ON things (name)")
    ((root,),) = run(f"SELECT rootpage {index}")
    run("PRAGMA writable_schema = ON", f"DELETE {index}")
    run("INSERT INTO things VALUES (1, 'x')")
    values = f"('index', 'named', 'things', {root}, 'CREATE INDEX named ON things (name)')"
    run(
        "PRAGMA writable_schema = ON",
        f"INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql) VALUES {values}",
    )

    database = await Database.open(sqlite_url)
    with pytest.raises(StoreError, match=r"SQLite could not do this .*malformed"):
        await database.run(lambda tx: tx.run("UPDATE things SET name = 'y' WHERE id = 1"))
    await database.close()


async def test_a_file_that_can_not_be_written_any_more_is_the_stores_trouble(database: Database) -> None:
    """As on a disk that the system has turned read-only."""
    await database.run(lambda tx: tx.run("PRAGMA query_only=ON"))
    with pytest.raises(StoreError, match="Nothing of it was stored"):
        await database.run(put, 1)


# Two processes: one serves the store, and a command writes beside it


async def adds(url: str, name: str, times: str) -> None:
    """In the child: a command that writes several times."""
    database = await Database.open(url, beside=True)
    for _ in range(int(times)):
        await database.run(add, name)
    await database.close()


def add(tx: Tx, name: str) -> None:
    """Reads and writes back, so that two at once would lose one."""
    found = tx.value("SELECT n FROM counted WHERE name = 'all'")
    tx.run("UPDATE counted SET n = :n WHERE name = 'all'", n=found + 1)
    tx.run("UPDATE counted SET n = n + 1 WHERE name = :name", name=name)


def counted(tx: Tx) -> dict[str, int]:
    return dict(tx.all("SELECT name, n FROM counted"))


@pytest.fixture
async def served(sqlite_url: str) -> AsyncIterator[Database]:
    database = await Database.open(sqlite_url)
    for statement in ("CREATE TABLE counted (name TEXT, n INT)", "INSERT INTO counted SELECT value, 0 FROM "):
        names = 'json_each(\'["all", "us", "one", "other"]\')' if statement.startswith("INSERT") else ""
        await database.run(lambda tx, sql: tx.run(sql), statement + names)
    yield database
    await database.close()


async def test_who_waits_is_woken_by_what_a_command_writes(served: Database, sqlite_url: str) -> None:
    with served.waiter("whatever") as waiter:
        async with child(adds, sqlite_url, "one", "1") as command:
            assert await waiter.wait(30)
            await command.finished()
    assert await served.read(counted) == {"all": 1, "us": 0, "one": 1, "other": 0}


async def test_two_commands_beside_a_busy_service_lose_nothing(served: Database, sqlite_url: str) -> None:
    writing = True

    async def works() -> int:
        done = 0
        while writing:
            await asyncio.gather(*(served.run(add, "us") for _ in range(10)))
            done += 10
        return done

    working = asyncio.create_task(works())
    async with child(adds, sqlite_url, "one", "30") as one, child(adds, sqlite_url, "other", "30") as other:
        await asyncio.gather(one.finished(), other.finished())
    writing = False
    done = await working
    assert await served.read(counted) == {"all": done + 60, "us": done, "one": 30, "other": 30}


async def stops_in_the_middle(url: str) -> None:
    """In the child."""

    def halves(tx: Tx) -> None:
        add(tx, "one")
        here("in the middle")

    database = await Database.open(url, beside=True)
    await database.run(halves)
    await database.close()


async def test_a_command_killed_in_the_middle_of_its_transaction_did_nothing(served: Database, sqlite_url: str) -> None:
    async with child(stops_in_the_middle, sqlite_url) as command:
        await command.reached("in the middle")
        waiting = asyncio.create_task(served.run(add, "us"))
        assert await served.read(counted) == {"all": 0, "us": 0, "one": 0, "other": 0}
        assert not waiting.done()
        command.kill()
        await waiting
    assert await served.read(counted) == {"all": 1, "us": 1, "one": 0, "other": 0}


@pytest.mark.slow
async def test_a_command_that_hangs_in_its_transaction_is_reported(served: Database, sqlite_url: str) -> None:
    async with child(stops_in_the_middle, sqlite_url) as command:
        await command.reached("in the middle")
        with pytest.raises(StoreError, match=r"Another process has been writing .* Nothing of this was stored"):
            await served.run(add, "us")
        command.go_on()
        await command.finished()
    await served.run(add, "us")
    assert await served.read(counted) == {"all": 2, "us": 1, "one": 1, "other": 0}


async def test_whoever_closes_the_store_last_is_known_to_all(served: Database, sqlite_url: str, tmp_path: Path) -> None:
    """Whoever closes it last deletes the write-ahead log. A process that opens the store twice must keep its locks."""
    await served.run(add, "us")
    second = await Database.open(sqlite_url, beside=True)
    await second.close()
    async with child(adds, sqlite_url, "one", "1") as command:
        await command.finished()
    await served.run(add, "us")
    assert (tmp_path / "store.db-wal").exists()
    copy = await Database.open(sqlite_url, read_only=True)
    assert await copy.read(counted) == {"all": 3, "us": 2, "one": 1, "other": 0}
    await copy.close()


# What a transaction knows of the rows as the one before it left them


def know(tx: Tx, *keys: str) -> list[str]:
    """What is known already. Then all of it is."""
    known = tx.known["notes"]
    found = [f"{key} {known[key]}" for key in sorted(known)]
    for row in tx.all("SELECT key, text FROM notes WHERE key IN :keys", keys=[*keys]):
        known[row.key] = row.text
    return found


@pytest.fixture
async def notes(database: Database) -> Database:
    def create(tx: Tx) -> None:
        tx.run("CREATE TABLE notes (key VARCHAR(9) PRIMARY KEY, text TEXT)")
        for key in ("a", "b"):
            tx.insert("notes", {"key": key, "text": "old"})

    await database.run(create)
    assert await database.run(know, "a", "b") == []
    assert await database.run(know) == ["a old", "b old"]
    return database


@pytest.mark.parametrize(
    ("sql", "values", "still"),
    [
        ("UPDATE notes SET text = :text WHERE key = :key", {"text": "new", "key": "a"}, ["b old"]),
        ("UPDATE notes SET text = 'new' WHERE key = 'a'", {}, []),
        ("DELETE FROM notes WHERE key = :key", {"key": "b"}, ["a old"]),
        ("INSERT INTO notes (key, text) VALUES (:key, 'new')", {"key": "c"}, ["a old", "b old"]),
        ("INSERT INTO notes (key) VALUES (:key) ON CONFLICT (key) DO UPDATE SET text = ''", {"key": "a"}, ["b old"]),
        ("UPDATE parcels SET content = ''", {}, ["a old", "b old"]),
    ],
)
async def test_a_statement_forgets_what_it_changes(
    notes: Database, sql: str, values: dict[str, str], still: list[str]
) -> None:
    await notes.run(lambda tx: tx.run(sql, **values))
    assert await notes.run(know) == still


async def test_what_another_process_writes_is_not_overlooked(notes: Database, sqlite_url: str) -> None:
    beside = await Database.open(sqlite_url, beside=True)
    await beside.run(lambda tx: tx.run("UPDATE notes SET text = 'theirs'"))
    await beside.close()
    assert await notes.run(know, "a") == []
    assert await notes.run(know) == ["a theirs"]


async def test_what_a_transaction_knew_that_failed_is_forgotten(notes: Database) -> None:
    def fail(tx: Tx) -> None:
        tx.run("UPDATE notes SET text = 'lost' WHERE key = :key", key="a")
        tx.known["notes"]["a"] = "lost"
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        await notes.run(fail)
    assert await notes.run(know, "a") == []
    assert await notes.run(know) == ["a old"]


async def test_no_more_is_known_than_memory_has_room_for(notes: Database) -> None:
    def know_much(tx: Tx) -> None:
        tx.known["notes"].update((str(number), "") for number in range(MOST_KNOWN))

    await notes.run(know_much)
    assert await notes.run(know) == []


async def test_readers_know_nothing_of_what_is_written(notes: Database) -> None:
    assert await notes.read(know) == []
