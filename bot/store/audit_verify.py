"""`adk-confirm audit verify`: reads the whole ledger from one snapshot and passes it to `audit/verification.py`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from adk_confirm.bot.audit.checkpoints import Anchor
from adk_confirm.bot.audit.ledger import SYSTEM, LedgerLine, LineKind, stamp
from adk_confirm.bot.audit.verification import Broken, Integrity, Purges, Report, SealedCheckpoints, verify
from adk_confirm.bot.store.audit_log import PAGE, Progress, unheard
from adk_confirm.bot.store.checkpoints import stored_checkpoints
from adk_confirm.bot.store.ledger_lines import line_of
from adk_confirm.bot.store.repository import seconds
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.seal import Seal


class _Odd(Exception):
    """A value in the database that no version of this program would write."""

    def __init__(self, broken: Broken) -> None:
        self.broken = broken


def verify_ledger(tx: Tx, seal: Seal, anchor: Anchor | None = None, progress: Progress = unheard) -> Report:
    """Verifies the whole ledger, from one snapshot of the store. A faulty line is reported before anything else.
    `progress` hears how many more lines were read."""
    try:
        sealed = SealedCheckpoints.read(stored_checkpoints(tx), seal)
        purges = Purges.read(_purge_lines(tx), seal)
        report = verify(_all_lines(tx, progress), sealed, seal, purges=purges, anchor=anchor)
        line_named = report.broken is not None and report.broken.seq is not None
        broken = None if line_named else _wrong_head(tx)
        if broken is None and report.broken is None:
            broken = _wrong_index(tx, sealed)
    except _Odd as odd:
        return Report(finding=Integrity.BROKEN, broken=odd.broken)
    except sqlite3.OperationalError as error:
        if "decode" not in str(error):  # SQLite can store bytes as text that can't be decoded
            raise
        return Report(
            finding=Integrity.BROKEN,
            broken=Broken("the store", None, f"it holds something that is not text ({error})"),
        )
    return report if broken is None else replace(report, finding=Integrity.BROKEN, broken=broken)


def _all_lines(tx: Tx, progress: Progress) -> Iterator[LedgerLine]:
    number = 0
    for number, row in enumerate(tx.each("SELECT * FROM bot_ledger ORDER BY chain, seq"), start=1):
        yield _exact_line(row)
        if number % PAGE == 0:
            progress(PAGE)
    progress(number % PAGE)


def _purge_lines(tx: Tx) -> Iterator[LedgerLine]:
    found = "SELECT * FROM bot_ledger WHERE chain = :chain AND kind = :kind ORDER BY seq"
    for row in tx.each(found, chain=SYSTEM, kind=str(LineKind.PURGED)):
        yield _exact_line(row)


_TEXTS = ("chain", "stamp", "kind", "digest", "previous", "hash", "sealed")
_PERHAPS = ("confirmation", "tool", "content", "salt")


def _exact_line(row: Any) -> LedgerLine:
    """Checks that each cell has the exact form that this program writes. SQLite accepts anything in any column, and a
    time can be written in many ways."""
    of_a_kind = all(isinstance(getattr(row, name), str) for name in _TEXTS) and isinstance(row.seq, int)
    if not of_a_kind or not all(isinstance(getattr(row, name), str | None) for name in _PERHAPS):
        raise _Odd(Broken(str(row.chain), row.seq if isinstance(row.seq, int) else None, "a part of it is not text"))
    try:
        line = line_of(row)
        exact = stamp(line.at) == row.stamp
    except (ValueError, OverflowError):
        exact = False
    if not exact:
        raise _Odd(Broken(row.chain, row.seq, "this version does not know its kind or its time"))
    if seconds(line.at) != row.at:
        raise _Odd(Broken(line.chain, line.seq, "the time that it is found by is not the time that it tells"))
    return line


def _wrong_head(tx: Tx) -> Broken | None:
    """Compares each chain's last line with the stored head, to find lines missing or added at the end."""
    row = tx.first(_WRONG_HEAD)
    if row is not None:
        return _fault_at_end(row.chain, row.seq, row.last or 0)
    chain = tx.value(_NEVER_BEGUN)
    return None if chain is None else Broken(chain, 1, "its chain was never begun")


_WRONG_HEAD = """
    SELECT head.chain, head.seq, lines.last FROM bot_chains head
    LEFT JOIN (SELECT chain, max(seq) AS last FROM bot_ledger GROUP BY chain) lines ON lines.chain = head.chain
    LEFT JOIN bot_ledger line ON line.chain = head.chain AND line.seq = head.seq
    WHERE lines.last IS NULL OR lines.last <> head.seq OR line.hash <> head.hash
    ORDER BY head.chain LIMIT 1
"""
_NEVER_BEGUN = """
    SELECT DISTINCT chain FROM bot_ledger WHERE chain NOT IN (SELECT chain FROM bot_chains) ORDER BY chain LIMIT 1
"""


def _fault_at_end(chain: str, sealed_end: int, last: int) -> Broken:
    if last < sealed_end:
        return Broken(chain, last + 1, f"it is missing; the chain went up to line {sealed_end}")
    if last > sealed_end:
        return Broken(chain, sealed_end + 1, f"it was put there: the chain goes up to line {sealed_end}")
    return Broken(chain, sealed_end, "it is not the line that the chain ended with")


def _wrong_index(tx: Tx, sealed: SealedCheckpoints) -> Broken | None:
    """Checks the column that says how far each chain is sealed. Only the next checkpoint uses it; somebody could change
    it to leave a chain out."""
    for row in tx.each("SELECT chain, sealed_hash FROM bot_chains ORDER BY chain"):
        if row.sealed_hash != sealed.last_hash(row.chain):
            return Broken(row.chain, None, "how far the database says it is sealed is not what the checkpoints say")
    return None
