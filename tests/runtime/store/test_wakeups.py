"""Waiters are woken: in this process at the commit, in other replicas by PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import psycopg
import pytest

import adk_confirm.runtime.store.postgres
from adk_confirm.runtime.errors import Conflict
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.postgres import BACKLOG, CHANNEL
from adk_confirm.runtime.store.wakeups import Hub, topic_key
from tests.support.waiting import until


def tell(tx: Tx, *topics: str) -> None:
    for topic in topics:
        tx.notify(topic)


def tell_and_refuse(tx: Tx) -> None:
    tx.notify("news")
    raise Conflict("no")


async def test_a_waiter_is_woken_by_its_own_topics_alone(database: Database) -> None:
    with database.waiter("news", "weather") as both, database.waiter("sports") as other:
        await database.run(tell, "weather")
        assert await both.wait(60)
        assert not await other.wait(0)


async def test_what_was_not_stored_wakes_nobody(database: Database) -> None:
    with database.waiter("news") as waiter:
        with pytest.raises(Conflict):
            await database.run(tell_and_refuse)
        assert not await waiter.wait(0.05)


async def test_who_is_woken_finds_what_it_was_woken_for(database: Database) -> None:
    await database.run(lambda tx: tx.run("CREATE TABLE notes (n INTEGER)"))

    def write(tx: Tx, n: int) -> None:
        tx.run("INSERT INTO notes VALUES (:n)", n=n)
        tx.notify("notes")

    def highest(tx: Tx) -> int | None:
        n: int | None = tx.value("SELECT max(n) FROM notes")
        return n

    with database.waiter("notes") as waiter:
        writing = [asyncio.create_task(database.run(write, n)) for n in range(50)]
        while await database.read(highest) != 49:
            assert await waiter.wait(60)
        await asyncio.gather(*writing)


def test_a_topic_that_nobody_waits_for_is_forgotten() -> None:
    hub = Hub()
    database = Database(None, hub, "", read_only=False)  # type: ignore[arg-type]  # no engine is asked here
    for number in range(100):
        with database.waiter(f"session:{number}", "sessions"), database.waiter("sessions"):
            assert len(hub) == 2
    assert len(hub) == 0


def test_any_text_can_be_a_topic() -> None:
    names = ["", "a" * 100_000, "line\nbreak", "\u0000", "\ud800", "*", "ü", "a b"]
    assert len({topic_key(name) for name in names}) == len(names)
    assert all(len(topic_key(name)) == 16 for name in names)


@pytest.fixture
async def replicas(postgres_url: str) -> AsyncIterator[tuple[Database, Database]]:
    first, second = await Database.open(postgres_url), await Database.open(postgres_url)
    yield first, second
    await first.close()
    await second.close()


@pytest.fixture
async def overheard(postgres_url: str) -> AsyncIterator[asyncio.Queue[str]]:
    """What goes over PostgreSQL's channel, message by message."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    connection = await psycopg.AsyncConnection.connect(postgres_url, autocommit=True)
    await connection.execute(f"LISTEN {CHANNEL}")

    async def listen() -> None:
        async for message in connection.notifies():
            heard.put_nowait(message.payload)

    listening = asyncio.create_task(listen())
    yield heard
    listening.cancel()
    with suppress(asyncio.CancelledError):
        await listening
    await connection.close()


Replicas = tuple[Database, Database]


async def test_what_is_committed_together_goes_out_together(replicas: Replicas, overheard: asyncio.Queue[str]) -> None:
    await asyncio.gather(*(replicas[0].run(tell, f"topic {number}") for number in range(200)))
    expected = {topic_key(f"topic {number}") for number in range(200)}
    messages = 0
    while expected:
        expected -= set((await asyncio.wait_for(overheard.get(), 60)).split(" "))
        messages += 1
    assert messages < 100


async def test_more_topics_than_one_message_holds_go_out_in_several(
    replicas: Replicas, overheard: asyncio.Queue[str]
) -> None:
    topics = [f"topic {number}" for number in range(1000)]
    with replicas[1].waiter(topics[-1]) as waiter:
        await replicas[0].run(tell, *topics)
        assert await waiter.wait(60)
    expected = {topic_key(topic) for topic in topics}
    while expected:
        message = await asyncio.wait_for(overheard.get(), 60)
        assert len(message) < 8000
        expected -= set(message.split(" "))


async def test_too_many_topics_wake_everybody(replicas: Replicas, overheard: asyncio.Queue[str]) -> None:
    with replicas[1].waiter("something else") as waiter:
        await replicas[0].run(tell, *(f"topic {number}" for number in range(BACKLOG + 1)))
        assert await waiter.wait(60)
    assert await asyncio.wait_for(overheard.get(), 60) == "*"


async def test_what_is_committed_before_the_store_closes_is_still_said(postgres_url: str) -> None:
    first, second = await Database.open(postgres_url), await Database.open(postgres_url)
    with second.waiter("news") as waiter:
        saying = asyncio.create_task(first.run(tell, "news"))
        await asyncio.sleep(0)
        await first.close()
        await saying
        assert await waiter.wait(60)
    await second.close()


async def listeners(database: Database) -> list[int]:
    def find(tx: Tx) -> list[int]:
        return tx.column(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND (query LIKE 'LISTEN%' OR query LIKE '%pg_notify(%') AND pid <> pg_backend_pid()"
        )

    return await database.read(find)


async def test_a_broken_connection_for_wake_ups_is_made_again(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(adk_confirm.runtime.store.postgres, "RETRY_SECONDS", 0.01)
    before = await listeners(replicas[0])
    assert len(before) == 2
    with replicas[1].waiter("whatever") as waiter:
        await replicas[0].run(lambda tx: [tx.all("SELECT pg_terminate_backend(:pid)", pid=pid) for pid in before])
        # Nobody said anything; but something may have been said while nobody listened.
        assert await waiter.wait(60)

    async def two() -> list[int]:
        found = await listeners(replicas[0])
        return found if len(found) == 2 else []

    after = await until(two)
    assert not set(before) & set(after)
    assert any("The connection for wake-ups broke" in message for message in caplog.messages)

    with replicas[1].waiter("news") as waiter:
        await replicas[0].run(tell, "news")
        assert await waiter.wait(60)


async def test_what_could_not_be_said_is_said_when_the_connection_is_back(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adk_confirm.runtime.store.postgres, "RETRY_SECONDS", 0.05)
    first = await Database.open(postgres_url)
    (speaking,) = await listeners(first)
    second = await Database.open(postgres_url)
    with second.waiter("news") as waiter:
        await second.run(lambda tx: tx.all("SELECT pg_terminate_backend(:pid)", pid=speaking))
        await first.run(tell, "news")
        assert await waiter.wait(60)
    await first.close()
    await second.close()


async def test_a_store_closes_while_its_server_is_away(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adk_confirm.runtime.store.postgres, "RETRY_SECONDS", 60.0)
    database = await Database.open(postgres_url)
    (speaking,) = await listeners(database)
    with database.waiter("news") as waiter:
        await database.run(lambda tx: tx.all("SELECT pg_terminate_backend(:pid)", pid=speaking))
        await waiter.wait(0.05)
    await asyncio.wait_for(database.close(), 60)
