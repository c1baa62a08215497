"""Two replicas work on one row at the same time: each stored vote is counted once, and no work is forgotten."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from adk_confirm.bot.confirmation.authorise import Facts
from adk_confirm.bot.confirmation.model import Seat, VoteKind
from adk_confirm.bot.store.cast_vote import SubmittedVote, cast, count_next
from adk_confirm.bot.store.open import open_store
from adk_confirm.bot.store.outbox import mark_all_posted, note_possible_copies
from adk_confirm.bot.store.repository import put_mail
from adk_confirm.runtime.store.database import Tx
from tests.support.backoffice import Backoffice
from tests.support.deciding import ANNA, BEN, MALLORY, full_member
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
        await at.database.run(count_next, name, vote, facts[vote], at.rules.policies)
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
    await asyncio.gather(*(one.run(count_next, name, vote.id, facts, at.rules.policies) for one in others * 3))
    assert [line.kind for line in await at.lines()] == ["asked", "approval"]
    for one in others[1:]:
        await one.close()


@ON_EITHER
async def test_a_click_that_was_refused_and_comes_again_to_a_replica_that_knows_nobody_is_refused_once(
    at: Backoffice,
) -> None:
    name = await at.asks("deploy")
    click = SubmittedVote(
        id="c1", confirmation=name, revision=1, kind=VoteKind.APPROVE, voter=MALLORY, seat=Seat(person=MALLORY)
    )
    for _ in range(2):
        await at.database.run(cast, click, at.rules.policies)
        for vote in (await at.row(name)).pending_votes:
            await at.database.run(count_next, name, vote.id, Facts(account=full_member(MALLORY)), at.rules.policies)
    assert [line.kind for line in await at.lines()] == ["asked", "vote refused"]


@ON_EITHER
async def test_what_is_in_the_mailbox_is_not_put_there_again(at: Backoffice) -> None:
    await at.hears("hello")
    for is_new in (True, False, False):
        put = partial(put_mail, kind="answer", mark="k1:1:approved", body="{}")
        assert await at.database.run(put, at.key) is is_new


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
    await at.database.run(mark_all_posted, at.key)
    await noting
    due = "SELECT due_at FROM jobs WHERE kind = 'thread' AND key = :key"
    assert await at.database.read(lambda tx: tx.value(due, key=at.key)) is not None
    await other.close()
