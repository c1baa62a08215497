"""The index of waiting confirmations: in order, each once, and fast for one person among many."""

from __future__ import annotations

from adk_confirm.bot.store import waiting_index
from adk_confirm.bot.store.open import open_store
from adk_confirm.runtime.store.database import Tx
from tests.support.secret import SECRET

TEAM = "T0ACME"


def fill(tx: Tx) -> None:
    """4,000 calls: every second one for ann as well as for the group; one in a hundred for a function."""
    tx.many(
        "INSERT INTO bot_waiting (team, whom, created, confirmation) VALUES (:team, :whom, :created, :confirmation)",
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
        "INSERT INTO bot_waiting (team, whom, created, confirmation) VALUES ('T0OTHER', :whom, 0.0, 'x')",
        whom="group:S0ELSEWHERE",
    )


async def test_one_page_after_the_other_each_call_once(database_url: str) -> None:
    database = await open_store(database_url, SECRET)
    try:
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
    finally:
        await database.close()
