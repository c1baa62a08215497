"""The ledger in the database can only grow, and changes that get around its guards are found."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from adk_confirm.bot.audit.ledger import SYSTEM, LineKind
from adk_confirm.bot.audit.verification import Integrity
from adk_confirm.bot.confirmation.states import Step
from adk_confirm.bot.ops.audit_verify import SET_IT
from adk_confirm.bot.policy.approvers import OPERATOR
from adk_confirm.bot.policy.redaction import own_words
from adk_confirm.bot.store.audit_log import verify_ledger
from adk_confirm.bot.store.ledger_rows import read_lines, write_steps
from adk_confirm.bot.store.open import open_store
from adk_confirm.bot.worker.checkpoint_job import seal_moved
from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.database import Database, Tx
from tests.bot.store.conftest import decide_two
from tests.support.backoffice import Backoffice
from tests.support.deciding import NOON
from tests.support.stores import KEYS, SECRET, unguarded

pytestmark = pytest.mark.every_case


@pytest.fixture
async def at(back: Backoffice) -> Backoffice:
    """A deploy that was approved and ran, and a refund that was denied."""
    await decide_two(back)
    return back


# Guards

REFUSED = [
    "UPDATE bot_ledger SET content = '{}' WHERE seq = 2",
    "UPDATE bot_ledger SET content = NULL WHERE seq = 2",
    "UPDATE bot_ledger SET salt = NULL WHERE seq = 2",
    "UPDATE bot_ledger SET content = NULL, salt = NULL, kind = 'denied' WHERE seq = 2",
    "UPDATE bot_ledger SET content = NULL, salt = NULL, at = 0 WHERE seq = 2",
    "UPDATE bot_ledger SET content = NULL, salt = NULL, confirmation = NULL WHERE seq = 2",
    "UPDATE bot_ledger SET content = NULL, salt = NULL, seq = 99 WHERE seq = 2",
    "UPDATE bot_ledger SET hash = 'x'",
    "DELETE FROM bot_ledger WHERE seq = 2",
    "DELETE FROM bot_ledger",
]
REPLACES = "INSERT OR REPLACE INTO bot_ledger SELECT * FROM bot_ledger WHERE seq = 2"
UPSERTS = "INSERT INTO bot_ledger SELECT * FROM bot_ledger WHERE true ON CONFLICT DO UPDATE SET content = '{}'"


def perform(tx: Tx, statement: str) -> None:
    tx.run(statement)


async def test_no_line_is_changed_or_removed(at: Backoffice) -> None:
    before = await at.lines()
    for statement in REFUSED:
        with pytest.raises(Exception, match="the ledger is append-only"):
            await at.database.run(perform, statement)
        assert await at.lines() == before, statement
    assert (await at.command("audit", "verify")).code == 0


async def test_none_is_written_over(at: Backoffice) -> None:
    upserts = UPSERTS.replace("CONFLICT", "CONFLICT (chain, seq)")
    statements = [upserts, "TRUNCATE bot_ledger" if at.database.dialect == "postgresql" else REPLACES]
    before = await at.lines()
    for statement in statements:
        with pytest.raises(Exception, match="the ledger is append-only"):
            await at.database.run(perform, statement)
    assert await at.lines() == before


async def test_what_a_purge_does_is_let_through_and_nobody_else_may_do_it(at: Backoffice) -> None:
    await at.database.run(lambda tx: tx.run("UPDATE bot_ledger SET content = NULL, salt = NULL"))
    assert {line.content for line in await at.lines()} == {None}
    said = await at.command("audit", "verify")
    assert (said.code, said.out) == (1, f"broken: {at.key}, line 1: its content was removed, but not by a purge\n")


async def test_a_line_without_a_seal_is_not_taken(at: Backoffice) -> None:
    before = await at.lines()
    line = ", ".join(_HEADER)
    copy = f"INSERT INTO bot_ledger ({line}, seq) SELECT {line}, 99 FROM bot_ledger WHERE seq = 8"
    with pytest.raises(Exception, match=r"(?i)not.null"):
        await at.database.run(lambda tx: tx.run(copy))
    assert await at.lines() == before


_HEADER = ("chain", "at", "stamp", "kind", "digest", "previous", "hash")


async def test_nobody_writes_a_line_without_the_secret(at: Backoffice) -> None:
    await at.database.close()
    beside = await Database.open(at.url)
    with pytest.raises(StoreError, match="opened without the secret"):
        await beside.run(write_steps, SYSTEM, Step(kind=LineKind.PAUSED, at=NOON, who=OPERATOR))
    await beside.close()


# Around the guards. What else is found, and what only an anchor can tell: `test_ledger_attacks.py`


@pytest.mark.parametrize(
    ("tampers", "line", "why"),
    [
        (
            "UPDATE bot_ledger SET at = 1.0 WHERE seq = 3",
            3,
            "the time that it is found by is not the time that it tells",
        ),
        ("UPDATE bot_ledger SET kind = 'blessed' WHERE seq = 4", 4, "this version does not know its kind or its time"),
        ("DELETE FROM bot_ledger WHERE seq > 5", 6, "it is missing; the chain went up to line 8"),
    ],
)
async def test_the_first_line_that_is_not_as_it_was_is_named(at: Backoffice, tampers: str, line: int, why: str) -> None:
    """None of this needs an anchor, nor a checkpoint."""
    await at.database.run(unguarded)
    await at.database.run(perform, tampers)
    said = await at.command("audit", "verify")
    assert (said.code, said.out) == (1, f"broken: {at.key}, line {line}: {why}\n")


async def test_with_another_secret_no_seal_fits(at: Backoffice, monkeypatch: pytest.MonkeyPatch) -> None:
    await at.database.run(seal_moved, KEYS, timedelta(hours=1), at_once=True)
    monkeypatch.setenv("ADK_CONFIRM_SECRET", "another secret, as long")
    said = await at.command("audit", "verify")
    assert (said.code, said.lines) == (
        1,
        [
            "Not checked: this is not the store's secret, or the store was changed",
            "  checkpoint 1 was not sealed with this secret",
            f"  {SET_IT}",
        ],
    )


# Two replicas


async def write_some(database: Database, chain: str, who: str) -> None:
    def write(tx: Tx, number: int) -> None:
        step = Step(kind=LineKind.PAUSED, at=NOON + timedelta(seconds=number), who=OPERATOR, text=own_words(who))
        write_steps(tx, chain, step)

    await asyncio.gather(*(database.run(write, number) for number in range(20)))


async def test_replicas_that_write_at_once_write_one_chain(postgres_url: str) -> None:
    """From its very first line on: nobody has locked a chain that is not there yet."""
    one, other = await open_store(postgres_url, SECRET), await open_store(postgres_url, SECRET)
    try:
        await asyncio.gather(write_some(one, SYSTEM, "one"), write_some(other, SYSTEM, "other"))
        lines = await one.read(read_lines, SYSTEM)
        assert [line.seq for line in lines] == list(range(1, 41))
        assert sum('"one"' in (line.content or "") for line in lines) == 20
        report = await other.read(verify_ledger, KEYS)
        assert (report.finding, report.lines) == (Integrity.CONSISTENT, 40)
    finally:
        await one.close()
        await other.close()
