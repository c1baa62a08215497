"""What holds for every transaction, on both databases."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.runtime.errors import Busy, Conflict, StoreError
from adk_confirm.runtime.store.database import Database, Limits, Tx
from adk_confirm.runtime.store.postgres import WRITERS
from adk_confirm.runtime.store.transaction import goes_first


def create(tx: Tx) -> None:
    tx.run("CREATE TABLE counters (id INTEGER PRIMARY KEY, n INTEGER NOT NULL)")
    for number in range(1, 5):
        tx.insert("counters", {"id": number, "n": 0})


def add(tx: Tx, counter: int, amount: int = 1) -> int:
    n = int(tx.value("SELECT n FROM counters WHERE id = :id FOR UPDATE", id=counter)) + amount
    tx.run("UPDATE counters SET n = :n WHERE id = :id", id=counter, n=n)
    return n


def value(tx: Tx, counter: int) -> int | None:
    n: int | None = tx.value("SELECT n FROM counters WHERE id = :id", id=counter)
    return n


@pytest.fixture
def database_url(blank_url: str) -> str:
    """These tests have tables of their own."""
    return blank_url


@pytest.fixture
async def counting(database: Database) -> Database:
    await database.run(create)
    return database


async def test_a_hundred_callers_at_once_lose_no_update(counting: Database) -> None:
    numbers = await asyncio.gather(*(counting.run(add, 1) for _ in range(100)))
    assert sorted(numbers) == list(range(1, 101))
    assert await counting.read(value, 1) == 100


async def test_a_statement_that_fails_fails_its_own_function_alone(counting: Database) -> None:
    def twice_the_same(tx: Tx) -> None:
        tx.insert("counters", {"id": 9, "n": 0})
        tx.insert("counters", {"id": 9, "n": 1})

    refused, counted = await asyncio.gather(counting.run(twice_the_same), counting.run(add, 1), return_exceptions=True)
    assert "unique" in str(refused).lower()
    assert counted == 1
    assert await counting.read(value, 9) is None


async def test_a_reader_sees_what_is_committed_and_not_what_is_under_way(counting: Database) -> None:
    inside, go_on = threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hold(tx: Tx) -> None:
        add(tx, 1)
        inside.set()
        if tx.dialect == "sqlite":  # there, functions have a thread that may wait
            go_on.wait()
        while not go_on.is_set():
            tx.value("SELECT pg_sleep(0.01)")

    writing = asyncio.create_task(counting.run(hold))
    await loop.run_in_executor(None, inside.wait)
    seen = [await counting.read(value, 1)]
    go_on.set()
    await writing
    assert seen == [0]
    assert await counting.read(value, 1) == 1


async def test_one_read_is_one_moment(counting: Database) -> None:
    """On PostgreSQL each statement of a default transaction would see another one."""

    def two_looks(tx: Tx) -> tuple[int | None, int | None]:
        first = value(tx, 1)
        between.append(tx)
        if len(between) == 1 and tx.dialect == "postgresql":
            tx.value("SELECT pg_sleep(0.05)")
        return first, value(tx, 1)

    between: list[Tx] = []
    reading = asyncio.create_task(counting.read(two_looks))
    await asyncio.gather(*(counting.run(add, 1) for _ in range(20)))
    first, second = await reading
    assert first == second


async def test_a_read_can_not_write(counting: Database) -> None:
    with pytest.raises(Exception, match=r"readonly|read-only"):
        await counting.read(insert_ten)
    assert await counting.read(value, 10) is None
    await counting.run(insert_ten)
    assert await counting.read(value, 10) == 0


def insert_ten(tx: Tx) -> None:
    tx.insert("counters", {"id": 10, "n": 0})


async def test_a_caller_that_is_cancelled_undoes_nothing(counting: Database) -> None:
    with counting.waiter("counted") as waiter:

        def add_and_tell(tx: Tx) -> None:
            add(tx, 1)
            tx.notify("counted")

        calling = asyncio.create_task(counting.run(add_and_tell))
        await asyncio.sleep(0)  # one step: the call is on its way, not answered
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert await waiter.wait(60)
    assert await counting.read(value, 1) == 1


async def test_what_was_accepted_is_done_before_the_store_closes(database_url: str) -> None:
    database = await Database.open(database_url)
    await database.run(create)
    calls = [asyncio.create_task(database.run(add, 1)) for _ in range(20)]
    await asyncio.sleep(0)
    await database.close()
    assert sorted(await asyncio.gather(*calls)) == list(range(1, 21))
    with pytest.raises(StoreError, match="The store is closed"):
        await database.run(add, 1)
    with pytest.raises(StoreError, match="The store is closed"):
        await database.read(value, 1)
    await database.close()

    again = await Database.open(database_url)
    assert await again.read(value, 1) == 20
    await again.close()


async def test_who_gives_up_opening_leaves_nothing_open(database_url: str) -> None:
    opening = asyncio.create_task(Database.open(database_url))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    database = await Database.open(database_url)
    await database.run(create)
    assert await database.run(add, 1) == 1
    await database.close()


async def test_a_full_queue_makes_callers_wait_and_then_says_so(database_url: str) -> None:
    database = await Database.open(database_url, limits=Limits(queue=2, patience=0.05))
    await database.run(create)
    go_on = threading.Event()

    def hold(tx: Tx) -> None:
        if tx.dialect == "sqlite":
            go_on.wait()
        else:
            tx.value("SELECT pg_sleep(0.5)")

    holding = [asyncio.create_task(database.run(hold)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="too much to do at once"):
        await database.run(add, 1)
    assert await database.read(value, 1) == 0  # who reads stands in no line behind writers
    go_on.set()
    await asyncio.gather(*holding)
    assert await database.run(add, 1) == 1
    await database.close()


async def test_an_abandoned_call_still_counts_in_the_queue(sqlite_url: str) -> None:
    database = await Database.open(sqlite_url, limits=Limits(queue=1, patience=0.05))
    go_on = threading.Event()
    holding = asyncio.create_task(database.run(lambda _: go_on.wait()))
    await asyncio.sleep(0)
    holding.cancel()
    with pytest.raises(Busy):
        await database.run(create)
    go_on.set()
    await database.close()


async def test_what_goes_first_waits_behind_few_of_a_hundred_others_and_all_are_done(counting: Database) -> None:
    done: list[str] = []
    busy, free = threading.Event(), threading.Event()

    def other(tx: Tx) -> None:
        busy.set()
        free.wait(60)
        add(tx, 1)
        done.append("other")

    def click(tx: Tx) -> None:
        add(tx, 2)
        done.append("click")

    others = [asyncio.create_task(counting.run(other)) for _ in range(100)]
    assert await asyncio.to_thread(busy.wait, 60)
    with goes_first():
        clicks = [asyncio.create_task(counting.run(click)) for _ in range(3)]
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(*others, *clicks)
    assert done.index("click") <= 2 * WRITERS  # on PostgreSQL; on SQLite it is the next
    assert (await counting.read(value, 1), await counting.read(value, 2)) == (100, 3)


async def test_a_function_that_raises_stop_iteration_does_not_hang_its_caller(database: Database) -> None:
    def first_of_none(_: Tx) -> str:
        return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await database.run(first_of_none)


async def test_the_clock_is_the_machines_the_servers_or_the_one_that_was_given(database_url: str) -> None:
    database = await Database.open(database_url, clock=lambda: 1_795_000_000.5)
    assert await database.run(Tx.now) == 1_795_000_000.5
    assert await database.read(Tx.now) == 1_795_000_000.5
    await database.close()

    database = await Database.open(database_url)
    moments = [await database.run(Tx.now), await database.run(Tx.now)]
    assert moments[0] < moments[1]
    assert moments[0] == pytest.approx(time.time(), abs=5)
    await database.close()


async def test_time_goes_on_inside_a_transaction(database: Database) -> None:
    """A lock may be waited for: what the clock said when the transaction began is of no use after it."""

    def twice(tx: Tx) -> tuple[float, float]:
        first = tx.now()
        while tx.now() == first:
            pass
        return first, tx.now()

    first, second = await database.run(twice)
    assert first < second


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("mysql://root:secret@db/x", "'mysql://root@db/x' is not the URL of a store"),
        ("confirm.db", "'confirm.db' is not the URL of a store: a store is sqlite:///confirm.db, or"),
        ("", "'' is not the URL of a store"),
        ("sqlite://confirm.db", "three slashes"),
        ("sqlite:///confirm.db?mode=ro", "parts that a SQLite store doesn't know"),
        ("x://root:secret@[", "is not the URL of a store"),
        ("sqlite:confirm.db", "is not the URL of a store"),
    ],
)
async def test_a_url_that_means_nothing_gets_a_sentence(url: str, sentence: str) -> None:
    with pytest.raises(StoreError) as refused:
        await Database.open(url)
    assert sentence in str(refused.value)
    assert "secret" not in str(refused.value)


Step = tuple[int, int, bool]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9), st.booleans()), max_size=40))
async def test_of_a_group_what_succeeded_is_there_and_nothing_else(steps: list[Step]) -> None:
    def act(tx: Tx, step: Step) -> None:
        counter, amount, succeeds = step
        add(tx, counter, amount)
        if not succeeds:
            raise Conflict("no")

    database = await Database.open("sqlite://")
    await database.run(create)
    answers = await asyncio.gather(*(database.run(act, step) for step in steps), return_exceptions=True)
    rows = await database.read(lambda tx: tx.all("SELECT id, n FROM counters"))
    await database.close()

    sums = dict.fromkeys(range(1, 5), 0)
    for counter, amount, succeeds in steps:
        sums[counter] += amount if succeeds else 0
    assert {row.id: row.n for row in rows} == sums
    assert [answer is None for answer in answers] == [succeeds for _, _, succeeds in steps]


async def test_a_store_in_memory_is_one_store_for_readers_and_writers() -> None:
    for url in ("sqlite://", ":memory:", "sqlite:///:memory:"):
        database = await Database.open(url)
        await database.run(create)
        await asyncio.gather(*(database.run(add, 1) for _ in range(10)))
        assert await database.read(value, 1) == 10
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await database.read(insert_ten)
        assert await database.run(add, 1) == 11
        assert await database.read(lambda tx: tx.value("SELECT count(*) FROM counters")) == 4
        await database.close()


async def test_what_is_reported_is_told_after_the_commit_and_only_then(database: Database) -> None:
    notices: list[object] = []
    database.listen(notices.append)
    await database.run(create)

    def reports(tx: Tx, fact: str, *, fails: bool = False) -> None:
        add(tx, 1)
        tx.report(fact)
        if fails:
            raise Conflict("no")

    await asyncio.gather(database.run(reports, "one"), database.run(reports, "two", fails=True), return_exceptions=True)
    await database.run(reports, "three")

    assert sorted(map(str, notices)) == ["one", "three"]
    assert await database.read(value, 1) == 2
