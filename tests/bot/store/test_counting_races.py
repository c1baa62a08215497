"""Two replicas work on one row at the same time: each stored vote is counted once, and no work is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from adk_confirm.bot.audit.ledger import Head, LineKind
from adk_confirm.bot.confirmation.authorise import Facts
from adk_confirm.bot.confirmation.confirmation import Confirmation, Seat, VoteKind
from adk_confirm.bot.confirmation.decision import delivery_of
from adk_confirm.bot.confirmation.states import Step
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.policy.redaction import own_words
from adk_confirm.bot.store.cast_vote import SubmittedVote, cast, count_next
from adk_confirm.bot.store.ledger_rows import find_head, write_steps
from adk_confirm.bot.store.letters import Mail, RunsPaused, SlackMessage, read_mail, receive_mention
from adk_confirm.bot.store.open import open_store
from adk_confirm.bot.store.outbox import ThreadDone, copies_until, note_and_look, note_copy_search, note_possible_copies
from adk_confirm.bot.store.pause import pause_runs, switch_runs
from adk_confirm.bot.store.repository import lock_confirmation, put_mail, put_words, session_is_sealed
from adk_confirm.bot.store.transactions import follow_call, hand_over, save_drawn
from adk_confirm.runtime.calls.call import Call, CallState, HeldRequest
from adk_confirm.runtime.store.database import Tx
from tests.support.backoffice import Backoffice
from tests.support.deciding import ANNA, ASKER, BEN, LEAD, MALLORY, TEAM, full_member
from tests.support.office import ON_EITHER, ON_POSTGRES
from tests.support.stores import SECRET

POLICIES = """
[[policy]]
tools = ["*"]
approvers = ["user:U0ANNA", "user:U0BEN", "user:U0LEAD"]
quorum = 3
"""


@pytest.fixture
def at(back: Backoffice) -> Backoffice:
    back.policies(POLICIES)
    return back


@ON_EITHER
async def test_a_vote_that_another_replica_has_counted_is_left_alone(at: Backoffice) -> None:
    name = await at.asks("deploy")
    for who in (ANNA, BEN):
        await at.vote(name, who, stored_only=True)
    first, second = (vote.id for vote in (await at.row(name)).pending_votes)
    facts = {first: Facts(account=full_member(ANNA)), second: Facts(account=full_member(BEN))}
    for vote in (first, first, second, second, first):
        await at.database.run(count_next, name, vote, lambda _, stored: facts[stored.id], at.rules.policies)
    assert [line.kind for line in await at.lines()] == ["asked", "approval", "approval"]
    assert (await at.row(name)).voters(VoteKind.APPROVE) == (ANNA, BEN)


@ON_EITHER
async def test_both_at_the_same_time(at: Backoffice) -> None:
    name = await at.asks("deploy")
    await at.vote(name, ANNA, stored_only=True)
    (vote,) = (await at.row(name)).pending_votes
    facts = Facts(account=full_member(ANNA))
    others = [at.database]
    if at.url.startswith("postgresql"):
        others += [await open_store(at.url, SECRET, at.clock) for _ in range(2)]
    await asyncio.gather(
        *(one.run(count_next, name, vote.id, lambda *_: facts, at.rules.policies) for one in others * 3)
    )
    assert [line.kind for line in await at.lines()] == ["asked", "approval"]
    for one in others[1:]:
        await one.close()


@ON_EITHER
async def test_a_click_that_was_refused_and_comes_again_to_a_replica_that_knows_nobody_is_refused_once(
    at: Backoffice,
) -> None:
    name, mallory = await at.asks("deploy"), Facts(account=full_member(MALLORY))
    click = SubmittedVote(
        id="c1", confirmation=name, revision=1, kind=VoteKind.APPROVE, voter=MALLORY, seat=Seat(person=MALLORY)
    )
    for _ in range(2):
        await at.database.run(cast, click, at.rules.policies)
        for vote in (await at.row(name)).pending_votes:
            await at.database.run(count_next, name, vote.id, lambda *_: mallory, at.rules.policies)
    assert [line.kind for line in await at.lines()] == ["asked", "vote refused"]


@ON_EITHER
async def test_what_is_in_the_mailbox_is_not_put_there_again(at: Backoffice) -> None:
    await at.hears("hello")
    for is_new in (True, False, False):
        put = partial(put_mail, kind="answer", mark="k1:1:approved", body="{}")
        assert await at.database.run(put, at.key) is is_new


@ON_POSTGRES
async def test_a_message_is_no_forged_one_because_a_line_comes_while_it_is_read(
    at: Backoffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever claims the session reads its mail without a lock."""
    await at.hears("hello")
    loop, step = asyncio.get_running_loop(), Step(kind=LineKind.HEARD, at=at.clock.now, text=own_words("other"))
    reading, first = list[Tx](), Tx.first

    def first_and_a_line(tx: Tx, sql: str, /, **values: object) -> Any:
        found = first(tx, sql, **values)
        if tx in reading and "bot_chains" in sql:
            asyncio.run_coroutine_threadsafe(at.database.run(write_steps, at.key, step), loop).result(10)
        return found

    def read(tx: Tx) -> Mail:
        reading.append(tx)
        return read_mail(tx, at.key, alone=False)

    monkeypatch.setattr(Tx, "first", first_and_a_line)
    (letter,) = (await at.database.run(read)).letters
    assert [line.kind for line in await at.lines()] == ["heard"]
    assert letter.sealed


