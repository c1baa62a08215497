"""The ledger in the database can only grow, and changes that get around its guards are found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from adk_confirm.bot.audit.ledger import SYSTEM, Head, LineKind, append, stamp
from adk_confirm.bot.audit.verification import Integrity
from adk_confirm.bot.confirmation.effects import Step
from adk_confirm.bot.policy.approvers import OPERATOR
from adk_confirm.bot.policy.redaction import own_words
from adk_confirm.bot.store.audit_log import verify_ledger
from adk_confirm.bot.store.ledger_lines import read_lines, write_step
from adk_confirm.bot.store.open import open_store
from adk_confirm.bot.store.repository import seconds
from adk_confirm.bot.worker.checkpoint_job import seal_moved
from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.seal import Seal
from tests.bot.store.conftest import decide_two
from tests.support.backoffice import Backoffice
from tests.support.deciding import NOON
from tests.support.secret import KEYS, SECRET
from tests.support.stores import unguarded

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


@pytest.mark.parametrize("statement", REFUSED)
async def test_no_line_is_changed_or_removed(at: Backoffice, statement: str) -> None:
    before = await at.lines()
    with pytest.raises(Exception, match="the ledger is append-only"):
        await at.database.run(perform, statement)
    assert await at.lines() == before
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
        await beside.run(write_step, SYSTEM, Step(kind=LineKind.PAUSED, at=NOON, who=OPERATOR))
    await beside.close()


# Around the guards


def change_a_content(tx: Tx) -> None:
    content = json.loads(tx.value("SELECT content FROM bot_ledger WHERE seq = 2"))
    forged = json.dumps({**content, "who": {"team": "T0ACME", "user": "U0BEN"}})
    tx.run("UPDATE bot_ledger SET content = :content WHERE seq = 2", content=forged)


def change_a_header(tx: Tx) -> None:
    tx.run("UPDATE bot_ledger SET tool = 'lookup' WHERE seq = 3")


def change_the_time(tx: Tx) -> None:
    tx.run("UPDATE bot_ledger SET at = 1.0 WHERE seq = 3")


def make_up_a_kind(tx: Tx) -> None:
    tx.run("UPDATE bot_ledger SET kind = 'blessed' WHERE seq = 4")


def take_content_without_salt(tx: Tx) -> None:
    tx.run("UPDATE bot_ledger SET content = NULL WHERE seq = 4")


def remove_one(tx: Tx) -> None:
    tx.run("DELETE FROM bot_ledger WHERE seq = 3")


def remove_the_last(tx: Tx) -> None:
    tx.run("DELETE FROM bot_ledger WHERE seq > 5")


def remove_the_first(tx: Tx) -> None:
    tx.run("DELETE FROM bot_ledger WHERE seq = 1")


def put_one_at_the_end(tx: Tx) -> None:
    chain = tx.first("SELECT * FROM bot_chains")
    _write(tx, chain.chain, Head(chain.seq, chain.hash))


def begin_a_chain(tx: Tx) -> None:
    _write(tx, "made/up", Head())


@pytest.mark.parametrize(
    ("tamper", "line", "why"),
    [
        (change_a_content, 2, "its content was changed"),
        (change_a_header, 3, "its header was changed"),
        (change_the_time, 3, "the time that it is found by is not the time that it tells"),
        (make_up_a_kind, 4, "this version does not know its kind or its time"),
        (take_content_without_salt, 4, "its content was removed, but not by a purge"),
        (remove_one, 3, "line 3 is missing"),
        (remove_the_last, 6, "it is missing; the chain went up to line 8"),
        (remove_the_first, 1, "line 1 is missing"),
        (put_one_at_the_end, 9, "it was not written with this secret"),
        (begin_a_chain, 1, "it was not written with this secret"),
    ],
)
async def test_the_first_line_that_is_not_as_it_was_is_named(
    at: Backoffice, tamper: Callable[[Tx], None], line: int, why: str
) -> None:
    """None of this needs an anchor, nor a checkpoint."""
    await at.database.run(unguarded)
    await at.database.run(tamper)
    said = await at.command("audit", "verify")
    chain = "made/up" if tamper is begin_a_chain else at.key
    assert (said.code, said.out) == (1, f"broken: {chain}, line {line}: {why}\n")


# What only checkpoints, or only an anchor, can tell


async def sealed(at: Backoffice) -> str:
    made = (await at.database.run(seal_moved, KEYS, timedelta(hours=1), at_once=True)).made
    assert made is not None
    with (at.directory / "anchor.log").open("a") as log:
        log.write(f"INFO adk_confirm.audit: {made.publish(KEYS)}\n")
    return made.publish(KEYS)


def forge_the_end(tx: Tx) -> None:
    """The last line goes, and the chain is made to say that it never was there."""
    tx.run("DELETE FROM bot_ledger WHERE seq = 8")
    last = tx.first("SELECT * FROM bot_ledger WHERE seq = 7")
    tx.run("UPDATE bot_chains SET seq = 7, hash = :hash", hash=last.hash)


def forge_the_whole(tx: Tx) -> None:
    """A whole new past, each line of it sound."""
    key = tx.value("SELECT chain FROM bot_chains")
    tx.run("DELETE FROM bot_ledger")
    head = Head()
    for _ in range(8):
        head = _write(tx, key, head)
    tx.run("UPDATE bot_chains SET seq = :seq, hash = :hash", seq=head.seq, hash=head.hash)


def forge_all_and_the_checkpoints(tx: Tx) -> None:
    tx.run("DELETE FROM bot_checkpoints")
    forge_the_whole(tx)


def forge_a_checkpoint(tx: Tx) -> None:
    forge_the_end(tx)
    heads = {row.chain: [row.seq, row.hash] for row in tx.all("SELECT * FROM bot_chains")}
    tx.run("UPDATE bot_checkpoints SET heads = :heads", heads=json.dumps(heads))


def spoil_a_checkpoint(tx: Tx) -> None:
    tx.run("UPDATE bot_checkpoints SET heads = :heads, at = 'yesterday'", heads="[")


@pytest.mark.parametrize(
    ("tamper", "why"),
    [
        (forge_the_end, "line 8: it is missing; checkpoint 1 was made over it"),
        (forge_the_whole, "line 8: it is not the line that checkpoint 1 was made over"),
        (forge_a_checkpoint, "checkpoints: checkpoint 1 was not sealed with this secret"),
        (spoil_a_checkpoint, "checkpoints: checkpoint 1 was not sealed with this secret"),
        (forge_all_and_the_checkpoints, "checkpoints: checkpoint 1 of the anchor is missing"),
    ],
)
async def test_a_new_past_is_found(at: Backoffice, tamper: Callable[[Tx], None], why: str) -> None:
    await sealed(at)
    said = await at.command("audit", "verify", "--anchor", "anchor.log")
    assert said.out == "untampered up to checkpoint 1: 8 lines in 1 chain\n"
    await at.database.run(unguarded)
    await at.database.run(tamper)
    alone = await at.command("audit", "verify")
    assert alone.out.startswith("broken: ")
    anchored = await at.command("audit", "verify", "--anchor", "anchor.log")
    assert anchored.code == 1
    assert anchored.out.endswith(f"{why}\n")


async def test_checkpoints_cut_off_together_with_the_end(at: Backoffice) -> None:
    await sealed(at)
    lookup = await at.asks("lookup", {})
    await sealed(at)

    def cut(tx: Tx) -> None:
        unguarded(tx)
        tx.run("DELETE FROM bot_ledger WHERE confirmation = :confirmation", confirmation=lookup)
        tx.run("DELETE FROM bot_checkpoints WHERE number = 2")
        last = tx.first("SELECT * FROM bot_ledger ORDER BY seq DESC LIMIT 1")
        tx.run(
            "UPDATE bot_chains SET seq = :seq, hash = :hash, sealed_hash = :sealed_hash",
            seq=last.seq,
            hash=last.hash,
            sealed_hash=last.hash,
        )

    await at.database.run(cut)
    assert (await at.command("audit", "verify")).out.startswith("consistent: ")
    said = await at.command("audit", "verify", "--anchor", "anchor.log")
    assert (said.code, said.out) == (1, "broken: checkpoints: checkpoint 2 of the anchor is missing\n")

    anchor = (at.directory / "anchor.log").read_text()
    await at.asks("lookup", {})
    await sealed(at)  # the service goes on, and seals another checkpoint 2
    (at.directory / "anchor.log").write_text(anchor)
    said = await at.command("audit", "verify", "--anchor", "anchor.log")
    assert said.out == "broken: checkpoints: checkpoint 2 is not the one that the anchor tells of\n"


async def test_with_another_secret_no_seal_fits(at: Backoffice, monkeypatch: pytest.MonkeyPatch) -> None:
    await sealed(at)
    monkeypatch.setenv("ADK_CONFIRM_SECRET", "another secret, as long")
    said = await at.command("audit", "verify")
    assert (said.code, said.out) == (1, "broken: checkpoints: checkpoint 1 was not sealed with this secret\n")


FORGER = Seal("a guess, and a long one")


def _write(tx: Tx, chain: str, head: Head) -> Head:
    line = append(head, chain, LineKind.APPROVED, {"v": 1, "text": "made up"}, FORGER, at=NOON, salt="made up")
    tx.run(
        (
            "INSERT INTO bot_ledger (chain, seq, at, stamp, kind, content, salt, digest, previous, hash, sealed)"
            " VALUES (:chain, :seq, :at, :stamp, :kind, :content, :salt, :digest, :previous, :hash, :sealed)"
        ),
        chain=chain,
        seq=line.seq,
        at=seconds(line.at),
        stamp=stamp(line.at),
        kind=str(line.kind),
        content=line.content,
        salt=line.salt,
        digest=line.digest,
        previous=line.previous,
        hash=line.hash,
        sealed=line.sealed,
    )
    return line.head


# Two replicas


async def write_some(database: Database, chain: str, who: str) -> None:
    def write(tx: Tx, number: int) -> None:
        step = Step(kind=LineKind.PAUSED, at=NOON + timedelta(seconds=number), who=OPERATOR, text=own_words(who))
        write_step(tx, chain, step)

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
