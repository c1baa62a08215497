"""One lease is for an owner and all of its jobs. A transaction takes along what becomes due with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.jobs import JobKind, owe, settle
from adk_confirm.runtime.store.lease import TERM, Lease, holds
from adk_confirm.runtime.store.lease_loop import LeaseLoop
from tests.support.counting import counted_work
from tests.support.stores import nothing
from tests.support.waiting import until

pytestmark = pytest.mark.every_case

NEVER = 3600.0
Attends = Callable[[str, Lease, Any], Awaitable[None]]


def ask(tx: Tx, key: str, owner: str = "ann", turn: str | None = None) -> None:
    owe(tx, "card", key, owner=owner, turn=turn)


def leases(tx: Tx) -> dict[str, str | None]:
    return {row.key: row.lease_token for row in tx.all("SELECT key, lease_token FROM jobs WHERE kind = 'desk'")}


@asynccontextmanager
async def working(
    database: Database, card: Attends, desk: Attends | None = None, term: float = TERM, **kind: Any
) -> AsyncIterator[LeaseLoop]:
    """A loop that only looks by itself when it is woken."""
    loop = LeaseLoop(
        database,
        JobKind("desk", nothing, desk or card),
        JobKind("card", kind.pop("look", nothing), card, **kind),
        poll=NEVER,
        term=term,
    )
    unclaimed = loop._ended_at
    running = asyncio.create_task(loop.run())
    await until(lambda: loop._ended_at is not unclaimed)  # its first claim is over
    yield loop
    loop.stop()
    await asyncio.wait_for(running, 60)


async def finish(key: str, lease: Lease, found: object) -> None:
    await lease.finish(settle, lease.work.kind, key, owner="ann")


class Gates:
    """Jobs that go on until they are let through."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self._open: dict[str, asyncio.Event] = {}

    async def __call__(self, key: str, lease: Lease, found: object) -> None:
        self.began.append(key)
        await self._open.setdefault(key, asyncio.Event()).wait()
        self._open.pop(key)
        await finish(key, lease, found)

    def lets(self, key: str) -> None:
        self._open[key].set()

    async def until(self, *keys: str) -> None:
        await until(lambda: sorted(self.began) == sorted(keys))


async def free(loop: LeaseLoop) -> None:
    """Until it holds nothing."""
    await until(lambda: not (loop._held or loop._jobs))


async def test_what_becomes_due_is_taken_along_and_nobody_looks_for_it(database: Database) -> None:
    done = asyncio.Event()

    async def attend(key: str, lease: Lease, found: object) -> None:
        await finish(key, lease, found)
        done.set()

    async with working(database, attend) as loop:
        await database.run(ask, "before")
        await asyncio.wait_for(done.wait(), 60)
        await free(loop)
        done.clear()
        with counted_work() as counted:
            await database.run(ask, "a card")
            await asyncio.wait_for(done.wait(), 60)
            await free(loop)
    assert counted == {"ask": 1, "settle": 1}


async def test_the_jobs_of_an_owner_go_side_by_side_under_one_lease_that_ends_with_the_last(database: Database) -> None:
    at_work = Gates()
    async with working(database, at_work) as loop:
        await database.run(ask, "one")
        await at_work.until("one")
        before = await database.read(leases)
        await database.run(ask, "two")
        await at_work.until("one", "two")
        assert await database.read(leases) == before
        await database.run(lambda tx: owe(tx, "card", "two", tx.now() + NEVER, owner="ann"))  # not due, but at work
        at_work.lets("one")
        await until(lambda: not at_work._open.get("one"))
        assert await database.read(leases) == before
        at_work.lets("two")
        await free(loop)


async def test_what_a_last_transaction_made_due_and_did_is_not_begun_under_the_lease_that_it_released(
    database: Database,
) -> None:
    began: list[str] = []

    def does_all(tx: Tx, lease: Lease) -> None:
        assert holds(tx, lease.job, lease.token)
        ask(tx, "a card")
        owe(tx, "desk", "ann")
        settle(tx, "card", "a card", owner="ann")
        settle(tx, "desk", "ann")

    async def attend(key: str, lease: Lease, found: object) -> None:
        began.append(key)
        await lease.finish(does_all, lease)

    async with working(database, attend) as loop:
        await database.run(owe, "desk", "ann")
        await until(lambda: began)
        await free(loop)
    assert began == ["ann"]
    assert await database.read(leases) == {"ann": None}


