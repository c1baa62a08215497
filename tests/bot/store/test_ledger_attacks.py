"""An attacker can write to the database, drop its guards and read all backups, but has no secret. What goes unnoticed?

Where only an anchor reveals a change, the test says so. It also says which few changes nothing reveals.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from adk_confirm.bot.audit.checkpoints import checkpoint
from adk_confirm.bot.audit.ledger import SYSTEM, Head, LedgerLine, LineKind, append, line_hash, stamp
from adk_confirm.bot.audit.verification import Integrity, Report, group_emptied
from adk_confirm.bot.confirmation.confirmation import VoteKind
from adk_confirm.bot.confirmation.states import Step
from adk_confirm.bot.confirmation.stored_json import step_content
from adk_confirm.bot.policy.approvers import OPERATOR
from adk_confirm.bot.policy.redaction import own_words
from adk_confirm.bot.store.audit_log import verify_ledger
from adk_confirm.bot.store.checkpoint_rows import correct_index
from adk_confirm.bot.store.ledger_rows import line_of, read_lines, write_steps
from adk_confirm.bot.store.open import SCHEMA
from adk_confirm.bot.store.repository import now, seconds
from adk_confirm.bot.worker.checkpoint_job import CheckpointJob, seal_moved
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.seal import Seal
from tests.bot.store.conftest import decide_two
from tests.support.backoffice import Backoffice
from tests.support.deciding import ANNA
from tests.support.stores import KEYS, SECRET, unguarded

pytestmark = pytest.mark.every_case

GUESS = Seal("what I take the secret for")
HOUR = timedelta(hours=1)


@pytest.fixture
async def at(back: Backoffice) -> Backoffice:
    """A hundred days ago a deploy was approved and ran, and a refund was denied: eight lines, and no checkpoint yet."""
    back.clock.passes(days=-100)
    await decide_two(back)
    return back


async def sealed(at: Backoffice) -> None:
    """The service makes a checkpoint, and its log, which I can't reach, has it."""
    made = (await at.database.run(seal_moved, KEYS, HOUR, at_once=True)).made
    assert made is not None
    with (at.directory / "anchor.log").open("a") as log:
        log.write(f"INFO adk_confirm.audit: {made.publish(KEYS)}\n")


async def verdict(at: Backoffice, *options: str) -> str:
    said = await at.command("audit", "verify", *options)
    assert said.code == (1 if said.out.startswith("broken") else 0)
    return (
        "; ".join(line.strip() for line in said.lines)
        .replace(at.key, "its session")
        .removeprefix("OK: no change was found; ")
    )


async def i_write(at: Backoffice, change: Callable[[Tx], Any]) -> None:
    def write(tx: Tx) -> None:
        unguarded(tx)
        change(tx)

    await at.database.run(write)


def stored(tx: Tx, chain: str, line: LedgerLine) -> None:
    """My line, in place of the one that stands there or as a new one, and the chain says that it is its head."""
    values = {
        "kind": str(line.kind), "content": line.content, "salt": line.salt, "digest": line.digest, "hash": line.hash,
        "previous": line.previous, "sealed": line.sealed, "at": seconds(line.at), "stamp": stamp(line.at),
        "confirmation": line.confirmation, "tool": line.tool,
    }  # fmt: skip
    tx.run("DELETE FROM bot_ledger WHERE chain = :chain AND seq = :seq", chain=chain, seq=line.seq)
    tx.insert("bot_ledger", {"chain": chain, "seq": line.seq, **values})
    tx.run("DELETE FROM bot_chains WHERE chain = :chain", chain=chain)
    tx.run(
        "INSERT INTO bot_chains (chain, seq, hash) VALUES (:chain, :seq, :hash)",
        chain=chain,
        seq=line.seq,
        hash=line.hash,
    )


