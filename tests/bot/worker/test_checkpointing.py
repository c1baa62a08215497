"""Checkpoints: when they are made, over which lines, by which replica, and where they are published."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest

from adk_confirm.bot.audit.checkpoints import Checkpoint, read_anchor
from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.audit.verification import Integrity
from adk_confirm.bot.confirmation.states import Step
from adk_confirm.bot.policy.approvers import OPERATOR
from adk_confirm.bot.slack.troubles import Gone
from adk_confirm.bot.store.audit_log import verify_ledger
from adk_confirm.bot.store.checkpoint_rows import stored_checkpoints
from adk_confirm.bot.store.ledger_rows import write_steps
from adk_confirm.bot.store.open import open_store
from adk_confirm.bot.store.repository import now
from adk_confirm.bot.worker.checkpoint_job import AT_ONCE, CheckpointJob, seal_moved
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.postgres import SESSION
from tests.support.postgres import frozen
from tests.support.stores import KEYS, SECRET

HOUR = timedelta(hours=1)


class Clock:
    def __init__(self) -> None:
        self.at = 1_900_000_000.0

    def __call__(self) -> float:
        return self.at

    def passes(self, length: timedelta) -> None:
        self.at += length.total_seconds()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(database_url: str, clock: Clock) -> AsyncIterator[Database]:
    database = await open_store(database_url, SECRET, clock)
    yield database
    await database.close()


def write(tx: Tx, chain: str) -> None:
    write_steps(tx, chain, Step(kind=LineKind.PAUSED, at=now(tx), who=OPERATOR))


async def sealed(store: Database, *, at_once: bool = False) -> list[str] | None:
    """The chains of the checkpoint that was made; None when none was."""
    made = (await store.run(seal_moved, KEYS, HOUR, at_once=at_once)).made
    return None if made is None else sorted(made.heads)


def all_of(tx: Tx) -> list[Checkpoint]:
    return list(stored_checkpoints(tx))


# When, and over what


async def test_only_what_moved_is_sealed_and_only_when_it_is_time(store: Database, clock: Clock) -> None:
    assert await sealed(store) is None, "an empty ledger has nothing to seal"
    for chain in ("a", "b"):
        await store.run(write, chain)
    assert await sealed(store) == ["a", "b"]
    await store.run(write, "a")
    assert await sealed(store) is None, "it is too early"
    clock.passes(HOUR)
    assert await sealed(store) == ["a"]
    clock.passes(HOUR)
    assert await sealed(store) is None, "nothing has moved"
    await store.run(write, "b")
    await store.run(write, "c")
    assert await sealed(store) == ["b", "c"]
    assert [point.number for point in await store.read(all_of)] == [1, 2, 3]
    report = await store.read(verify_ledger, KEYS)
    assert (report.finding, report.checkpoints) == (Integrity.CONSISTENT, 3)


async def test_however_many_have_moved_each_checkpoint_is_over_a_bounded_number(
    store: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """And only the last is told: it is sealed over the others."""
    caplog.set_level(logging.INFO, "adk_confirm.audit")
    count = 2 * AT_ONCE + 5
    rows = [{"chain": f"c{number:06}", "seq": 1, "hash": f"{number:064x}"} for number in range(count)]
    await store.run(lambda tx: tx.many("INSERT INTO bot_chains (chain, seq, hash) VALUES (:chain, :seq, :hash)", rows))
    checkpointing = CheckpointJob(store, KEYS, HOUR)
    checkpointing.stop()
    await checkpointing.run()
    made = await store.read(all_of)
    assert [len(point.heads) for point in made] == [AT_ONCE, AT_ONCE, 5]
    assert len({chain for point in made for chain in point.heads}) == count
    assert [record.getMessage() for record in caplog.records] == [made[-1].publish(KEYS)]


async def test_a_chain_that_somebody_writes_to_just_now_is_not_waited_for(postgres_url: str, clock: Clock) -> None:
    store = await open_store(postgres_url, SECRET, clock)
    for chain in ("busy", "quiet"):
        await store.run(write, chain)
    with psycopg.connect(postgres_url) as somebody:
        somebody.execute("SELECT * FROM bot_chains WHERE chain = 'busy' FOR UPDATE")
        assert await sealed(store) == ["quiet"]
    clock.passes(HOUR)
    assert await sealed(store) == ["busy"]
    await store.close()


async def test_a_chain_that_a_frozen_process_has_locked_is_sealed_while_it_is_frozen(
    postgres_url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SESSION, "idle_in_transaction_session_timeout", "200")
    store = await open_store(postgres_url, SECRET, clock)
    await store.run(write, "x")
    with frozen(postgres_url, "SELECT * FROM bot_chains FOR UPDATE"):
        async with asyncio.timeout(20):
            while await sealed(store) is None:
                clock.passes(HOUR)
    assert [[*point.heads] for point in await store.read(all_of)] == [["x"]]
    await store.close()


async def test_at_a_clean_stop_it_need_not_be_time(store: Database) -> None:
    await store.run(write, "a")
    await sealed(store)
    await store.run(write, "a")
    assert await sealed(store, at_once=True) == ["a"]
    assert await sealed(store, at_once=True) is None


async def test_a_line_committed_late_is_in_the_next_one(store: Database, clock: Clock) -> None:
    """Its time was asked before the checkpoint's, and it was stored after it."""
    await store.run(write, "a")
    await sealed(store)
    clock.passes(timedelta(seconds=-30))
    await store.run(write, "late")
    clock.passes(HOUR + timedelta(seconds=30))
    assert await sealed(store) == ["late"]


