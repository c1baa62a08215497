"""Rows that are due are processed, failed ones are retried later, and parked ones keep their deadlines."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from adk_confirm.bot.slack.troubles import Later
from adk_confirm.runtime.errors import ConfirmError, Invalid, StoreError
from adk_confirm.runtime.store import jobs
from adk_confirm.runtime.store.database import Clocks, Database, Limits, OutcomeUnknown, Tx
from adk_confirm.runtime.store.jobs import LONGEST_LAG, MOST_FAILURES, AtWork, JobKind, NotNow, owe, postpone, settle
from adk_confirm.runtime.store.lease import TERM, Lease
from adk_confirm.runtime.store.lease_loop import AGAIN, LeaseLoop
from adk_confirm.runtime.store.postgres import SESSION
from tests.support.counting import counted_work
from tests.support.postgres import frozen
from tests.support.skipping import Skipping, in_skipping_time
from tests.support.stores import claim_due, nothing
from tests.support.waiting import until
from tests.support.watched import Watched, When

pytestmark = pytest.mark.every_case


async def with_rows(database: Database, *keys: str, kind: str = "test") -> None:
    def make(tx: Tx) -> None:
        for key in keys:
            owe(tx, kind, key)

    await database.run(make)


def set_row(tx: Tx, key: str, /, **values: object) -> None:
    new = ", ".join(f"{name} = :{name}" for name in values)
    tx.run(f"UPDATE jobs SET {new} WHERE key = :key", key=key, **values)


def done(tx: Tx, key: str) -> None:
    set_row(tx, key, due_at=None)


def insert_rows(tx: Tx, rows: Sequence[Mapping[str, object]]) -> None:
    for row in rows:
        tx.insert("jobs", {"kind": "test", **row})


def all_rows(tx: Tx) -> list[Any]:
    return tx.all("SELECT * FROM jobs ORDER BY key")


Attends = Callable[[str, Lease, None], Awaitable[None]]


async def attends_until(over: asyncio.Event, database: Database, attend: Attends, poll: float = 1.0) -> None:
    """`attend`: what is done with a row."""
    attendant = LeaseLoop(database, JobKind("test", nothing, attend), poll=poll)
    running = asyncio.create_task(attendant.run())
    async with asyncio.timeout(60):
        await over.wait()
    attendant.stop()
    await running


async def nobody(key: str, lease: Lease, found: None) -> None:
    raise AssertionError("nobody attends here")


async def test_one_row_that_fails_keeps_no_other_from_being_attended(database: Database) -> None:
    await with_rows(database, "bad", "good")
    attended: list[str] = []
    both = asyncio.Event()

    async def attend(key: str, lease: Lease, found: None) -> None:
        attended.append(key)
        if len(set(attended)) == 2:
            both.set()
        if key == "bad":
            raise Invalid("This one can't be done.")
        await database.run(done, key)

    await attends_until(both, database, attend)

    def look(tx: Tx) -> dict[str, tuple[int, str | None, bool]]:
        return {row.key: (row.failures, row.trouble, row.due_at is None) for row in all_rows(tx)}

    seen = await database.read(look)
    assert seen["good"] == (0, None, True)
    assert seen["bad"] == (1, "This one can't be done.", False)


@pytest.mark.parametrize("odd", ["\0", "\ud800"], ids=["NUL", "half a surrogate"])
async def test_a_row_is_put_off_whatever_its_error_says(database: Database, odd: str) -> None:
    """An agent's server may say anything, and its words become the row's trouble."""
    await with_rows(database, "bad")

    def fail(tx: Tx) -> tuple[int, str | None]:
        kind = JobKind("test", nothing, nobody)
        for key, claim in claim_due(tx, kind, 10, 30.0)[0]:
            postpone(tx, kind, key, claim.due_at, None, f"It said: {odd}!", counted=True)
        (row,) = all_rows(tx)
        return row.failures, row.trouble

    assert await database.run(fail) == (1, "It said: \N{REPLACEMENT CHARACTER}!")


async def test_what_is_cancelled_inside_a_job_is_its_failure(database: Database) -> None:
    """Given back without a failure it would be due at once, and keep a processor busy for good."""
    await with_rows(database, "bad")
    attended: list[Any] = []
    over = asyncio.Event()

    async def attend(key: str, lease: Lease, found: None) -> None:
        attended.append((await database.read(all_rows))[0])
        if len(attended) == 2:
            await lease.finish(done, key)
            over.set()
            return
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()
        await inner

    await attends_until(over, database, attend)
    assert [(row.failures, row.trouble) for row in attended] == [(0, None), (1, "CancelledError: ")]


async def test_a_row_that_is_put_off_costs_no_look_until_it_is_due(database: Database) -> None:
    await with_rows(database, "early")
    attended: list[float] = []
    over = asyncio.Event()

    async def attend(key: str, lease: Lease, found: None) -> None:
        attended.append(asyncio.get_running_loop().time())
        if len(attended) == 1:
            raise NotNow(0.3, "It is too early.")
        await lease.finish(done, key)
        over.set()

    with counted_work() as counted:
        await attends_until(over, database, attend, poll=3600)
    assert attended[1] - attended[0] >= 0.3
    assert counted["claim_due"] == 2


async def test_a_row_that_is_due_later_comes_up_then_and_costs_no_look_if_it_is_done_before(database: Database) -> None:
    """So do the cards of a call that was approved: they wait a second for its end, which mostly comes before."""
    over, attended = asyncio.Event(), list[str]()

    async def attend(key: str, lease: Lease, found: None) -> None:
        attended.append(key)
        await lease.finish(settle, "test", key)
        over.set()

    def store(tx: Tx) -> None:
        for key, seconds, or_sooner in (("done", 0.1, False), ("last", 3600.0, False), ("last", 0.4, True)):
            owe(tx, "test", key, tx.now() + seconds, or_sooner=or_sooner)
        owe(tx, "test", "last", tx.now() + 1800.0, or_sooner=True)

    attendant = LeaseLoop(database, JobKind("test", nothing, attend), poll=3600)
    with counted_work() as counted:
        running = asyncio.create_task(attendant.run())
        await until(lambda: counted["claim_due"] == 1)
        await database.run(store)
        await database.run(settle, "test", "done")
        await asyncio.wait_for(over.wait(), 60)
        attendant.stop()
        await running
    assert attended == ["last"]
    assert counted["claim_due"] == 2


async def test_a_row_that_can_not_even_be_put_off_is_left_alone(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Given back at once it would come up at once, and keep a processor busy for good."""
    await with_rows(database, "bad", "good")
    attended: list[str] = []
    one_began, both = asyncio.Event(), asyncio.Event()

    async def attend(key: str, lease: Lease, found: None) -> None:
        attended.append(key)
        if len(attended) == 3:
            both.set()
        if key == "bad":
            raise Invalid("This one can't be done.")
        if one_began.is_set():
            await database.run(done, key)
        else:
            one_began.set()

    def unreadable(tx: Tx, key: str) -> float | None:
        if key == "bad":
            raise Invalid("Nor can it be read.")
        return None

    attendant = LeaseLoop(database, JobKind("test", nothing, attend, deadline=unreadable), poll=0.05)
    running = asyncio.create_task(attendant.run())
    await asyncio.wait_for(both.wait(), 60)
    attendant.stop()
    await running
    assert sorted(attended) == ["bad", "good", "good"], "the good one comes up again, and that one does not"
    assert "test bad could not be put off, and is left to its lease" in caplog.text


