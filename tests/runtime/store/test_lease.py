"""Leases: who may claim a row, keep it, release it and write with it, in one process and in several."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.jobs import JobKind, owe
from adk_confirm.runtime.store.lease import JobKey, Keeper, Lease, LeaseLost, claim, holds, release, remaining, renew
from tests.support.skipping import Skipping, in_skipping_time
from tests.support.stores import claim_due, nothing, try_lease
from tests.support.waiting import until
from tests.support.watched import Watched, When

MINE, OTHER = (JobKey("desk", name) for name in ("mine", "other"))


def create(tx: Tx) -> None:
    for job in (MINE, OTHER):
        owe(tx, *job)
        tx.run("UPDATE jobs SET owed_since = 1.0 WHERE key = :key", key=job.key)


def waits_since(tx: Tx, new: float | None = None) -> float:
    """Sets it, if there is something to set."""
    if new is not None:
        tx.run("UPDATE jobs SET owed_since = :since WHERE key = 'mine'", since=new)
    since: float = tx.value("SELECT owed_since FROM jobs WHERE key = 'mine'")
    return since


def stolen(tx: Tx) -> None:
    tx.run("UPDATE jobs SET lease_token = 'thief' WHERE key = 'mine'")


@dataclass
class Clock:
    time: float = 1_795_000_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(database_url: str, clock: Clock) -> AsyncIterator[Database]:
    database = await Database.open(database_url, clock=clock)
    await database.run(create)
    yield database
    await database.close()


async def token_for(database: Database, row: JobKey = MINE, *, term: float = 30) -> str:
    token = await database.run(claim, row, term=term)
    assert token is not None
    return token


async def lease_on(database: Database, row: JobKey = MINE, *, topic: str | None = None, term: float = 30) -> Lease:
    lease = await try_lease(database, row, topic=topic, term=term)
    assert lease is not None
    return lease


async def test_of_many_that_claim_one_gets_it(store: Database) -> None:
    tokens = await asyncio.gather(*(store.run(claim, MINE, term=30) for _ in range(30)))
    assert len([token for token in tokens if token is not None]) == 1


async def test_nobody_claims_between_the_check_and_the_commit(store: Database, clock: Clock) -> None:
    token = await token_for(store)
    clock.time += 1000
    inside = asyncio.Event()
    loop = asyncio.get_running_loop()

    def write_as_holder(tx: Tx) -> bool:
        held = holds(tx, MINE, token)
        loop.call_soon_threadsafe(inside.set)
        if tx.dialect == "postgresql":
            tx.first("SELECT pg_sleep(0.1)")
        waits_since(tx, 7.0)
        return held

    def claim_and_look(tx: Tx) -> tuple[str | None, float]:
        return claim(tx, MINE, term=30), waits_since(tx)

    writing = asyncio.create_task(store.run(write_as_holder))
    await inside.wait()
    claimed, due = await store.run(claim_and_look)
    assert await writing
    assert claimed is not None
    assert due == 7.0


@pytest.fixture
async def lively(database: Database) -> Database:
    """A store whose clock runs."""
    await database.run(create)
    return database


async def test_a_kept_lease_outlives_its_term(lively: Database) -> None:
    lease = await lease_on(lively, topic="desk", term=0.3)
    time = asyncio.get_running_loop().time
    over = time() + 0.7
    async with lease:
        await until(lambda: time() > over)
        assert await try_lease(lively, MINE) is None
        await lease.sure()
        assert not lease.lost.is_set()
    assert await try_lease(lively, MINE) is not None


async def test_a_lease_that_is_left_to_what_goes_on_ends_by_itself_after_that(lively: Database) -> None:
    lease, at_it = await lease_on(lively, term=0.3), True
    time = asyncio.get_running_loop().time
    over = time() + 0.7
    async with lease:
        lease.leave(lambda: at_it)
        await lease.finish(waits_since, 7.0)
    await until(lambda: time() > over)
    assert await try_lease(lively, MINE) is None
    at_it = False

    async def taken() -> Lease | None:
        return await try_lease(lively, MINE)

    assert await until(taken)


async def test_leases_are_renewed_together_and_one_that_was_lost_takes_no_other_along(lively: Database) -> None:
    renewals = list[str]()

    async def count(when: When, what: str) -> None:
        renewals.extend([what] if when == "after" and what.startswith("renew") else [])

    watched = Watched(lively, count)
    keeper = Keeper(watched, 0.3)
    leases = []
    for row in (MINE, OTHER):
        token = await token_for(lively, row, term=0.3)
        leases.append(Lease(watched, row, token, term=0.3, keeper=keeper))
    mine, other = leases
    async with mine, other:
        await lively.run(stolen)
        await asyncio.wait_for(mine.lost.wait(), 60)
        seen = len(renewals)
        await until(lambda: len(renewals) > seen + 3)
        assert not other.lost.is_set()
        assert await try_lease(lively, OTHER) is None
    assert {*renewals} == {"renew"}


async def test_a_row_that_is_locked_keeps_no_other_lease_from_being_renewed(postgres_stocked: str) -> None:
    database = await Database.open(postgres_stocked)
    await database.run(create)
    held = [await token_for(database, row) for row in (MINE, OTHER)]
    locked, looked = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def lock(tx: Tx) -> None:
        tx.first("SELECT 1 FROM jobs WHERE key = 'mine' FOR UPDATE")
        loop.call_soon_threadsafe(locked.set)
        looked.wait(60)

    locking = asyncio.create_task(database.run(lock))
    await locked.wait()
    assert await database.run(renew, held, term=60) == (set(), {held[0]})
    looked.set()
    await locking
    assert await database.run(renew, held, term=60) == (set(), set())
    await database.close()


async def test_whoever_waits_for_it_is_woken_when_it_is_released(lively: Database) -> None:
    first = await lease_on(lively, topic="desk")
    with lively.waiter("desk") as waiter:
        async with first:
            assert await try_lease(lively, MINE) is None
        await asyncio.wait_for(waiter.wait(3600), 60)
    second = await lease_on(lively)
    assert second.token != first.token
    await second.sure()
    with pytest.raises(LeaseLost):
        await first.sure()


async def test_whether_the_work_has_ended_is_seen_in_the_transaction(lively: Database) -> None:
    lease = await lease_on(lively, topic="desk")
    async with lease:
        assert await lease.finish_if(lambda due: due > 7, waits_since, 7.0) == 7.0
        await lease.sure()
        assert await try_lease(lively, MINE) is None
        assert await lease.finish_if(lambda due: due > 7, waits_since, 8.0) == 8.0
        with pytest.raises(LeaseLost):
            await lease.sure()
        assert await try_lease(lively, MINE) is not None
    assert not lease.lost.is_set()


async def test_what_a_lease_carries_is_in_its_next_transaction_or_not_at_all(lively: Database) -> None:
    def fails(tx: Tx) -> None:
        raise StoreError("It is full.")

    written = list[float]()
    async with await lease_on(lively) as lease:
        lease.carry(lambda tx: waits_since(tx, waits_since(tx) + 1.0), written.append)
        assert await lively.read(waits_since) == 1.0
        with pytest.raises(StoreError):
            await lease.run(fails)
        assert await lively.read(waits_since) == 1.0
        assert [*await asyncio.gather(lease.run(waits_since), lease.run(waits_since))] == [2.0, 2.0]
        await lease.write_carried()
        assert (await lively.read(waits_since), written) == (2.0, [2.0])
        lease.carry(lambda tx: waits_since(tx, 9.0), written.append)
        await lively.run(stolen)
        with pytest.raises(LeaseLost):
            await lease.write_carried()
    assert (await lively.read(waits_since), written) == (2.0, [2.0])


async def test_a_worker_that_lost_the_lease_finishes_nothing(lively: Database) -> None:
    lease = await lease_on(lively)
    await lively.run(stolen)
    async with lease:
        with pytest.raises(LeaseLost):
            await lease.finish(waits_since, 7.0)
        with pytest.raises(LeaseLost):
            await lease.finish_if(lambda _: False, waits_since, 7.0)
    assert await lively.read(waits_since, None) != 7.0
    assert await lively.read(lambda tx: tx.value("SELECT lease_token FROM jobs WHERE key = 'mine'")) == "thief"


async def test_a_lease_nearly_over_is_renewed_before_the_effect(store: Database, clock: Clock) -> None:
    lease = await lease_on(store)
    clock.time += 25
    await lease.sure()
    assert await store.read(remaining, MINE, lease.token) == 30


async def test_a_lease_that_lapsed_and_that_nobody_took_is_renewed_and_goes_on(store: Database, clock: Clock) -> None:
    """As after a process stood still: nobody else wants the row, so what was begun is finished."""
    lease = await lease_on(store)
    async with lease:
        clock.time += 1000
        assert await lease.run(waits_since, 7.0) == 7.0
        await lease.sure()
        assert not lease.lost.is_set()
        assert await store.read(remaining, MINE, lease.token) == 30


async def test_who_stores_that_an_effect_begins_has_the_row_for_a_while(store: Database, clock: Clock) -> None:
    token = await token_for(store)
    clock.time += 1000
    assert await store.run(holds, MINE, token, term=30)
    assert await store.run(claim, MINE, term=30) is None
    assert await store.read(remaining, MINE, token) == 30


def test_an_answer_from_before_the_process_stood_still_is_not_believed(sqlite_stocked: str) -> None:
    """It stood still between the store's answer and its own next step, and somebody else took the row."""

    async def frozen(loop: Skipping) -> None:
        asked: list[str] = []

        async def freeze(when: When, what: str) -> None:
            if (when, what) == ("after", "remaining"):
                asked.append(what)
                if len(asked) == 1:
                    await loop.skip(31)
                    assert await opened.run(claim, MINE, term=30.0) is not None

        opened = await Database.open(sqlite_stocked, clock=loop.wall)
        await opened.run(create)
        token = await opened.run(claim, MINE, term=30.0)
        assert token is not None
        lease = Lease(Watched(opened, freeze), MINE, token, term=30.0)
        with pytest.raises(LeaseLost):
            await lease.sure()
        assert len(asked) == 2
        await opened.close()

    in_skipping_time(frozen)


