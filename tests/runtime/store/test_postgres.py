"""What only PostgreSQL has: replicas, deadlocks, connections that break."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator

import pytest

import adk_confirm.runtime.store.postgres
from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.database import Database, OutcomeUnknown, Tx
from bench.chaos.wires import Wire
from tests.support.kill import child, here
from tests.support.postgres import PostgresServer

LOCK = "SELECT amount FROM accounts WHERE id = :id FOR UPDATE"


def create(tx: Tx) -> None:
    tx.run("CREATE TABLE accounts (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)")
    tx.run("INSERT INTO accounts VALUES (1, 100), (2, 100)")


def take(tx: Tx, account: int, amount: int) -> None:
    rest = tx.value(LOCK, id=account) - amount
    tx.run("UPDATE accounts SET amount = :rest WHERE id = :id", id=account, rest=rest)


def amounts(tx: Tx) -> list[int]:
    return tx.column("SELECT amount FROM accounts ORDER BY id")


@pytest.fixture
async def replicas(postgres_url: str) -> AsyncIterator[tuple[Database, Database]]:
    first, second = await Database.open(postgres_url), await Database.open(postgres_url)
    await first.run(create)
    yield first, second
    await first.close()
    await second.close()


Replicas = tuple[Database, Database]


async def test_of_two_that_block_each_other_both_get_through(replicas: Replicas) -> None:
    attempts: list[int] = []

    def transfer(tx: Tx, source: int, target: int) -> None:
        attempts.append(source)
        take(tx, source, 10)
        tx.all("SELECT pg_sleep(0.5)")
        take(tx, target, -10)

    await asyncio.gather(replicas[0].run(transfer, 1, 2), replicas[1].run(transfer, 2, 1))
    assert len(attempts) > 2  # they did meet
    assert await replicas[0].read(amounts) == [100, 100]


@pytest.mark.parametrize("state", ["40001", "40P01"])
async def test_what_never_gets_through_ends_with_a_sentence(
    replicas: Replicas, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adk_confirm.runtime.store.postgres, "ATTEMPTS", 3)
    attempts: list[int] = []

    def collide(tx: Tx) -> None:
        attempts.append(1)
        take(tx, 1, 10)
        tx.run(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$")

    with pytest.raises(StoreError, match=r"in 3 attempts \(others were in the way\)\. Nothing of it was stored"):
        await replicas[0].run(collide)
    assert len(attempts) == 3
    assert await replicas[0].read(amounts) == [100, 100]


@pytest.mark.parametrize("state", ["53100", "58030"])
async def test_a_full_or_broken_disk_is_the_stores_trouble(replicas: Replicas, state: str) -> None:
    """And not the function's: what asks for it tries again, as with SQLite."""

    def no_room(tx: Tx) -> None:
        take(tx, 1, 10)
        tx.run(f"DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '{state}'; END $$")

    with pytest.raises(StoreError, match=r"could not do this \(could not extend file\)\. Nothing of it was stored"):
        await replicas[0].run(no_room)
    assert await replicas[0].read(amounts) == [100, 100]


async def test_every_connection_may_break_between_two_transactions(replicas: Replicas) -> None:
    database, other = replicas
    await asyncio.gather(*(database.run(take, 1, 1) for _ in range(10)), *(database.read(amounts) for _ in range(5)))
    await other.run(
        lambda tx: tx.all(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()"
        )
    )
    await asyncio.gather(*(database.run(take, 1, 1) for _ in range(10)), *(database.read(amounts) for _ in range(5)))
    assert await database.read(amounts) == [80, 100]


async def test_a_connection_that_breaks_in_the_commit_leaves_it_open_what_happened(replicas: Replicas) -> None:
    def die_when_committed(tx: Tx) -> None:
        tx.run(
            "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql"
            " AS 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'"
        )
        tx.run(
            "CREATE CONSTRAINT TRIGGER die AFTER UPDATE ON accounts DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION die()"
        )

    await replicas[0].run(die_when_committed)
    with pytest.raises(OutcomeUnknown, match=r"whether this was stored is not known\. Look before trying again"):
        await replicas[0].run(take, 1, 10)
    assert await replicas[0].read(amounts) == [100, 100]


