"""What is stored with an agent's request: whether anybody is asked, for whom it waits, and what is due when."""

from __future__ import annotations

import asyncio

import pytest

from adk_confirm.bot.config.settings import Rules, WaitingLimits
from adk_confirm.bot.confirmation.confirmation import OutcomeKind
from adk_confirm.bot.store import waiting_index
from adk_confirm.bot.store.agent_status import SUSPENDED_AFTER
from adk_confirm.bot.store.ledger_rows import read_lines
from adk_confirm.bot.store.marks import SOON, mark_thread_due
from adk_confirm.bot.store.transactions import follow_outcome
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.lease import topic_of
from tests.support.backoffice import Backoffice
from tests.support.deciding import ANNA, call_that_became
from tests.support.office import ON_EITHER

pytestmark = ON_EITHER


@pytest.fixture
def at(back: Backoffice) -> Backoffice:
    back.policies('[[policy]]\ntools = ["*"]\napprovers = ["user:U0ANNA"]\n')
    return back


async def test_a_tool_whose_name_no_database_takes_is_refused(at: Backoffice) -> None:
    for name in ("deploy" * 50, "deploy\0", "deploy\ud800"):
        assert "can't be shown to anybody" in await at.refuses(name, {})
    lines = await at.database.read(read_lines, at.key)
    assert [line.kind for line in lines] == ["call refused"] * 3


@pytest.mark.parametrize("here", [2, 3], ids=["in one session", "for one person"])
async def test_no_more_calls_wait_than_may_however_many_replicas_open_them(at: Backoffice, here: int) -> None:
    def waiting(tx: Tx) -> list[int]:
        return sorted(tx.column("SELECT count(*) FROM bot_confirmations WHERE state = 'waiting' GROUP BY session"))

    at.rules = Rules(at.rules.policies, WaitingLimits(waiting_per_session=here, waiting_per_person=4))
    opened = []
    for thread in ("1.1", "2.2"):
        await at.hears("please deploy", thread=thread)
        opened += [asyncio.create_task(at.opens(at.key)) for _ in range(5)]
    rows = [row for row in await asyncio.gather(*opened) if row is not None]
    assert len(rows) == 4
    assert sum(await at.database.read(waiting)) == 4
    assert max(await at.database.read(waiting)) <= here


TEAM = "T0ACME"


def fill(tx: Tx) -> None:
    """4,000 calls: every second one for ann as well as for the group; one in a hundred for a function."""
    tx.many(
        "INSERT INTO bot_waiting (team, whom, at, confirmation) VALUES (:team, :whom, :created, :confirmation)",
        [
            {"team": TEAM, "whom": name, "created": float(number), "confirmation": f"c{number:05}"}
            for number in range(4000)
            for name in (
                "group:S0ONCALL",
                f"channel:C{number % 7}",
                *(["user:U0ANN"] if number % 2 else []),
                *(["python:rota:who"] if number % 100 == 0 else []),
            )
        ],
    )
    tx.run(
        "INSERT INTO bot_waiting (team, whom, at, confirmation) VALUES ('T0OTHER', :whom, 0.0, 'x')",
        whom="group:S0ELSEWHERE",
    )


async def test_one_page_after_the_other_each_call_once(at: Backoffice) -> None:
    database = at.database
    await database.run(fill)
    assert await database.read(waiting_index.entries_in_use, TEAM) == ["group:S0ONCALL", "python:rota:who"]

    mine = ["group:S0ONCALL", "user:U0ANN", "user:U0NOBODY"]
    first = await database.read(waiting_index.page, TEAM, mine, None, 40)
    second = await database.read(waiting_index.page, TEAM, mine, first[-1], 40)
    assert [name for _, name in (*first, *second)] == [f"c{number:05}" for number in range(80)]

    only = await database.read(waiting_index.page, TEAM, ["user:U0ANN"], None, 3)
    assert [name for _, name in only] == ["c00001", "c00003", "c00005"]
    assert await database.read(waiting_index.count_after, TEAM, mine, (3899.0, "c03899")) == 100
    assert await database.read(waiting_index.count_after, TEAM, mine, first[-1]) == waiting_index.MANY
    assert await database.read(waiting_index.count_after, TEAM, [], first[-1]) == 0


async def due(at: Backoffice) -> dict[str, float | None]:
    """In how many seconds the card and the thread are due."""

    def read(tx: Tx) -> dict[str, float | None]:
        found = {kind: tx.value(f"SELECT due_at FROM jobs WHERE kind = '{kind}'") for kind in ("card", "thread")}
        return {name: None if when is None else round(when - tx.now(), 3) for name, when in found.items()}

    return await at.database.read(read)


async def test_an_approved_call_waits_for_its_end_but_for_nothing_else(at: Backoffice) -> None:
    name = await at.asks("deploy")
    assert await due(at) == {"card": 0, "thread": SUSPENDED_AFTER}
    await at.is_posted()
    await at.vote(name, ANNA)
    assert await due(at) == {"card": SOON, "thread": SOON}

    at.clock.passes(seconds=SOON / 4)
    await at.database.run(mark_thread_due, at.key, SOON)
    assert await due(at) == {"card": SOON * 3 / 4, "thread": SOON * 3 / 4}

    await at.database.run(mark_thread_due, at.key)
    assert await due(at) == {"card": SOON * 3 / 4, "thread": 0}

    await at.runs(name)
    assert await due(at) == {"card": 0, "thread": 0}


async def test_what_only_the_card_shows_makes_no_thread_due(at: Backoffice) -> None:
    name = await at.asks("deploy")
    await at.vote(name, ANNA)
    await at.is_posted()
    assert (await due(at))["thread"] is None
    await at.runs(name, kind=OutcomeKind.RUNNING)
    assert (await due(at))["thread"] is None
    await at.database.run(follow_outcome, name, call_that_became(OutcomeKind.DONE, "paid"))
    assert (await due(at))["thread"] == 0


async def test_deadlines_hours_away_wake_nobody(at: Backoffice) -> None:
    with at.database.waiter(topic_of("confirmation")) as waiter:
        name = await at.asks("deploy")
        await at.vote(name, ANNA)
        assert not await waiter.wait(0.1)
