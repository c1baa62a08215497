"""What only PostgreSQL has: replicas, deadlocks, connections that break."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import asyncpg
import pytest
from sqlalchemy import Column, Integer, MetaData, Table, bindparam, insert, select, update

import runtime.store.postgres
from bench.chaos.wires import Wire
from runtime.errors import StoreError
from runtime.store.database import Database, OutcomeUnknown, Tx, for_update
from runtime.store.postgres import PostgresEngine
from runtime.store.postgres_wakeups import DriverConnection
from tests.support.freezing import frozen_while_preparing
from tests.support.kill import child, here
from tests.support.postgres import PostgresServer

metadata = MetaData()
accounts = Table(
    "accounts", metadata, Column("id", Integer, primary_key=True), Column("amount", Integer, nullable=False)
)
one = for_update(select(accounts.c.amount).where(accounts.c.id == bindparam("account")))


def create(tx: Tx) -> None:
    metadata.create_all(tx.connection)
    tx.execute(insert(accounts), [{"id": 1, "amount": 100}, {"id": 2, "amount": 100}])


def take(tx: Tx, account: int, amount: int) -> None:
    rest = tx.execute(one, {"account": account}).scalar_one() - amount
    tx.execute(update(accounts).where(accounts.c.id == account).values(amount=rest))


def amounts(tx: Tx) -> list[int]:
    return list(tx.execute(select(accounts.c.amount).order_by(accounts.c.id)).scalars())


@pytest.fixture
async def replicas(postgres_url: str) -> AsyncIterator[tuple[Database, Database]]:
    first, second = await Database.open(postgres_url), await Database.open(postgres_url)
    await first.run(create)
    yield first, second
    await first.close()
    await second.close()


Replicas = tuple[Database, Database]


async def test_what_one_store_compiled_another_does_not_compile_again(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sqlalchemy.engine")
    first, second = await Database.open(postgres_url), await Database.open(postgres_url)
    await first.run(create)
    await first.run(amounts)
    caplog.clear()
    assert await second.read(amounts) == [100, 100]
    messages = [record.getMessage() for record in caplog.records]
    selected = next(number for number, message in enumerate(messages) if message.startswith("SELECT accounts.amount"))
    assert messages[selected + 1].startswith("[cached since")
    await first.close()
    await second.close()


async def test_two_replicas_lose_no_update(replicas: Replicas) -> None:
    await asyncio.gather(*(replicas[turn % 2].run(take, 1, 1) for turn in range(60)))
    assert await replicas[0].read(amounts) == [40, 100]


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
    monkeypatch.setattr(runtime.store.postgres, "ATTEMPTS", 3)
    attempts: list[int] = []

    def collide(tx: Tx) -> None:
        attempts.append(1)
        take(tx, 1, 10)
        tx.run(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$")

    with pytest.raises(StoreError, match=r"in 3 attempts \(others were in the way\)\. Nothing of it was stored"):
        await replicas[0].run(collide)
    assert len(attempts) == 3
    assert await replicas[0].read(amounts) == [100, 100]


async def test_a_connection_that_breaks_before_the_commit_is_replaced(replicas: Replicas) -> None:
    broken: list[int] = []

    def take_and_break_once(tx: Tx) -> None:
        take(tx, 1, 10)
        if not broken:
            broken.append(1)
            tx.all("SELECT pg_terminate_backend(pg_backend_pid())")

    await replicas[0].run(take_and_break_once)
    assert await replicas[0].read(amounts) == [90, 100]


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
    monkeypatch.setattr(runtime.store.postgres, "COMMAND_SECONDS", 0.1)
    database = await Database.open(postgres_url)
    with pytest.raises(StoreError, match=r"did not answer within 0\.1 seconds\. Nothing was stored"):
        await database.run(lambda tx: tx.all("SELECT pg_sleep(30)"))
    await database.close()


async def take_and_freeze(url: str, milliseconds: str = "") -> None:
    if milliseconds:
        runtime.store.postgres.SESSION["idle_in_transaction_session_timeout"] = milliseconds
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


async def take_and_freeze_before_the_commit(url: str, moment: str) -> None:
    runtime.store.postgres.SESSION["idle_in_transaction_session_timeout"] = "200"
    attempts: list[int] = []

    def take_slowly(tx: Tx) -> None:
        tx.execute(one, {"account": 2})  # prepares the statement: from now on it is one message to the server
        take(tx, 1, 10)
        attempts.append(1)
        if len(attempts) == 1 and moment == "with its answer unread":
            asyncio.get_running_loop().call_soon(here, "holds the row")  # when the next statement has been sent
        tx.execute(one, {"account": 2})
        if len(attempts) == 1 and moment == "with its answer read":
            here("holds the row")

    database = await Database.open(url)
    await database.run(take_slowly)
    await database.close()
    print("attempts:", len(attempts))


@pytest.mark.parametrize("moment", ["with its answer unread", "with its answer read"])
async def test_a_replica_that_is_frozen_after_its_last_statement_runs_the_transaction_again(
    replicas: Replicas, postgres: PostgresServer, postgres_url: str, moment: str
) -> None:
    """PostgreSQL ended the transaction, so the outcome of its COMMIT is known. Over TCP, since a closed socket file
    takes no COMMIT, and the driver then does not read what PostgreSQL said."""
    wire = Wire(f"{postgres.socket_directory}/.s.PGSQL.5432")
    await wire.open()
    try:
        url = re.sub(r"@.*?/", f"@127.0.0.1:{wire.port}/", postgres_url).partition("?")[0]
        async with child(take_and_freeze_before_the_commit, url, moment) as process:
            await process.reached("holds the row")
            await replicas[0].run(take, 1, 1)
            process.go_on()
            assert await process.finished() == ["attempts: 2"]
        assert await replicas[0].read(amounts) == [89, 100]
    finally:
        await wire.close()


async def test_a_replica_that_is_frozen_while_it_prepares_a_statement_does_not_keep_its_locks(
    replicas: Replicas, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(runtime.store.postgres.SESSION, "lock_timeout", "100")
    monkeypatch.setitem(runtime.store.postgres.SESSION, "idle_in_transaction_session_timeout", "200")
    awake = await Database.open(postgres_url)
    async with frozen_while_preparing(postgres_url, "SELECT * FROM accounts WHERE id = 1 FOR UPDATE"):
        await asyncio.gather(*(awake.run(take, 1, 1) for _ in range(20)))
        assert await awake.read(amounts) == [80, 100]
    await awake.close()


async def test_what_waits_for_a_lock_goes_on_if_the_look_for_frozen_replicas_is_broken_off(
    replicas: Replicas, postgres: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, looked = PostgresEngine._connect, asyncio.Event()

    async def connect_and_be_ended(self: PostgresEngine) -> DriverConnection:
        connection = await connect(self)
        postgres.psql(f"SELECT pg_terminate_backend({connection.get_server_pid()}, 5000)")
        await asyncio.sleep(0)  # the loop sees that there is something to read
        await asyncio.sleep(0)  # the driver reads that the connection ends, and not yet its end
        looked.set()
        return connection

    monkeypatch.setitem(runtime.store.postgres.SESSION, "lock_timeout", "100")
    waits = await Database.open(postgres_url)
    holder = await asyncpg.connect(postgres_url)
    await holder.execute("BEGIN; SELECT * FROM accounts WHERE id = 1 FOR UPDATE")
    monkeypatch.setattr(PostgresEngine, "_connect", connect_and_be_ended)
    waiting = asyncio.create_task(waits.run(take, 1, 1))
    await looked.wait()
    await holder.close()
    await waiting
    assert await replicas[0].read(amounts) == [99, 100]
    await waits.close()


async def take_and_freeze_with_others_behind(url: str) -> None:
    session = runtime.store.postgres.SESSION
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


async def test_who_skips_locked_rows_gets_the_next(replicas: Replicas) -> None:
    """How workers share what is due."""
    taken, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def next_one(tx: Tx) -> int:
        statement = select(accounts.c.id).order_by(accounts.c.id).limit(1)
        account: int = tx.execute(for_update(statement, skip_locked=True)).scalar_one()
        loop.call_soon(taken.set)
        return account

    def hold(tx: Tx) -> int:
        account = next_one(tx)
        while not go_on.is_set():
            tx.all("SELECT pg_sleep(0.01)")
        return account

    first = asyncio.create_task(replicas[0].run(hold))
    await taken.wait()
    assert await replicas[1].run(next_one) == 2
    go_on.set()
    assert await first == 1


async def test_a_store_opened_for_reading_can_not_write(replicas: Replicas, postgres_url: str) -> None:
    reader = await Database.open(postgres_url, read_only=True)
    assert await reader.read(amounts) == [100, 100]
    with pytest.raises(StoreError, match="opened for reading only"):
        await reader.run(take, 1, 1)
    await reader.close()


async def test_urls_are_understood_as_elsewhere(postgres_url: str) -> None:
    rest = postgres_url.removeprefix("postgresql://")
    for url in (f"postgres://{rest}", f"postgresql+asyncpg://{rest}", f"{postgres_url}&sslmode=disable"):
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


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (
            OSError("Multiple exceptions: [Errno 111] Connect … ('::1', 1), [Errno 111] Connect … ('127.0.0.1', 1)"),
            "nothing accepts connections there",
        ),
        (socket.gaierror(-2, "Name or service not known"), "the name of its host could not be looked up"),
        (OSError(113, "Connect call failed ('10.0.0.9', 5432)"), "No route to host"),
        (TimeoutError(), "it did not answer within 10 seconds"),
    ],
)
def test_why_nothing_answers_is_reported_without_numbers(error: OSError, why: str) -> None:
    assert runtime.store.postgres.why_away(error) == why


async def test_a_database_that_is_not_there_gets_a_sentence(postgres_url: str) -> None:
    with pytest.raises(StoreError, match='reached: database "nowhere" does not exist'):
        await Database.open(re.sub(r"/test_\w+", "/nowhere", postgres_url))


async def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("runtime.store.postgres", "runtime.store.postgres_wakeups"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(StoreError, match=r"pip install 'adk-confirm\[postgres\]'"):
        await Database.open("postgresql://localhost/confirm")


def test_a_sqlite_store_loads_nothing_of_this() -> None:
    script = (
        "import asyncio, sys; from runtime.store.database import Database\n"
        "asyncio.run(Database.open('sqlite://'))\n"
        "print([name for name in ('asyncpg', 'sqlalchemy.ext.asyncio') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
