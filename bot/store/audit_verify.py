"""`adk-confirm audit verify`: reads the whole ledger from one snapshot and passes it to `audit/verification.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sqlalchemy import Row, and_, func, or_, select
from sqlalchemy.exc import DBAPIError

from bot.audit.checkpoints import Anchor
from bot.audit.ledger import SYSTEM, LedgerLine, LineKind, stamp
from bot.audit.purges import Purges
from bot.audit.verification import Broken, Integrity, Report, SealedCheckpoints, verify
from bot.store.checkpoints import stored_checkpoints
from bot.store.ledger_lines import line_of
from bot.store.repository import seconds
from bot.store.tables import chains, ledger
from runtime.store.database import Tx
from runtime.store.seal import Seal

PAGE = 1000


class _Odd(Exception):
    """A value in the database that no version of this program would write."""

    def __init__(self, broken: Broken) -> None:
        self.broken = broken


def verify_ledger(tx: Tx, seal: Seal, anchor: Anchor | None = None) -> Report:
    """Verifies the whole ledger, from one snapshot of the store. A faulty line is reported before anything else."""
    try:
        sealed = SealedCheckpoints.read(stored_checkpoints(tx), seal)
        purges = Purges.read(_purge_lines(tx), seal)
        report = verify(_all_lines(tx), sealed, seal, purges=purges, anchor=anchor)
        line_named = report.broken is not None and report.broken.seq is not None
        broken = None if line_named else _wrong_head(tx)
        if broken is None and report.broken is None:
            broken = _wrong_index(tx, sealed)
    except _Odd as odd:
        return Report(finding=Integrity.BROKEN, broken=odd.broken)
    except DBAPIError as error:
        if not _is_undecodable(error):
            raise
        return Report(
            finding=Integrity.BROKEN,
            broken=Broken("the store", None, f"it holds something that is not text ({error.orig})"),
        )
    return report if broken is None else replace(report, finding=Integrity.BROKEN, broken=broken)


def _all_lines(tx: Tx) -> Iterator[LedgerLine]:
    found = select(ledger).order_by(ledger.c.chain, ledger.c.seq).execution_options(yield_per=PAGE)
    for row in tx.execute(found):
        yield _exact_line(row)


def _purge_lines(tx: Tx) -> Iterator[LedgerLine]:
    found = select(ledger).where(ledger.c.chain == SYSTEM, ledger.c.kind == str(LineKind.PURGED))
    for row in tx.execute(found.order_by(ledger.c.seq).execution_options(yield_per=PAGE)):
        yield _exact_line(row)


_TEXTS = ("chain", "stamp", "kind", "digest", "previous", "hash", "sealed")
_PERHAPS = ("confirmation", "tool", "content", "salt")


def _exact_line(row: Row[*tuple[Any, ...]]) -> LedgerLine:
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


def _is_undecodable(error: DBAPIError) -> bool:
    return "decode" in str(error.orig)  # SQLite can store bytes as text that can't be decoded


def _wrong_head(tx: Tx) -> Broken | None:
    """Compares each chain's last line with the stored head, to find lines missing or added at the end."""
    last = select(ledger.c.chain, func.max(ledger.c.seq).label("seq")).group_by(ledger.c.chain).subquery()
    here = and_(ledger.c.chain == chains.c.chain, ledger.c.seq == chains.c.seq)
    found = (
        select(chains.c.chain, chains.c.seq, last.c.seq.label("last"))
        .outerjoin(last, last.c.chain == chains.c.chain)
        .outerjoin(ledger, here)
        .where(or_(last.c.seq.is_(None), last.c.seq != chains.c.seq, ledger.c.hash != chains.c.hash))
        .order_by(chains.c.chain)
        .limit(1)
    )
    row = tx.execute(found).first()
    if row is not None:
        return _fault_at_end(row.chain, row.seq, row.last or 0)
    loose = select(last.c.chain).where(last.c.chain.not_in(select(chains.c.chain))).order_by(last.c.chain).limit(1)
    chain = tx.execute(loose).scalar_one_or_none()
    return None if chain is None else Broken(chain, 1, "its chain was never begun")


def _fault_at_end(chain: str, sealed_end: int, last: int) -> Broken:
    if last < sealed_end:
        return Broken(chain, last + 1, f"it is missing; the chain went up to line {sealed_end}")
    if last > sealed_end:
        return Broken(chain, sealed_end + 1, f"it was put there: the chain goes up to line {sealed_end}")
    return Broken(chain, sealed_end, "it is not the line that the chain ended with")


def _wrong_index(tx: Tx, sealed: SealedCheckpoints) -> Broken | None:
    """Checks the column that says how far each chain is sealed. Only the next checkpoint uses it; somebody could change
    it to leave a chain out."""
    found = select(chains.c.chain, chains.c.sealed_hash).order_by(chains.c.chain).execution_options(yield_per=PAGE)
    for row in tx.execute(found):
        if row.sealed_hash != sealed.last_hash(row.chain):
            return Broken(row.chain, None, "how far the database says it is sealed is not what the checkpoints say")
    return None