def i_forge(tx: Tx, chain: str, seq: int, *, sealed: str = "a guess", **content: object) -> LedgerLine:
    """An approval by Ben that he never gave, standing on the line before it with a hash that fits."""
    before = tx.first("SELECT * FROM bot_ledger WHERE chain = :chain AND seq = :seq", chain=chain, seq=seq - 1)
    head = Head() if before is None else line_of(before).head
    forged = {"who": {"team": "T0ACME", "user": "U0BEN"}, **content}
    line = append(head, chain, LineKind.APPROVAL, forged, GUESS, at=now(tx), salt="mine", tool="refund")  # type: ignore[arg-type]  # JSON
    if sealed != "a guess":
        line = LedgerLine(**{**{name: getattr(line, name) for name in line.__dataclass_fields__}, "sealed": sealed})
    stored(tx, chain, line)
    return line


# A line emptied as if it were purged


async def test_i_empty_the_denial_as_if_it_were_purged(at: Backoffice) -> None:
    """The guards even let this through."""
    await sealed(at)
    await at.database.run(lambda tx: tx.run("UPDATE bot_ledger SET content = NULL, salt = NULL WHERE seq = 8"))
    assert await verdict(at) == "broken: its session, line 8: its content was removed, but not by a purge"


async def purged_in_truth(at: Backoffice) -> None:
    """The first eight lines go, as they should, and what is asked after that stays."""
    await at.is_posted()
    at.clock.passes(days=100)
    assert (await at.command("audit", "purge", "--before", "90d")).code == 0
    kept = await at.asks("lookup", {})
    await at.vote(kept, ANNA, VoteKind.DENY)
    await at.is_posted()
    assert (await verdict(at)).startswith("consistent: 12 lines in 2 chains, 9 of them purged; ")


async def test_i_hide_behind_a_purge_that_did_not_name_my_line(at: Backoffice) -> None:
    await purged_in_truth(at)
    await i_write(at, lambda tx: tx.run("UPDATE bot_ledger SET content = NULL, salt = NULL WHERE seq = 10"))
    assert await verdict(at) == "broken: its session, line 10: its content was removed, but not by a purge"


async def test_i_write_a_purge_line_for_it_myself(at: Backoffice) -> None:
    def forge(tx: Tx) -> None:
        tx.run("UPDATE bot_ledger SET content = NULL, salt = NULL WHERE seq = 8")
        step = Step(
            kind=LineKind.PURGED,
            at=now(tx),
            who=OPERATOR,
            text=own_words("1 line"),
            emptied=group_emptied([(at.key, 8)]),
        )
        stored(tx, SYSTEM, append(Head(), SYSTEM, step.kind, step_content(step), GUESS, at=step.at, salt="mine"))

    await i_write(at, forge)
    assert await verdict(at) == "broken: its session, line 8: its content was removed, but not by a purge"


async def test_i_make_a_true_purge_line_name_one_more(at: Backoffice) -> None:
    await purged_in_truth(at)

    def widen(tx: Tx) -> None:
        tx.run("UPDATE bot_ledger SET content = NULL, salt = NULL WHERE seq = 10")
        entry = line_of(tx.first("SELECT * FROM bot_ledger WHERE chain = :chain", chain=SYSTEM))
        content = {**json.loads(entry.content or ""), "emptied": [[at.key, [[1, 10]]]]}
        stored(tx, SYSTEM, append(Head(), SYSTEM, entry.kind, content, GUESS, at=entry.at, salt=entry.salt or ""))

    await i_write(at, widen)
    assert await verdict(at) == "broken: its session, line 1: its content was removed, but not by a purge"


async def test_i_bring_back_what_a_purge_removed(at: Backoffice) -> None:
    before = {line.seq: line for line in await at.database.read(read_lines, at.key)}
    await purged_in_truth(at)
    back = "UPDATE bot_ledger SET content = :content, salt = :salt WHERE chain = :chain AND seq = 3"
    was = before[3]
    await i_write(at, lambda tx: tx.run(back, chain=at.key, content=was.content, salt=was.salt))
    assert await verdict(at) == "broken: its session, line 3: a purge removed its content, and it is back"


