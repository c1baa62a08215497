"""PostgreSQL restarts, becomes read-only, or is replaced by its standby."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.database import Database, Tx
from tests.support.failover import NAME, Pair, pair
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.scratch import SCRATCH


def write(tx: Tx, number: int) -> None:
    tx.insert("notes", {"id": number})


def written(tx: Tx) -> int:
    return int(tx.value("SELECT count(*) FROM notes"))


def create(tx: Tx) -> None:
    tx.run("CREATE TABLE notes (id INTEGER PRIMARY KEY)")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One of this module's own. A test that stops it starts it again."""
    with postgres_server(SCRATCH) as server:
        yield server


@pytest.fixture
async def both() -> AsyncIterator[Pair]:
    async with pair() as both:
        yield both


@pytest.mark.slow
async def test_who_writes_never_takes_a_standby_for_the_primary(both: Pair) -> None:
    store = await Database.open(both.url)
    await store.run(create)
    await store.run(write, 1)
    assert await store.read(written) == 1
    await store.close()
    with pytest.raises(StoreError, match="takes no writes: it is a standby, or was made read-only"):
        await Database.open(both.standby.url(NAME))


@pytest.mark.slow
async def test_a_reader_may_take_a_standby(both: Pair) -> None:
    reader = await Database.open(both.standby.url(NAME), read_only=True)
    assert await reader.read(lambda tx: tx.value("SELECT 1")) == 1
    await reader.close()


@pytest.mark.slow
async def test_after_a_failover_it_goes_on_with_all_that_was_stored(both: Pair) -> None:
    """A synchronous standby has everything that was acknowledged."""
    await both.becomes_synchronous()
    store = await Database.open(both.url)
    await store.run(create)
    await asyncio.gather(*(store.run(write, number) for number in range(30)))
    await asyncio.to_thread(both.fails_over)
    with store.waiter("news") as waiter:
        await asyncio.gather(*(store.run(write, number) for number in range(30, 60)))
        assert await store.read(written) == 60
        await store.run(lambda tx: tx.notify("news"))
        assert await waiter.wait(60)
    await store.close()


async def test_a_server_that_restarts_is_waited_for(server: PostgresServer) -> None:
    with server.database() as url:
        store = await Database.open(url)
        await store.run(create)
        await asyncio.gather(*(store.run(write, number) for number in range(10)))
        server.goes_away(crashes=True)
        writing = [asyncio.create_task(store.run(write, number)) for number in range(10, 20)]
        reading = asyncio.create_task(store.read(written))
        gave_up, _ = await asyncio.wait([*writing, reading], timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
        assert not gave_up
        await asyncio.to_thread(server.comes_back)
        await asyncio.gather(*writing)
        assert await reading >= 10
        assert await store.read(written) == 20
        await store.close()


async def test_a_server_that_stays_away_gets_a_sentence(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adk_confirm.runtime.store.postgres.AWAY_SECONDS", 0.2)
    with server.database() as url:
        store = await Database.open(url)
        server.goes_away(crashes=True)
        with pytest.raises(StoreError, match="can't be reached"):
            await store.run(create)
        await store.close()
        server.comes_back()


async def test_a_store_that_closes_waits_for_no_server(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adk_confirm.runtime.store.postgres.AWAY_SECONDS", 60.0)
    with server.database() as url:
        store = await Database.open(url)
        server.goes_away(crashes=True)
        writing = asyncio.create_task(store.run(create))
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await store.close()
        with pytest.raises(StoreError):
            await writing
        server.comes_back()


@pytest.fixture
async def operator(postgres_url: str) -> AsyncIterator[psycopg.Connection]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


async def read_only(operator: psycopg.Connection, value: str) -> None:
    """As some providers do while they switch over, or when a disk is full: what is connected stays connected."""
    operator.execute("SET default_transaction_read_only = off")
    operator.execute(f"ALTER DATABASE {operator.info.dbname} SET default_transaction_read_only = {value}".encode())


async def test_connections_that_became_read_only_are_dropped(postgres_url: str, operator: psycopg.Connection) -> None:
    store = await Database.open(postgres_url)
    await store.run(create)
    await asyncio.gather(*(store.run(write, number) for number in range(10)))

    def becomes_read_only(tx: Tx) -> None:
        """This connection's server takes no writes from here on."""
        tx.run("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")

    await asyncio.gather(*(store.run(becomes_read_only) for _ in range(10)))
    await asyncio.gather(*(store.run(write, number) for number in range(10, 20)))
    assert await store.read(written) == 20
    await store.close()


async def test_while_no_server_takes_writes_it_says_so(
    postgres_url: str, operator: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await Database.open(postgres_url)
    await store.run(create)
    monkeypatch.setattr("adk_confirm.runtime.store.postgres.AWAY_SECONDS", 0.2)
    await read_only(operator, "on")
    operator.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with pytest.raises(StoreError, match="takes no writes"):
        await store.run(write, 1)
    await read_only(operator, "off")
    await store.run(write, 1)
    await store.close()