async def test_a_row_that_is_put_off_for_long_still_comes_up_at_its_deadline(database: Database) -> None:
    await with_rows(database, "late", "patient")

    def put_off(tx: Tx) -> dict[str, float]:
        now = tx.now()
        kind = JobKind("test", nothing, nobody, deadline=lambda _, key: now + 60 if key == "late" else None)
        for key, claim in claim_due(tx, kind, 10, 30.0)[0]:
            postpone(tx, kind, key, claim.due_at, 3600.0, "Slack takes none now.", counted=False)
        return {row.key: row.due_at - now for row in all_rows(tx)}

    due = await database.run(put_off)
    assert due["late"] == pytest.approx(60, abs=1)
    assert due["patient"] >= 3600


async def test_after_twenty_failures_a_row_is_parked_but_not_beyond_its_deadline(database: Database) -> None:
    await with_rows(database, "late", "hopeless")
    deadline = 4_000_000_000.0

    kind = JobKind("test", nothing, nobody, deadline=lambda _, key: deadline if key == "late" else None)

    def fail(tx: Tx) -> None:
        tx.run("UPDATE jobs SET due_at = :now, lease_token = NULL, lease_until = NULL", now=tx.now())
        for key, claim in claim_due(tx, kind, 10, 30.0)[0]:
            postpone(tx, kind, key, claim.due_at, None, "no", counted=True)

    for _ in range(MOST_FAILURES):
        await database.run(fail)

    def look(tx: Tx) -> dict[str, tuple[float | None, bool]]:
        return {row.key: (row.due_at, row.parked_at is not None) for row in all_rows(tx)}

    assert await database.read(look) == {"late": (deadline, True), "hopeless": (None, True)}