# A chain that no checkpoint shall ever cover


def i_say_that_it_is_sealed(tx: Tx) -> None:
    tx.run("UPDATE bot_chains SET sealed_hash = hash")


async def test_i_mark_a_chain_as_sealed(at: Backoffice, caplog: pytest.LogCaptureFixture) -> None:
    await at.command("pause")
    await i_write(at, i_say_that_it_is_sealed)
    said = await verdict(at)
    assert said == "broken: its session: how far the database says it is sealed is not what the checkpoints say"
    checkpointing = CheckpointJob(at.database, KEYS, HOUR)
    caplog.set_level(logging.INFO, "adk_confirm.audit")
    await checkpointing._check_index()
    made = (await at.database.run(seal_moved, KEYS, HOUR)).made
    assert made is not None
    assert {at.key, SYSTEM} == set(made.heads), "whatever the column said"
    assert "what the database said of 2 chains" in caplog.text
    assert "no checkpoint covers" not in await verdict(at)


async def test_what_a_forged_checkpoint_says_is_not_believed(at: Backoffice) -> None:
    def forge(tx: Tx) -> None:
        heads = {row.chain: Head(row.seq, row.hash) for row in tx.all("SELECT * FROM bot_chains")}
        made = checkpoint(None, heads, now(tx), GUESS)
        written = json.dumps({chain: [head.seq, head.hash] for chain, head in heads.items()}, separators=(",", ":"))
        values = {"at": stamp(made.at), "heads": written, "previous": "", "sealed": made.sealed}
        tx.insert("bot_checkpoints", {"number": 1, **values})
        i_say_that_it_is_sealed(tx)

    await i_write(at, forge)
    assert await verdict(at) == "broken: checkpoints: checkpoint 1 was not sealed with this secret"
    assert await correct_index(at.database, KEYS, _nothing) == [at.key]
    made = (await at.database.run(seal_moved, KEYS, HOUR, at_once=True)).made
    assert made is not None
    assert set(made.heads) == {at.key}


async def test_what_other_processes_seal_meanwhile_is_left_alone(at: Backoffice) -> None:
    async def seal_meanwhile() -> None:
        await at.database.run(write_steps, SYSTEM, Step(kind=LineKind.PAUSED, at=at.clock.now, who=OPERATOR))
        await sealed(at)

    assert await correct_index(at.database, KEYS, seal_meanwhile) == []
    assert (await verdict(at)).startswith("consistent: ")


async def _nothing() -> None:
    """Between two looks at the store."""


# The end, that no checkpoint covers yet


@pytest.mark.parametrize(
    ("chain", "seq", "forged"),
    [
        *((None, 9, forged) for forged in ("a guess", "", "0" * 64, "é")),
        (None, 8, "a guess"),  # in place of the denial
        ("a/b/c", 1, "a guess"),
    ],
)
async def test_i_add_an_approval_at_the_end(at: Backoffice, chain: str | None, seq: int, forged: str) -> None:
    if seq == 9:
        await sealed(at)
    await i_write(at, lambda tx: i_forge(tx, chain or at.key, seq, sealed=forged))
    assert await verdict(at) == f"broken: {chain or 'its session'}, line {seq}: it was not written with this secret"


async def test_i_let_the_service_seal_my_approval_and_write_after_it(at: Backoffice) -> None:
    await i_write(at, lambda tx: i_forge(tx, at.key, 9))
    await at.asks("lookup", {})
    await sealed(at)
    assert await verdict(at) == "broken: its session, line 9: it was not written with this secret"
    assert await verdict(at, "--anchor", "anchor.log") == await verdict(at)