@ON_POSTGRES
async def test_what_is_owed_to_a_thread_just_as_another_replica_is_done_with_it_stays_owed(at: Backoffice) -> None:
    await at.asks("deploy")
    await at.is_posted()
    other = await open_store(at.url, SECRET, at.clock)
    noted, loop = asyncio.Event(), asyncio.get_running_loop()

    def note_slowly(tx: Tx) -> None:
        note_possible_copies(tx, at.key)
        loop.call_soon(noted.set)
        tx.all("SELECT pg_sleep(0.3)")  # meanwhile the other one looks whether anything is left

    noting = asyncio.create_task(other.run(note_slowly))
    await noted.wait()
    await at.database.run(note_and_look, at.key, ThreadDone())
    await noting
    due = "SELECT due_at FROM jobs WHERE kind = 'thread' AND key = :key"
    assert await at.database.read(lambda tx: tx.value(due, key=at.key)) is not None
    await other.close()


@ON_POSTGRES
async def test_two_people_may_begin_a_thread_with_the_agent_at_two_replicas_at_once(at: Backoffice) -> None:
    """As when Slack delivers what came while no replica was there."""
    other = await open_store(at.url, SECRET, at.clock)
    stored, loop = asyncio.Event(), asyncio.get_running_loop()

    def words(ts: str, person: Person) -> SlackMessage:
        return SlackMessage(
            app="oncall", team=TEAM, channel="C0DEPLOYS", thread_ts="7.1", ts=ts, person=person, text="deploy"
        )

    def receive_slowly(tx: Tx) -> None:
        receive_mention(tx, words("7.1", ASKER), False)
        loop.call_soon_threadsafe(stored.set)
        tx.all("SELECT pg_sleep(0.3)")  # meanwhile the other one sees no session

    receiving = asyncio.create_task(other.run(receive_slowly))
    await stored.wait()
    assert (await at.database.run(receive_mention, words("7.2", BEN), False)).new
    await receiving
    said = (
        "SELECT person FROM bot_mail m JOIN bot_sessions s ON s.key = m.session WHERE s.thread_ts = '7.1' ORDER BY m.id"
    )
    assert await at.database.read(lambda tx: tx.column(said)) == [ASKER.user, BEN.user]
    await other.close()