async def test_another_process_gets_nothing_of_an_owner_that_is_held(database: Database) -> None:
    ours, theirs = Gates(), Gates()
    async with working(database, ours) as loop:
        await database.run(ask, "one")
        await ours.until("one")
        other = LeaseLoop(database, JobKind("desk", nothing, theirs), JobKind("card", nothing, theirs), poll=0.02)
        running = asyncio.create_task(other.run())
        with counted_work() as counted:
            await database.run(ask, "two")
            await database.run(ask, "bob's", "bob")
            await ours.until("one", "two", "bob's")
            await until(lambda: counted["claim_due"] > 3)
        assert theirs.began == []
        for key in ("one", "two", "bob's"):
            ours.lets(key)
        await free(loop)
        other.stop()
        await running


async def test_a_loop_that_drains_lets_others_have_what_becomes_due_of_the_first_kind(database: Database) -> None:
    ours, theirs = Gates(), Gates()
    async with working(database, ours, term=NEVER) as loop:
        await database.run(ask, "one")
        await database.run(lambda tx: owe(tx, "desk", "bob"))
        await ours.until("one", "bob")
        draining = asyncio.create_task(loop.drain(NEVER))
        await until(lambda: loop._draining)
        other = LeaseLoop(database, JobKind("desk", nothing, theirs), JobKind("card", nothing, theirs), poll=NEVER)
        running = asyncio.create_task(other.run())
        await database.run(lambda tx: owe(tx, "desk", "cyd"))
        await theirs.until("cyd")
        await database.run(lambda tx: owe(tx, "desk", "ann"))
        ours.lets("one")
        await theirs.until("cyd", "ann")
        await database.run(ask, "bob's", "bob")  # what is not of the first kind goes on
        await ours.until("one", "bob", "bob's")
        assert not draining.done()
        ours.lets("bob")
        await draining
        ours.lets("bob's")
        for key in ("cyd", "ann"):
            theirs.lets(key)
        other.stop()
        await running


async def test_who_lost_an_owner_begins_nothing_of_it_before_its_own_work_has_ended(database: Database) -> None:
    """It was frozen, and another one has come and gone meanwhile."""
    at_work = Gates()

    def lost(tx: Tx) -> None:
        tx.run("UPDATE jobs SET lease_token = NULL, lease_until = NULL WHERE kind = 'desk'")
        ask(tx, "two")

    async with working(database, at_work) as loop:
        await database.run(ask, "one")
        await at_work.until("one")
        with counted_work() as counted:
            await database.run(lost)
            await until(lambda: counted["claim_due"] > 1)
        assert at_work.began == ["one"]
        at_work.lets("one")
        await at_work.until("one", "one", "two")  # it was not written that the first has ended
        at_work.lets("one")
        at_work.lets("two")
        await free(loop)


async def test_what_another_process_left_is_not_taken_along_without_the_doubt(database: Database) -> None:
    """It is claimed, and the claim stores the doubt."""
    doubted: list[str] = []
    at_work = Gates()

    def left(tx: Tx) -> None:
        tx.insert("jobs", {"kind": "desk", "key": "ann", "lease_token": "of the dead", "lease_until": 1.0})

    await database.run(left)
    async with working(database, at_work, overtaken=lambda _, key: doubted.append(key)) as loop:
        await database.run(ask, "one")
        await at_work.until("one")
        at_work.lets("one")
        await free(loop)
    assert doubted == ["one"]


async def test_what_comes_while_a_job_is_at_work_is_attended_after_it(database: Database) -> None:
    at_work = Gates()
    async with working(database, at_work) as loop:
        await database.run(ask, "one")
        await at_work.until("one")
        await database.run(ask, "one")
        await database.run(settle, "card", "one", owner="ann")  # so only what the loop remembers tells it
        await database.run(lambda tx: tx.run("UPDATE jobs SET due_at = 1.0 WHERE key = 'one'"))
        assert at_work.began == ["one"]
        at_work.lets("one")
        await until(lambda: at_work.began == ["one"] and not at_work._open)
        await database.run(ask, "two")
        await at_work.until("one", "two")
        at_work.lets("two")
        await free(loop)


async def test_what_a_jobs_last_transaction_makes_due_of_it_goes_on_under_the_same_lease(database: Database) -> None:
    tokens: list[str] = []
    over = asyncio.Event()

    def again(tx: Tx, key: str) -> None:
        settle(tx, "card", key, owner="ann")
        ask(tx, key)

    async def attend(key: str, lease: Lease, found: object) -> None:
        tokens.append(lease.token)
        if len(tokens) == 1:
            await lease.finish(again, key)
        else:
            await finish(key, lease, found)
            over.set()

    async with working(database, attend) as loop:
        with counted_work() as counted:
            await database.run(ask, "one")
            await asyncio.wait_for(over.wait(), 60)
            await free(loop)
    assert len(tokens) == 2
    assert tokens[0] == tokens[1]
    assert counted["claim_due"] == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # which commits them in this order