async def test_a_replica_goes_on_when_another_changes_the_tables(replicas: Replicas) -> None:
    old, new = replicas

    def everything(tx: Tx) -> int:
        return len(tx.all("SELECT * FROM accounts"))

    assert await old.run(everything) == 2
    await new.run(lambda tx: tx.run("ALTER TABLE accounts ADD COLUMN colour text"))
    assert await old.run(everything) == 2


async def test_an_answer_that_does_not_come_is_not_waited_for_for_ever(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(adk_confirm.runtime.store.postgres.SESSION, "statement_timeout", "100")
    database = await Database.open(postgres_url)
    with pytest.raises(StoreError, match=r"did not answer within 0\.1 seconds\. Nothing was stored"):
        await database.run(lambda tx: tx.all("SELECT pg_sleep(30)"))
    await database.close()


async def test_a_command_may_read_for_as_long_as_the_server_answers(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`audit verify` reads a ledger of millions of lines in one transaction."""
    monkeypatch.setattr(adk_confirm.runtime.store.postgres, "ANSWER_SECONDS", 0.2)
    reader = await Database.open(postgres_url, read_only=True)
    slept = await reader.read(lambda tx: [tx.value("SELECT pg_sleep(0.1) IS NULL") for _ in range(4)])
    assert slept == [False] * 4
    await reader.close()


async def take_and_freeze(url: str, milliseconds: str = "") -> None:
    if milliseconds:
        adk_confirm.runtime.store.postgres.SESSION["idle_in_transaction_session_timeout"] = milliseconds
    attempts: list[int] = []

    def take_slowly(tx: Tx) -> None:
        take(tx, 1, 10)
        attempts.append(1)
        if len(attempts) == 1:
            here("holds the row")
        take(tx, 2, 10)

    database = await Database.open(url)
    await database.run(take_slowly)
    await database.close()
    print("attempts:", len(attempts))


async def test_a_replica_that_is_frozen_does_not_keep_its_locks(replicas: Replicas, postgres_url: str) -> None:
    async with child(take_and_freeze, postgres_url, "200") as process:
        await process.reached("holds the row")
        await replicas[0].run(take, 1, 1)
        assert await replicas[0].read(amounts) == [99, 100]
        process.go_on()
        assert await process.finished() == ["attempts: 2"]
    assert await replicas[0].read(amounts) == [89, 90]


async def take_and_freeze_before_the_commit(url: str) -> None:
    adk_confirm.runtime.store.postgres.SESSION["idle_in_transaction_session_timeout"] = "200"
    attempts: list[int] = []

    def take_slowly(tx: Tx) -> None:
        take(tx, 1, 10)
        attempts.append(1)
        if len(attempts) == 1:
            here("holds the row")

    database = await Database.open(url)
    await database.run(take_slowly)
    await database.close()
    print("attempts:", len(attempts))


async def test_a_replica_that_is_frozen_after_its_last_statement_runs_the_transaction_again(
    replicas: Replicas, postgres: PostgresServer, postgres_url: str
) -> None:
    """PostgreSQL ended the transaction, so the outcome of its COMMIT is known. Over TCP, since a closed socket file
    takes no COMMIT, and the driver then does not read what PostgreSQL said."""
    wire = Wire(f"{postgres.socket_directory}/.s.PGSQL.5432")
    await wire.open()
    try:
        url = re.sub(r"@.*?/", f"@127.0.0.1:{wire.port}/", postgres_url).partition("?")[0]
        async with child(take_and_freeze_before_the_commit, url) as process:
            await process.reached("holds the row")
            await replicas[0].run(take, 1, 1)
            process.go_on()
            assert await process.finished() == ["attempts: 2"]
        assert await replicas[0].read(amounts) == [89, 100]
    finally:
        await wire.close()


async def take_and_freeze_with_others_behind(url: str) -> None:
    session = adk_confirm.runtime.store.postgres.SESSION
    session.update({name: str(int(value) // 5) for name, value in session.items() if name.endswith("_timeout")})
    first: list[int] = []

    def take_slowly(tx: Tx) -> None:
        take(tx, 1, 10)
        if not first:
            first.append(1)
            tx.all("SELECT pg_sleep(0.2)")  # the others get in line meanwhile
            here("holds the row")

    database = await Database.open(url)
    await asyncio.gather(*(database.run(take_slowly) for _ in range(8)))
    await database.close()


async def test_what_waited_in_a_frozen_replica_does_not_get_the_lock_after_it(
    replicas: Replicas, postgres_url: str
) -> None:
    """Each of them would keep it for as long as the first one did."""
    async with child(take_and_freeze_with_others_behind, postgres_url) as process:
        await process.reached("holds the row")
        async with asyncio.timeout(4):
            await replicas[0].run(take, 1, 1)


@pytest.mark.slow
async def test_a_replica_that_is_frozen_holds_up_the_others_no_longer_than_one_that_is_killed(
    replicas: Replicas, postgres_url: str
) -> None:
    async with child(take_and_freeze, postgres_url) as process:
        await process.reached("holds the row")
        async with asyncio.timeout(15):
            await replicas[0].run(take, 1, 1)


async def test_a_store_opened_for_reading_can_not_write(replicas: Replicas, postgres_url: str) -> None:
    reader = await Database.open(postgres_url, read_only=True)
    assert await reader.read(amounts) == [100, 100]
    with pytest.raises(StoreError, match="opened for reading only"):
        await reader.run(take, 1, 1)
    await reader.close()


async def test_urls_are_understood_as_elsewhere(postgres_url: str) -> None:
    rest = postgres_url.removeprefix("postgresql://")
    for url in (f"postgres://{rest}", f"postgresql+psycopg://{rest}", f"{postgres_url}&sslmode=disable"):
        database = await Database.open(url)
        assert await database.read(lambda tx: tx.value("SELECT 1")) == 1
        await database.close()


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_server_that_is_not_there_gets_a_sentence(read_only: bool) -> None:
    with pytest.raises(StoreError) as refused:
        await Database.open("postgresql://someone:s3cret@127.0.0.1:1/confirm?password=s3cret", read_only=read_only)
    assert str(refused.value) == (
        "PostgreSQL at postgresql://someone@127.0.0.1:1/confirm can't be reached: nothing accepts connections there. "
        "Start it, or correct the store's URL."
    )


async def test_a_server_that_says_nothing_is_waited_for_no_longer_than_is_said(
    postgres: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes connections and answers none, or nothing at all is there and a firewall swallows it."""
    monkeypatch.setattr(adk_confirm.runtime.store.postgres, "CONNECT_SECONDS", 2)
    wire = Wire(f"{postgres.socket_directory}/.s.PGSQL.5432")
    await wire.open()
    wire.stall()
    try:
        url = re.sub(r"@.*?/", f"@127.0.0.1:{wire.port}/", postgres_url).partition("?")[0]
        async with asyncio.timeout(20):
            with pytest.raises(StoreError, match="it did not answer within"):
                await Database.open(url)
    finally:
        await wire.close()


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ('connection to server at "::1", port 1 failed: Connection refused', "nothing accepts connections there"),
        ("failed to resolve host 'db': Name or service not known", "the name of its host could not be looked up"),
        ('connection to server at "10.0.0.9", port 5432 failed: No route to host', "No route to host"),
        ("connection timeout expired", "it did not answer within 10 seconds"),
    ],
)
def test_why_nothing_answers_is_reported_without_numbers(error: str, why: str) -> None:
    assert adk_confirm.runtime.store.postgres.why_away(error) == why


async def test_a_database_that_is_not_there_gets_a_sentence(postgres_url: str) -> None:
    with pytest.raises(StoreError, match='reached: database "nowhere" does not exist'):
        await Database.open(re.sub(r"/test_\w+", "/nowhere", postgres_url))


async def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("adk_confirm.runtime.store.postgres", "adk_confirm.runtime.store.postgres"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install 'adk-confirm\[postgres\]'"):
        await Database.open("postgresql://localhost/confirm")