@ON_POSTGRES
@pytest.mark.parametrize("what", ["a vote", "a message", "a card"])
async def test_a_lock_that_waited_for_another_replica_reads_what_that_one_wrote(at: Backoffice, what: str) -> None:
    name = await at.asks("deploy")
    other, done, loop = await open_store(at.url, SECRET, at.clock), asyncio.Event(), asyncio.get_running_loop()
    ballot = SubmittedVote(
        id="v", confirmation=name, revision=1, kind=VoteKind.APPROVE, voter=ANNA, seat=Seat(person=ANNA)
    )
    facts = Facts(account=full_member(ANNA))

    def locks(tx: Tx) -> tuple[bool, Confirmation, Head]:
        session, found = lock_confirmation(tx, name)
        return session_is_sealed(tx, session), found, find_head(tx, session.key)

    def writes_slowly(tx: Tx) -> tuple[bool, Confirmation, Head]:
        session, row = lock_confirmation(tx, name)
        match what:
            case "a vote":
                cast(tx, ballot, at.rules.policies, lambda *_: facts)
            case "a message":
                put_words(tx, session, mark="7.1", body="{}", person=BEN)
            case _:
                save_drawn(tx, name, tuple(replace(place, drawn_version=row.face) for place in row.places))
        loop.call_soon_threadsafe(done.set)
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        while tx.first(waits) is None:
            pass
        return locks(tx)

    before = await at.database.run(locks)
    writing = asyncio.create_task(other.run(writes_slowly))
    await done.wait()
    assert await at.database.run(locks) == await writing
    assert (await at.database.run(locks) != before) is (what != "a message")
    await other.close()


@ON_POSTGRES
async def test_a_doubt_that_comes_just_as_another_replica_ends_an_older_one_stays(at: Backoffice) -> None:
    await at.asks("deploy")
    await at.is_posted()
    await at.database.run(note_possible_copies, at.key)
    at.clock.passes(minutes=1)
    other = await open_store(at.url, SECRET, at.clock)
    noted, loop = asyncio.Event(), asyncio.get_running_loop()

    def note_slowly(tx: Tx) -> None:
        note_possible_copies(tx, at.key)
        loop.call_soon_threadsafe(noted.set)
        tx.all("SELECT pg_sleep(0.3)")  # meanwhile the other one has searched for copies

    noting = asyncio.create_task(other.run(note_slowly))
    await noted.wait()
    await at.database.run(note_copy_search, at.key)
    await noting
    assert await at.database.read(copies_until, at.key) == at.clock()
    await other.close()


class _SlowTx(Tx):
    """As of a process that is frozen for a while right after it has read whether runs are paused."""

    __slots__ = ("read",)
    read: Callable[[], object]

    def _execute(self, sql: str, values: dict[str, object]) -> Any:
        found = super()._execute(sql, values)
        if "adk_confirm_store" in sql:
            self.read()
            super()._execute("SELECT pg_sleep(0.5)", {})
        return found


@ON_POSTGRES
@pytest.mark.parametrize("ours", [True, False], ids=["our own runtime", "a server of others"])
async def test_nothing_starts_after_a_pause_was_answered(at: Backoffice, ours: bool) -> None:
    name = await at.asks("deploy")
    for who in (ANNA, BEN, LEAD):
        await at.vote(name, who)
    row = await at.row(name)
    request = HeldRequest(row.asked.request_id, "", confirmed=True)
    call = Call(row.asked.call_id, "deploy", row.revision.arguments, "oncall", "e1", asked=(request,))
    other, read, loop = await open_store(at.url, SECRET, at.clock), asyncio.Event(), asyncio.get_running_loop()

    def starts(tx: Tx) -> None:
        slow = _SlowTx(tx._connection, tx.dialect, tx._clock)
        slow.context, slow.read = tx.context, lambda: loop.call_soon_threadsafe(read.set)
        if ours:
            follow_call(slow, row.asked.session, call, replace(call, state=CallState.RUNNING))
        else:
            hand_over(slow, name, delivery_of(row, "approved"))

    async def start() -> None:
        with suppress(RunsPaused):
            await other.run(starts)

    starting = asyncio.create_task(start())
    await read.wait()
    await switch_runs(at.database, pause_runs)
    when_answered = await at.row(name)
    await starting
    await other.close()
    at_the_end = await at.row(name)
    assert (at_the_end.outcome, at_the_end.handed_at) == (when_answered.outcome, when_answered.handed_at)
