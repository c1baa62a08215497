"""A process that dies in a transaction leaves nothing of it. After the commit, all of it is stored."""

from __future__ import annotations

import asyncio

import pytest

from adk_confirm.runtime.store.database import Database, Tx
from tests.support.kill import child, here
from tests.support.stores import together

pytestmark = [pytest.mark.slow, pytest.mark.every_case]


def create(tx: Tx) -> None:
    tx.run("CREATE TABLE notes (words TEXT)")


def note(tx: Tx, words: str) -> None:
    tx.run("INSERT INTO notes VALUES (:words)", words=words)


def notes(tx: Tx) -> list[str]:
    return list(tx.column("SELECT words FROM notes ORDER BY words"))


async def write(url: str) -> None:
    def half_written(tx: Tx) -> None:
        note(tx, "in the transaction")
        here("in the transaction")

    database = await Database.open(url)
    await database.run(create)
    await database.run(note, "before")
    here("after the commit")
    if database.dialect == "sqlite":
        await together(database, database.run(note, "beside it"), database.run(half_written))
    else:
        await database.run(half_written)
    here("after everything")
    await database.close()


@pytest.mark.parametrize(
    ("point", "left"),
    [
        ("after the commit", ["before"]),
        ("in the transaction", ["before"]),
        # On SQLite there is a neighbour in its group, finished, and not committed either.
        ("after everything", ["before", "beside it", "in the transaction"]),
    ],
)
async def test_killed(database_url: str, point: str, left: list[str]) -> None:
    async with child(write, database_url) as process:
        await process.reached(point)
        process.kill()
        await process.gone()
    database = await Database.open(database_url)
    if database.dialect == "postgresql":
        left = [words for words in left if words != "beside it"]
    assert await database.read(notes) == left
    await database.run(note, "after")  # no lock of the dead is in the way
    assert await database.read(notes) == sorted([*left, "after"])
    await database.close()


async def answer_many(url: str) -> None:
    async def one(database: Database, number: int) -> None:
        await database.run(note, f"{number:04}")
        print(f"{number:04}", flush=True)

    database = await Database.open(url)
    await database.run(create)
    here("ready")
    await asyncio.gather(*(one(database, number) for number in range(2000)))
    await database.close()


async def test_whatever_was_answered_is_there(database_url: str) -> None:
    """Killed at no point in particular, in the thick of it."""
    async with child(answer_many, database_url) as process:
        await process.reached("ready")
        process.go_on()
        answered = await process.next_lines(300)
        process.kill()
        answered += await process.last_lines()
    database = await Database.open(database_url)
    stored = await database.read(notes)
    assert len(answered) >= 300
    assert set(answered) <= set(stored)
    await database.close()