async def test_what_can_not_be_done_now_is_no_failure(database: Database) -> None:
    await with_rows(database, "x")
    tried = asyncio.Event()

    async def attend(key: str, lease: Lease, found: None) -> None:
        tried.set()
        raise NotNow(60.0, "Runs are paused.")

    await attends_until(tried, database, attend)

    def look(tx: Tx) -> tuple[int, float]:
        (row,) = all_rows(tx)
        return row.failures, row.due_at - tx.now()

    failures, ahead = await database.run(look)
    assert failures == 0
    assert 30 < ahead <= 60


async def test_the_pause_grows_while_slack_fails_and_not_while_a_row_waits_for_its_turn(database: Database) -> None:
    await with_rows(database, "fails", "waits", "just failed")
    long_ago = 3600.0
    await database.run(lambda tx: tx.run("UPDATE jobs SET owed_since = :at", at=tx.now() - long_ago))
    await database.run(lambda tx: set_row(tx, "just failed", owed_since=tx.now()))
    attended: set[str] = set()
    all_three = asyncio.Event()

    async def attend(key: str, lease: Lease, found: None) -> None:
        attended.add(key)
        if len(attended) == 3:
            all_three.set()
        raise Later("chat.update", 1.0, *([] if key == "waits" else ["status 503"]))

    began = await database.read(lambda tx: tx.now())
    await attends_until(all_three, database, attend)

    found = await database.read(all_rows)
    ended = await database.read(lambda tx: tx.now())
    due = {row.key: row.due_at for row in found}
    assert due["fails"] >= began + LONGEST_LAG
    assert due["waits"] <= ended + 1.0
    assert due["just failed"] <= ended + 1.0


async def test_what_happened_to_a_row_meanwhile_is_not_put_off_with_it(database: Database) -> None:
    """A vote that is stored while a card waits for Slack is counted at once."""
    await with_rows(database, "x")
    attended: list[str] = []
    again = asyncio.Event()

    async def attend(key: str, lease: Lease, found: None) -> None:
        attended.append(key)
        if len(attended) == 2:
            again.set()
            return
        await database.run(lambda tx: tx.run("UPDATE jobs SET due_at = :now", now=tx.now()))
        raise NotNow(3600.0, "Slack takes none now.")

    await attends_until(again, database, attend)