async def test_a_clock_that_was_put_back_holds_nothing_up(store: Database, clock: Clock) -> None:
    await store.run(write, "a")
    await sealed(store)
    clock.passes(timedelta(minutes=-30))
    await store.run(write, "a")
    assert await sealed(store) == ["a"]


async def test_what_somebody_wrote_over_stops_no_checkpoint(store: Database, clock: Clock) -> None:
    await store.run(write, "a")
    await sealed(store)
    await store.run(lambda tx: tx.run("UPDATE bot_checkpoints SET heads = 'x', at = 'y'"))
    await store.run(write, "b")
    clock.passes(HOUR)
    assert await sealed(store) == ["b"]
    report = await store.read(verify_ledger, KEYS)
    assert report.broken is not None
    assert report.broken.why == "checkpoint 1 was not sealed with this secret"


# As a part of the service


class Channel:
    def __init__(self) -> None:
        self.posted: asyncio.Queue[str] = asyncio.Queue()

    async def post(self, line: str) -> None:
        await self.posted.put(line)


async def test_it_is_reported_in_the_log_and_in_the_channel(store: Database, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "adk_confirm.audit")
    channel = Channel()
    await store.run(write, "a")
    checkpointing = CheckpointJob(store, KEYS, HOUR, channel.post)
    running = asyncio.create_task(checkpointing.run())
    first = await channel.posted.get()
    await store.run(write, "b")
    checkpointing.stop()
    await running
    second = await channel.posted.get()
    assert [record.getMessage() for record in caplog.records] == [first, second]
    report = await store.read(verify_ledger, KEYS, read_anchor(caplog.text, KEYS))
    assert (report.finding, report.anchored) == (Integrity.UNTAMPERED, 2)


async def test_a_channel_that_takes_nothing_is_no_reason_to_stop(
    store: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "adk_confirm.audit")

    async def archived(line: str) -> None:
        raise Gone("chat.postMessage", "is_archived")

    await store.run(write, "a")
    checkpointing = CheckpointJob(store, KEYS, HOUR, archived)
    checkpointing.stop()
    await checkpointing.run()
    info, warned = [record.getMessage() for record in caplog.records]
    assert info.startswith("checkpoint 1 ")
    assert warned.startswith("checkpoint 1 is not in the audit channel: This channel is archived.")