async def test_i_move_a_true_line_to_another_place(at: Backoffice) -> None:
    """Ben did approve; it was the deploy, on line 3."""

    def move(tx: Tx) -> None:
        last, approval = (line_of(tx.first("SELECT * FROM bot_ledger WHERE seq = :seq", seq=seq)) for seq in (8, 3))
        fields = {name: getattr(approval, name) for name in approval.__dataclass_fields__}
        line = LedgerLine(**{**fields, "seq": 9, "previous": last.hash})
        stored(tx, at.key, LedgerLine(**{**fields, "seq": 9, "previous": last.hash, "hash": line_hash(line)}))

    await i_write(at, move)
    assert await verdict(at) == "broken: its session, line 9: it was not written with this secret"


async def test_i_give_one_session_the_lines_of_another(at: Backoffice) -> None:
    await at.hears("and refund", thread="2.2")
    await at.asks("lookup", {})
    other, one = at.key, (await at.database.read(lambda tx: tx.value("SELECT min(chain) FROM bot_chains")))

    def swap(tx: Tx) -> None:
        for table in ("bot_ledger", "bot_chains"):
            for old, new in ((one, "aside"), (other, one), ("aside", other)):
                tx.run(f"UPDATE {table} SET chain = :new WHERE chain = :old", old=old, new=new)

    await i_write(at, swap)
    assert (await verdict(at)).endswith("line 1: its header was changed")


# Without a seal


def i_take_the_seals_away(tx: Tx) -> None:
    """The denial is gone from the end, and an approval is there."""
    tx.run("UPDATE bot_ledger SET sealed = ''")
    i_forge(tx, tx.value("SELECT min(chain) FROM bot_chains"), 8)


async def test_i_take_the_seals_away_from_all_lines(at: Backoffice) -> None:
    await i_write(at, i_take_the_seals_away)
    assert await verdict(at) == "broken: its session, line 1: it was not written with this secret"
    await sealed(at)
    assert await verdict(at) == "broken: its session, line 1: it was not written with this secret"


async def test_and_wait_for_a_restart_before_the_first_checkpoint(at: Backoffice) -> None:
    await i_write(at, lambda tx: i_forge(tx, at.key, 9))
    await at.database.close()
    await at.reopen()
    assert await verdict(at) == "broken: its session, line 9: it was not written with this secret"


# Cut off


async def test_i_cut_off_what_a_checkpoint_covers_and_let_the_service_write_on(at: Backoffice) -> None:
    """The new line has the number of the one that is gone, and the next checkpoint is made over it."""
    await sealed(at)

    def cut(tx: Tx) -> None:
        tx.run("DELETE FROM bot_ledger WHERE seq = 8")
        tx.run(
            "UPDATE bot_chains SET seq = 7, hash = :hash", hash=tx.value("SELECT hash FROM bot_ledger WHERE seq = 7")
        )

    await i_write(at, cut)
    await at.asks("lookup", {})
    await sealed(at)
    assert await verdict(at) == "broken: its session, line 8: it is not the line that checkpoint 1 was made over"


async def test_i_remove_a_whole_chain(at: Backoffice) -> None:
    await sealed(at)

    def remove(tx: Tx) -> None:
        for table in ("bot_ledger", "bot_chains"):
            tx.run(f"DELETE FROM {table} WHERE chain = :chain", chain=at.key)

    await i_write(at, remove)
    assert await verdict(at) == "broken: its session, line 8: it is missing; checkpoint 1 was made over it"


async def test_i_cut_off_checkpoints_while_the_service_runs(at: Backoffice, caplog: pytest.LogCaptureFixture) -> None:
    """No anchor is needed: the process knows what it made last."""
    caplog.set_level(logging.INFO, "adk_confirm.audit")
    checkpointing = CheckpointJob(at.database, KEYS, timedelta(0))
    await checkpointing._seal_moved(at_once=True)
    await at.command("pause")
    await checkpointing._seal_moved(at_once=True)

    def cut(tx: Tx) -> None:
        tx.run("DELETE FROM bot_checkpoints WHERE number = 2")
        for table in ("bot_ledger", "bot_chains"):
            tx.run(f"DELETE FROM {table} WHERE chain = :chain", chain=SYSTEM)

    await i_write(at, cut)
    assert (await verdict(at)).startswith("consistent: ")
    await at.asks("lookup", {})
    await checkpointing._seal_moved(at_once=True)
    assert "checkpoint 2 is gone from the store, or was changed" in caplog.text
    assert await verdict(at) == "broken: checkpoints: checkpoint 2 is missing"