async def test_nor_is_one_from_before_the_machine_was_paused(store: Database, clock: Clock) -> None:
    """From outside: only the time of day shows it, once it is set right."""
    asked: list[str] = []

    async def pause(when: When, what: str) -> None:
        if (when, what) == ("after", "remaining"):
            asked.append(what)
            if len(asked) == 1:
                clock.time += 31
                assert await store.run(claim, MINE, term=30.0) is not None

    lease = Lease(Watched(store, pause), MINE, await token_for(store), term=30.0)
    with pytest.raises(LeaseLost):
        await lease.sure()
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("passes", "asks"), [(0.0, 0), (9.9, 0), (10.0, 1), (-1.0, 1)], ids=["at once", "a while", "a third", "set back"]
)
async def test_a_lease_that_was_just_claimed_is_sure_by_the_clocks_alone(
    store: Database, clock: Clock, passes: float, asks: int
) -> None:
    asked: list[str] = []

    async def note(when: When, what: str) -> None:
        asked.extend([what] if when == "before" and what == "remaining" else [])

    watched, before = Watched(store, note), store.clocks()
    lease = Lease(watched, MINE, await token_for(store), term=30.0, asked=before)
    clock.time += passes
    await lease.sure()
    assert len(asked) == asks


async def test_who_takes_what_another_did_not_release_stores_the_doubt_with_the_claim(
    store: Database, clock: Clock
) -> None:
    doubts: list[str] = []

    async def attend(key: str, lease: Lease, found: None) -> None:
        raise AssertionError

    kind = JobKind("desk", nothing, attend, overtaken=lambda _, key: doubts.append(key))
    await token_for(store)
    clock.time += 31
    claimed, *_ = await store.run(claim_due, kind, 5, 30.0)
    assert (sorted(key for key, _ in claimed), doubts) == (["mine", "other"], ["mine"])