async def test_what_came_as_a_job_ended_is_attended_at_once(database: Database) -> None:
    """Another transaction makes it due while its last one is on its way."""
    attended: list[str] = []
    over = asyncio.Event()

    async def attend(key: str, lease: Lease, found: object) -> None:
        attended.append(key)
        if len(attended) == 1:
            await asyncio.gather(lease.finish(settle, "card", key, owner="ann"), database.run(ask, key))
        else:
            await finish(key, lease, found)
            over.set()

    async with working(database, attend) as loop:
        await database.run(ask, "one")
        await asyncio.wait_for(over.wait(), 60)
        await free(loop)
    assert attended == ["one", "one"]


@pytest.mark.parametrize("transactions", [1, 4])
async def test_a_crowd_takes_turns_also_with_what_is_taken_along(database: Database, transactions: int) -> None:
    at_work, keys = Gates(), [f"ann's {number}" for number in range(4)]

    def ask_some(tx: Tx, number: int) -> None:
        for key in keys[number::transactions]:
            ask(tx, key, f"thread {number}", "ann")

    async with working(database, at_work, at_once=4) as loop:
        await asyncio.gather(*(database.run(ask_some, number) for number in range(transactions)))
        await until(lambda: len(at_work.began) == 2)
        anns = [*at_work.began]
        await database.run(ask, "bob's", "bob", "bob")
        await at_work.until(*anns, "bob's")
        at_work.lets(anns[0])
        await until(lambda: len(at_work.began) == 4)
        at_work.lets(anns[1])
        await until(lambda: len(at_work.began) == 5)
        for key in [*at_work._open]:
            at_work.lets(key)
        await free(loop)


async def test_what_a_transaction_takes_along_counts_until_it_is_heard_of(postgres_stocked: str) -> None:
    """Its commit may take longer than the loop's next claim."""
    database, at_work = await Database.open(postgres_stocked), Gates()
    asked, commits = threading.Event(), threading.Event()

    def hold(tx: Tx) -> None:
        if any(one.job.key == "ann's second" for one in tx.owed):
            asked.set()
            commits.wait(60)

    def ask_both(tx: Tx) -> None:
        ask(tx, "ann's first", "thread 1", "ann")
        ask(tx, "ann's second", "thread 2", "ann")

    with counted_work() as counted:
        async with working(database, at_work, at_once=4) as loop:
            with database.taking(hold):
                both = asyncio.create_task(database.run(ask_both))
                await asyncio.to_thread(asked.wait, 60)
                claims = counted["claim_due"]
                await database.run(ask, "ann's third", "thread 3", "ann")
                await until(lambda: counted["claim_due"] > claims)
                await until(lambda: loop._full)
                await database.run(ask, "ann's fourth", "thread 4", "ann")
                commits.set()
                await both
            await database.run(ask, "bob's", "bob", "bob")
            await at_work.until("ann's first", "ann's second", "bob's")
            for key in [*at_work._open]:
                at_work.lets(key)
            await at_work.until("ann's first", "ann's second", "ann's third", "ann's fourth", "bob's")
            for key in [*at_work._open]:
                at_work.lets(key)
            await free(loop)
    await database.close()


async def test_what_can_not_be_read_is_no_trouble_of_who_made_it_due(database: Database) -> None:
    def look(tx: Tx, key: str) -> None:
        if key == "bad":
            raise ZeroDivisionError
        raise Invalid("Nor this one.")

    def troubles(tx: Tx) -> set[str]:
        return set(tx.column("SELECT trouble FROM jobs WHERE trouble IS NOT NULL"))

    async def both() -> bool:
        return await database.read(troubles) == {"ZeroDivisionError: ", "Nor this one."}

    async with working(database, finish, look=look):
        await database.run(ask, "bad")
        await database.run(ask, "worse")
        await until(both)


async def test_a_loop_that_has_ended_keeps_nothing(database: Database) -> None:
    """A transaction that took something along is committed after it."""
    at_work = Gates()
    async with working(database, at_work) as loop:
        pass

    def ask_of_it(tx: Tx) -> None:
        ask(tx, "late")
        loop._stopping.clear()
        loop._take(tx)

    await database.run(ask_of_it)
    await until(lambda: loop._leaving is not None and loop._leaving.done())
    assert not any((await database.read(leases)).values())
    assert at_work.began == []