async def test_i_put_an_older_copy_back(at: Backoffice) -> None:
    """All that is in it is true: only what is kept elsewhere tells that more was."""
    await sealed(at)
    copy = await at.database.read(_everything)
    await at.asks("lookup", {})
    await sealed(at)

    def put_back(tx: Tx) -> None:
        for table, rows in zip(KEYS_OF, copy, strict=True):
            tx.run(f"DELETE FROM {table}")
            for row in rows:
                tx.insert(table, row)

    await i_write(at, put_back)
    assert (await verdict(at)).startswith("consistent: 8 lines in 1 chain; only an anchor")
    assert await verdict(at, "--anchor", "anchor.log") == "broken: checkpoints: checkpoint 2 of the anchor is missing"
    with (at.directory / "anchor.log").open("a") as log:
        log.write((at.directory / "anchor.log").read_text().replace("checkpoint 1", "checkpoint 2"))
    assert await verdict(at, "--anchor", "anchor.log") == "broken: checkpoints: checkpoint 2 of the anchor is missing"


def _everything(tx: Tx) -> list[list[dict[str, object]]]:
    return [[row._asdict() for row in tx.all(f"SELECT * FROM {table}")] for table in KEYS_OF]


async def test_what_no_checkpoint_covers_can_be_cut_off_and_verify_says_how_much_that_is(at: Backoffice) -> None:
    """Nothing in the store can tell; `docs/security.md` says so."""
    await sealed(at)
    await at.asks("lookup", {})
    await at.command("pause")
    assert await verdict(at, "--anchor", "anchor.log") == (
        "untampered up to checkpoint 1: 8 lines in 1 chain; consistent: 10 lines in 2 chains in all; no checkpoint "
        "covers 2 lines in 2 chains yet"
    )
    await sealed(at)
    anchor = (at.directory / "anchor.log").read_text().splitlines()
    (at.directory / "older.log").write_text(anchor[0])
    assert await verdict(at, "--anchor", "older.log") == (
        "untampered up to checkpoint 1: 8 lines in 1 chain; consistent: 10 lines in 2 chains in all; the anchor does "
        "not know 1 later checkpoint"
    )
    assert await verdict(at, "--anchor", "anchor.log") == "untampered up to checkpoint 2: 10 lines in 2 chains"


# Any cell of any row


KEYS_OF = {"bot_ledger": ("chain", "seq"), "bot_chains": ("chain",), "bot_checkpoints": ("number",)}


class _Undone(Exception):
    def __init__(self, report: Report) -> None:
        self.report = report


async def test_no_cell_can_be_changed(at: Backoffice) -> None:
    """Each cell of each row, to each of several values, one at a time."""
    await purged_in_truth(at)
    await sealed(at)
    await at.command("pause")
    await at.database.run(unguarded)
    rows = await at.database.read(_everything)
    tried = 0
    for (table, keys), stored_rows in zip(KEYS_OF.items(), rows, strict=True):
        this = " AND ".join(f"{key} = :its_{key}" for key in keys)
        for row in stored_rows:
            its = {f"its_{key}": row[key] for key in keys}
            for column, was in row.items():
                for value in _others(at, table, column, was):
                    with pytest.raises(_Undone) as undone:
                        await at.database.run(
                            _look_at, f"UPDATE {table} SET {column} = :value WHERE {this}", its | {"value": value}
                        )
                    where = f"{table}.{column}: {was!r} → {value!r}"
                    assert undone.value.report.finding is Integrity.BROKEN, where
                    tried += 1
            with pytest.raises(_Undone) as undone:
                await at.database.run(_look_at, f"DELETE FROM {table} WHERE {this}", its)
            if table != "bot_checkpoints":  # the last of those takes an anchor
                assert undone.value.report.finding is Integrity.BROKEN, f"{table}: {row} is gone"
    assert tried > 300
    assert (await verdict(at)).startswith("consistent: ")