async def test_a_lease_that_somebody_is_just_taking_is_not_sure(postgres_stocked: str, clock: Clock) -> None:
    """It lapsed, and the next holder has not committed yet."""
    database = await Database.open(postgres_stocked, clock=clock)
    await database.run(create)
    lease = await lease_on(database)
    clock.time += 1000
    taken, looked = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def take(tx: Tx) -> str | None:
        token = claim(tx, MINE, term=30)
        loop.call_soon_threadsafe(taken.set)
        looked.wait(60)
        return token

    taking = asyncio.create_task(database.run(take))
    await taken.wait()
    asking = asyncio.create_task(lease.sure())
    assert not (await asyncio.wait({asking}, timeout=0.5))[0]
    looked.set()
    assert await taking is not None
    with pytest.raises(LeaseLost):
        await asking
    await database.close()


async def test_a_worker_that_lost_the_lease_writes_nothing(store: Database, clock: Clock) -> None:
    lease = await lease_on(store)
    async with lease:
        clock.time += 30
        async with await lease_on(store) as next_one:
            with pytest.raises(LeaseLost):
                await lease.run(waits_since, 7.0)
            assert lease.lost.is_set()
            with pytest.raises(LeaseLost):
                await lease.sure()
            assert await next_one.run(waits_since) == 1.0