@pytest.mark.parametrize("ends", ["well", "by a write", "in trouble", "without a store"])
async def test_who_lost_a_row_leaves_it_as_it_is(
    database: Database, caplog: pytest.LogCaptureFixture, ends: str
) -> None:
    """Nothing is written, put off or given back: it is another's."""
    await with_rows(database, "x")
    attendant: LeaseLoop

    def stolen(tx: Tx) -> None:
        set_row(tx, "x", lease_token="another's", lease_until=tx.now() + 60)

    async def attend(key: str, lease: Lease, found: None) -> None:
        await database.run(stolen)
        attendant.stop()
        if ends == "in trouble":
            raise Invalid("This can't be done.")
        if ends == "by a write":
            await lease.run(done, key)
        if ends == "without a store":  # its connections are gone, as after a freeze
            raise StoreError("The store is away.")

    overtaken: list[str] = []

    def note(tx: Tx, key: str) -> None:
        overtaken.append(key)

    def look(tx: Tx) -> tuple[str, int, str | None, bool]:
        (row,) = all_rows(tx)
        return row.lease_token, row.failures, row.trouble, row.due_at is None

    with caplog.at_level("INFO"):
        attendant = LeaseLoop(database, JobKind("test", nothing, attend, overtaken=note))
        await asyncio.wait_for(attendant.run(), 60)
    assert await database.read(look) == ("another's", 0, None, False)
    warning = "test x was taken over by another process; nothing more was written here"
    assert (warning in caplog.messages) is (ends in ("by a write", "in trouble"))
    assert set(overtaken) == (set() if ends == "well" else {"x"})


def test_nothing_is_sent_again_before_the_store_takes_that_it_may_have_been_sent(sqlite_stocked: str) -> None:
    """The disk is full for longer than a frozen process is waited for."""
    happened: list[str] = []

    async def full(loop: Skipping) -> None:
        disk_is_full, doubted = True, asyncio.Event()

        async def attend(key: str, lease: Lease, found: None) -> None:
            happened.append("sent")
            if disk_is_full:
                raise StoreError("database or disk is full")
            await lease.run(done, key)

        def note(tx: Tx, key: str) -> None:
            happened.append("in doubt")

        async def watch(when: When, what: str) -> None:
            if what == "note" and disk_is_full:
                raise StoreError("database or disk is full")
            if (when, what) == ("after", "done"):
                doubted.set()

        opened = Watched(await Database.open(sqlite_stocked, clock=loop.wall), watch)
        await with_rows(opened, "x")
        attendant = LeaseLoop(opened, JobKind("test", nothing, attend, overtaken=note))
        running = asyncio.create_task(attendant.run())
        for _ in range(40):
            await loop.skip(1.0)
            await opened.read(all_rows)  # its threads have had their time too
        assert happened == ["sent"]
        disk_is_full = False
        while not doubted.is_set():
            await loop.skip(1.0)
        attendant.stop()
        await running
        await opened.close()

    in_skipping_time(full)
    assert happened == ["sent", "in doubt", "sent"]


async def test_what_a_stop_cancels_is_in_doubt_before_its_lease_ends(database: Database) -> None:
    """Its last transaction may be under way, and may come after the end of the lease."""
    await with_rows(database, "x")
    begun, doubted = asyncio.Event(), list[bool]()

    async def attend(key: str, lease: Lease, found: None) -> None:
        begun.set()
        await asyncio.Event().wait()

    def note(tx: Tx, key: str) -> None:
        doubted.append(all_rows(tx)[0].lease_token is not None)

    running = asyncio.create_task(LeaseLoop(database, JobKind("test", nothing, attend, overtaken=note)).run())
    await begun.wait()
    running.cancel()
    await asyncio.wait({running})
    assert doubted == [True]