def _look_at(tx: Tx, change: str, values: dict[str, Any]) -> None:
    tx.run(change, **values)
    raise _Undone(verify_ledger(tx, KEYS))


def _others(at: Backoffice, table: str, name: str, value: Any) -> list[Any]:
    """Other values for this cell: some crude, some that mean the same and are spelled differently."""
    others: list[Any]
    (declared,) = re.findall(rf"CREATE TABLE {table} \([^;]*?\n    {name} ([^\n]*)", SCHEMA.file.read_text("utf-8"))
    length = re.match(r"VARCHAR\((\d+)\)", declared)
    room = int(length[1]) if length else 10_000
    match value:
        case int():
            others = [value + 50, 0, -1]
        case float():
            others = [value + 1, 0.0]
        case str():
            others = ["", f"{value} ", value.upper(), "0" * 64, "é", "["]
            if name in ("stamp", "at"):
                others.append(value.replace("T", " "))
            if name in ("content", "heads"):
                others = ["", f" {value}", "{}", "[" * 5000, f'{{"a": 1, {value[1:]}']
            if name == "kind":
                others = ["approved", "denied", "purged", "blessed"]
        case None:
            others = ["", "x"]
        case _:
            raise AssertionError(value)
    if at.database.dialect == "sqlite" and isinstance(value, str):
        others.append(b"\xff")
    if not re.search("NOT NULL|PRIMARY KEY", declared) and value is not None:
        others.append(None)
    return [cut for other in others if (cut := other[:room] if isinstance(other, str) else other) != value]


async def test_bytes_that_are_no_text_are_no_trace(at: Backoffice) -> None:
    if at.database.dialect == "postgresql":
        pytest.skip("PostgreSQL takes text only")
    for cell in ("bot_ledger SET content", "bot_checkpoints SET heads", "bot_chains SET sealed_hash"):
        await sealed(at) if cell.startswith("bot_check") else None
        await i_write(at, lambda tx, cell=cell: tx.run(f"UPDATE {cell} = CAST(x'ff' AS TEXT)"))  # type: ignore[misc]  # bound per turn
        assert (await verdict(at)).startswith("broken: ")


# Without the secret, or with another


@pytest.mark.parametrize("command", [["pause"], ["resume"], ["retry"], ["audit", "purge", "--before", "2020-01-01"]])
async def test_a_command_on_its_own_needs_the_secret(
    at: Backoffice, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    await sealed(at)
    before = await at.database.read(_everything)
    await at.database.close()
    monkeypatch.setenv("ADK_CONFIRM_SECRET", "another secret, as long as it was")
    other = await at.command(*command)
    monkeypatch.delenv("ADK_CONFIRM_SECRET")
    none = await at.command(*command)
    monkeypatch.setenv("ADK_CONFIRM_SECRET", SECRET)
    await at.reopen()
    assert (other.code, none.code, other.out, none.out) == (2, 2, "", "")
    assert "The store belongs to another secret: set ADK_CONFIRM_SECRET" in other.err
    assert "There is no secret to check the ledger with. Set ADK_CONFIRM_SECRET" in none.err
    assert await at.database.read(_everything) == before


async def test_who_spoils_the_end_does_not_keep_the_operator_out(at: Backoffice) -> None:
    await sealed(at)
    await i_write(at, lambda tx: (i_forge(tx, at.key, 9), tx.run("UPDATE bot_checkpoints SET at = 'x'")))
    assert (await at.command("pause")).code == 0