async def test_the_check_comes_after_what_the_transaction_locks(postgres_stocked: str) -> None:
    """Whoever locks the rows in the usual order meets a holder that locks them in the same one: no deadlock."""
    database = await Database.open(postgres_stocked)
    await database.run(create)
    lock = "SELECT due_at FROM jobs WHERE key = :name FOR UPDATE"

    def both(tx: Tx) -> None:
        """`other` first, as a session comes before its confirmation."""
        tx.first(lock, name="other")
        tx.first(lock, name="mine")

    def the_first(tx: Tx) -> None:
        tx.first(lock, name="other")

    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    before = await database.read(lambda tx: tx.value(deadlocks))  # those of earlier tests in this database
    lease = await lease_on(database)
    async with lease:
        await asyncio.gather(*(work for _ in range(100) for work in (database.run(both), lease.run(the_first))))
    assert await database.read(lambda tx: tx.value(deadlocks)) == before
    await database.close()


async def test_a_lease_is_given_back_as_soon_as_the_store_is_there_again(database: Database) -> None:
    """Not left to lapse: until then nobody could go on with the row."""
    await database.run(create)
    away = 3

    async def trouble(when: str, what: str) -> None:
        nonlocal away
        if (when, what) == ("before", "release") and away:
            away -= 1
            raise StoreError("away")

    lease = await lease_on(Watched(database, trouble), term=600)
    async with lease:
        pass
    assert away == 0
    assert await try_lease(database, MINE) is not None


async def test_a_store_that_goes_away_does_not_undo_the_work_that_was_done(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = await Database.open(database_url)
    await database.run(create)
    lease = await lease_on(database, term=0.3)
    async with lease:
        await database.close()
        with pytest.raises(StoreError):
            await lease.sure()
    assert "A lease was not released, and runs out by itself: The store is closed." in caplog.messages


async def test_a_lease_released_in_a_transaction_of_ones_own_is_let_alone(lively: Database) -> None:
    lease = await lease_on(lively)
    async with lease:
        await lively.run(release, MINE, lease.token)
        lease.stop()
        next_one = await try_lease(lively, MINE)
        assert next_one is not None
    await next_one.sure()
    assert not lease.lost.is_set()