async def test_what_a_dead_process_held_is_attended_as_soon_as_its_lease_has_lapsed(database: Database) -> None:
    await with_rows(database, "x")
    attended = asyncio.Event()

    async def attend(key: str, lease: Lease, found: None) -> None:
        await lease.run(done, key)
        attended.set()

    def held(tx: Tx) -> None:
        set_row(tx, "x", lease_token="of the dead", lease_until=tx.now() + 0.2)

    await database.run(held)
    await attends_until(attended, database, attend, poll=3600)


async def test_what_a_dead_process_held_and_is_not_due_keeps_nobody_awake(database: Database) -> None:
    await with_rows(database, "x", "y")
    kind = JobKind("test", nothing, nobody)

    def held(tx: Tx) -> None:
        set_row(tx, "x", lease_token="of the dead", lease_until=1.0, due_at=None)
        set_row(tx, "y", lease_token="of the dead", lease_until=1.0, due_at=tx.now() + 60)

    await database.run(held)
    claimed, pause, _ = await database.run(claim_due, kind, 10, 30.0)
    assert claimed == []
    assert pause == pytest.approx(60, abs=5)


async def test_what_is_not_due_for_long_hides_no_lease_that_lapses_soon(database: Database) -> None:
    await with_rows(database, "x", "y")

    def held(tx: Tx) -> None:
        set_row(tx, "x", lease_token="of the dead", lease_until=1.0, due_at=tx.now() + 3600)
        set_row(tx, "y", lease_token="of another", lease_until=tx.now() + 10, due_at=1.0)

    await database.run(held)
    _, pause, _ = await database.run(claim_due, JobKind("test", nothing, nobody), 10, 30.0)
    assert pause == pytest.approx(10, abs=5)


async def test_a_process_that_stood_still_goes_on_with_its_rows_and_does_not_take_them_from_itself(
    database: Database,
) -> None:
    await with_rows(database, "x", "y")
    attended: list[str] = []
    another = asyncio.Event()

    async def attend(key: str, lease: Lease, found: None) -> None:
        attended.append(key)
        if key == "x":
            await database.run(set_row, "x", lease_until=1.0)
            await database.run(set_row, "y", due_at=2.0)
            await another.wait()
        else:
            another.set()
        await lease.run(done, key)

    await database.run(set_row, "y", due_at=None)
    await attends_until(another, database, attend, poll=0.05)
    assert attended == ["x", "y"]


async def test_the_log_says_once_why_a_row_is_put_off(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "adk_confirm.runtime.store.lease_loop")
    await with_rows(database, "x")
    tries = 0
    finished = asyncio.Event()

    async def attend(key: str, lease: Lease, found: None) -> None:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise NotNow(0.01, f"Runs are paused, try {tries}.")
        await lease.run(done, key)
        finished.set()

    await attends_until(finished, database, attend, poll=0.02)
    logged = [(record.levelname, record.getMessage()) for record in caplog.records if "put off" in record.getMessage()]
    assert logged == [
        ("INFO", "test x is put off for 0.01 s: Runs are paused, try 1."),
        ("DEBUG", "test x is put off for 0.01 s: Runs are paused, try 2."),
        ("DEBUG", "test x is put off for 0.01 s: Runs are paused, try 3."),
    ]


async def test_the_log_says_once_why_a_row_fails_and_that_it_is_parked(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await with_rows(database, "x")
    tries = 0

    async def attend(key: str, lease: Lease, found: None) -> None:
        nonlocal tries
        tries += 1
        raise ConfirmError("Slack says no." if tries < 4 else "Slack says never.")

    loop = LeaseLoop(database, JobKind("test", nothing, attend), poll=0.01)
    running = asyncio.create_task(loop.run())

    def again(tx: Tx, failures: int) -> bool:
        (row,) = all_rows(tx)
        if row.failures == failures < MOST_FAILURES:
            set_row(tx, "x", due_at=0.0)
        return bool(row.failures == failures)

    for failures in range(1, MOST_FAILURES + 1):
        await until(partial(database.run, again, failures))
    loop.stop()
    await running
    logged = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert logged == [
        "test x will be tried again: Slack says no.",
        "test x will be tried again: Slack says never.",
        "test x failed 20 times and is parked: Slack says never.",
    ]


async def test_a_row_that_a_frozen_process_has_locked_is_attended(
    postgres_stocked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims skip locked rows, so nobody waits for the lock."""
    monkeypatch.setitem(SESSION, "idle_in_transaction_session_timeout", "200")
    attended = asyncio.Event()

    async def attend(key: str, lease: Lease, found: None) -> None:
        await lease.finish(done, key)
        attended.set()

    awake = await Database.open(postgres_stocked)
    await with_rows(awake, "x")
    with frozen(postgres_stocked, "SELECT * FROM jobs FOR UPDATE"):
        await attends_until(attended, awake, attend)
    await awake.close()


async def test_a_row_for_which_the_store_has_no_room_does_not_keep_a_processor_busy(
    sqlite_stocked: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A claim still fits on the disk, and what is to be stored does not."""
    database = await Database.open(sqlite_stocked)
    await with_rows(database, "large")
    tries, third = list[float](), asyncio.Event()

    def write(tx: Tx, key: str) -> None:
        pages = tx.value("PRAGMA page_count")
        tx.value(f"PRAGMA max_page_count = {pages + 1}")
        set_row(tx, key, trouble="x" * 1_000_000)

    async def attend(key: str, lease: Lease, found: None) -> None:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) == 3:
            third.set()
        await lease.run(write, key)

    await attends_until(third, database, attend)
    assert "database or disk is full" in caplog.text
    assert tries[2] - tries[0] > AGAIN
    await database.close()


async def test_a_loop_outlives_a_store_that_has_too_much_to_do(sqlite_stocked: str) -> None:
    database = await Database.open(sqlite_stocked, limits=Limits(queue=1, patience=0.05))
    await with_rows(database, "x")
    attended, go_on = asyncio.Event(), threading.Event()

    async def attend(key: str, lease: Lease, found: None) -> None:
        await lease.finish(done, key)
        attended.set()

    holding = asyncio.create_task(database.run(lambda _: go_on.wait()))
    await asyncio.sleep(0)
    attending = asyncio.create_task(attends_until(attended, database, attend))
    await asyncio.wait({attending}, timeout=0.2)
    go_on.set()
    await asyncio.gather(holding, attending)
    await database.close()


TURNS = JobKind("test", nothing, nobody, at_once=8)


async def test_who_waits_for_their_turn_keeps_nobody_awake_and_gets_it_at_once(database: Database) -> None:
    """Four of somebody's five rows fill their half of the slots for a while."""
    await database.run(insert_rows, [{"key": f"a{n}", "turn": "ann", "due_at": float(n)} for n in range(5)])
    four, over, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    began: list[str] = []

    async def attend(key: str, lease: Lease, found: None) -> None:
        began.append(key)
        if len(began) == 4:
            four.set()
        if len(began) == 5:
            over.set()
        await go_on.wait()
        await lease.finish(done, key)

    with counted_work() as counted:
        attendant = LeaseLoop(database, JobKind("test", nothing, attend, at_once=8), poll=3600)
        running = asyncio.create_task(attendant.run())
        await asyncio.wait_for(four.wait(), 60)
        await asyncio.wait({running}, timeout=0.5)
        assert counted["claim_due"] <= 3
        go_on.set()
        await asyncio.wait_for(over.wait(), 60)
        attendant.stop()
        await running


async def test_what_waits_for_its_turn_comes_up_whenever_the_jobs_before_it_end(database: Database) -> None:
    """Jobs end at any moment, also while others are being claimed. Nothing here is found by looking now and then."""
    keys = {f"a{n:03}" for n in range(150)}
    await database.run(insert_rows, [{"key": key, "turn": "ann", "due_at": 1.0} for key in keys])
    over = asyncio.Event()

    async def attend(key: str, lease: Lease, found: None) -> None:
        for _ in range(int(key[-1])):
            await lease.run(all_rows)
        await lease.finish(done, key)
        keys.discard(key)
        if not keys:
            over.set()

    attendant = LeaseLoop(database, JobKind("test", nothing, attend, at_once=48), poll=3600)
    running = asyncio.create_task(attendant.run())
    await asyncio.wait_for(over.wait(), 60)
    attendant.stop()
    await running


async def test_people_take_turns_however_much_one_of_them_wants(database: Database) -> None:
    """Four hundred rows of one person are due first; of the others each has one."""

    def claim_twice(tx: Tx) -> tuple[list[str], list[str], list[str]]:
        flood = [{"key": f"a{n:03}", "turn": "ann", "due_at": n / 1000} for n in range(400)]
        insert_rows(tx, [*flood, {"key": "b", "turn": "bob", "due_at": 1.0}])
        insert_rows(tx, [{"key": f"n{n}", "due_at": 2.0 + n} for n in range(2)])
        first, *_ = claim_due(tx, TURNS, 8, 30.0)
        at_work = {key: claim.turn for key, claim in first}
        second, pause, _ = claim_due(tx, TURNS, 8, 30.0, at_work)
        assert pause is None
        insert_rows(tx, [{"key": "c", "turn": "cyd", "due_at": 3.0}])
        third, *_ = claim_due(tx, TURNS, 8, 30.0, at_work)
        return [key for key, _ in first], [key for key, _ in second], [key for key, _ in third]

    first, second, third = await database.run(claim_twice)
    assert sorted(first) == ["a000", "a001", "a002", "a003", "b", "n0", "n1"], "half of the slots at most"
    assert second == []
    assert third == ["c"]


async def test_a_decision_does_not_wait_behind_thousands_of_somebodys_rows(database: Database) -> None:
    def claim(tx: Tx) -> list[str]:
        insert_rows(tx, [{"key": f"a{n:04}", "turn": "ann", "due_at": n / 10_000} for n in range(1200)])
        insert_rows(tx, [{"key": "decision", "due_at": 5.0}])
        return [key for key, _ in claim_due(tx, TURNS, 8, 30.0)[0]]

    assert await database.run(claim) == ["a0000", "a0001", "a0002", "a0003", "decision"]


async def test_a_decision_does_not_wait_behind_a_crowd(database: Database) -> None:
    def claim(tx: Tx) -> set[str]:
        insert_rows(tx, [{"key": f"a{n:04}", "turn": f"person {n}", "due_at": n / 10_000} for n in range(1200)])
        insert_rows(tx, [{"key": "decision", "due_at": 5.0}])
        return {key for key, _ in claim_due(tx, replace(TURNS, reserved=4), 8, 30.0)[0]}

    assert "decision" in await database.run(claim)


async def test_a_kind_does_not_wait_behind_a_crowd_of_another(database: Database) -> None:
    def claim(tx: Tx) -> set[str]:
        insert_rows(tx, [{"key": f"a{n:04}", "turn": f"thread {n}", "due_at": n / 10_000} for n in range(1200)])
        insert_rows(tx, [{"kind": "card", "key": "card", "turn": "thread 7", "due_at": 5.0}])
        kinds = TURNS, replace(TURNS, name="card")
        return {one.job.key for one in jobs.claim_due(tx, kinds, {"test": 8, "card": 8}, 30.0, AtWork()).jobs}

    assert "card" in await database.run(claim)


async def test_without_anybody_else_somebody_has_half_of_the_slots(database: Database) -> None:
    def claim(tx: Tx) -> list[str]:
        insert_rows(tx, [{"key": f"a{n}", "turn": "ann", "due_at": float(n)} for n in range(9)])
        claimed, *_ = claim_due(tx, TURNS, 2, 30.0)
        again, *_ = claim_due(tx, TURNS, 6, 30.0, {key: claim.turn for key, claim in claimed})
        return [key for key, _ in (*claimed, *again)]

    assert await database.run(claim) == ["a0", "a1", "a2", "a3"]


async def test_what_is_nobodys_has_slots_of_its_own(database: Database) -> None:
    kind = JobKind("test", nothing, nobody, at_once=8, reserved=4)

    def claim_twice(tx: Tx) -> tuple[list[str], list[str]]:
        people = [{"key": f"{name}{n}", "turn": name, "due_at": float(n)} for name in ("a", "b", "c") for n in range(2)]
        insert_rows(tx, people)
        first, *_ = claim_due(tx, kind, 8, 30.0)
        insert_rows(tx, [{"key": f"n{n}", "due_at": 9.0} for n in range(5)])
        second, *_ = claim_due(tx, kind, 4, 30.0, {key: claim.turn for key, claim in first})
        return [key for key, _ in first], [key for key, _ in second]

    first, second = await database.run(claim_twice)
    assert sorted(first) == ["a0", "a1", "b0", "c0"], "the others are kept for rows that are nobody's"
    assert len(second) == 4
    assert {key[0] for key in second} == {"n"}


async def test_a_row_whose_last_answer_was_lost_is_attended_when_it_is_due_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has released its owner, and this process does not know that."""
    await with_rows(database, "a")
    attended, twice, runs = list[str](), asyncio.Event(), database.run

    async def answer_is_lost(fn: Callable[..., object], *args: object, **kwargs: object) -> None:
        await runs(fn, *args, **kwargs)
        monkeypatch.setattr(database, "run", runs)
        raise OutcomeUnknown("The connection broke.")

    async def attend(key: str, lease: Lease, found: None) -> None:
        attended.append(key)
        if len(attended) == 1:
            monkeypatch.setattr(database, "run", answer_is_lost)
            try:
                await lease.finish(done, key)
            finally:
                await with_rows(database, key)
        await lease.finish(done, key)
        twice.set()

    await attends_until(twice, database, attend)
    assert attended == ["a", "a"]


@pytest.mark.parametrize("way", [0.0, 3 * TERM], ids=["at once", "longer than a lease lasts"])
async def test_what_was_done_while_a_claim_was_on_its_way_is_not_done_again(
    database: Database, monkeypatch: pytest.MonkeyPatch, way: float
) -> None:
    """What the claim found is old then."""
    claimed, answers, over, done_once, claims_again = (asyncio.Event() for _ in range(5))
    attended, runs = list[str](), database.run

    async def lead(key: str, lease: Lease, found: None) -> None:
        await database.run(lambda tx: owe(tx, "other", "b", tx.now() + 0.1, owner="a"))
        await over.wait()
        await lease.finish(done, key)

    async def other(key: str, lease: Lease, found: None) -> None:
        attended.append(key)
        await lease.finish(done, key)
        done_once.set()

    async def late(fn: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        if claimed.is_set():
            claims_again.set()
        claim = await runs(fn, *args, **kwargs)
        if [one.job.key for one in getattr(claim, "jobs", ())] == ["b"]:
            claimed.set()
            await answers.wait()
        return claim

    await with_rows(database, "a", kind="lead")
    loop = LeaseLoop(database, JobKind("lead", nothing, lead), JobKind("other", nothing, other))
    monkeypatch.setattr(database, "run", late)
    running = asyncio.create_task(loop.run())
    async with asyncio.timeout(60):
        await claimed.wait()
        await runs(lambda tx: owe(tx, "other", "b", owner="a"))
        await done_once.wait()
        while "other b" in loop.at_work:
            await asyncio.sleep(0)
        claims_again.clear()
        clocks = database.clocks()
        monkeypatch.setattr(database, "clocks", lambda: Clocks(clocks.running + way, clocks.wall + way))
        answers.set()
        await claims_again.wait()
    loop.stop()
    over.set()
    await running
    assert attended == ["b"]
