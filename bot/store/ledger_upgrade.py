"""Takes over a ledger from before lines were sealed. Only lines that exist at that moment may lack a fingerprint.

This happens once, in one transaction, before anything else is written. It adds a checkpoint in the old form over all
lines, purge lines that name all empty lines, and the first checkpoint in the new form. Afterwards a line without a
fingerprint, or an empty line that no purge line names, counts as forged.
"""

from __future__ import annotations

from sqlalchemy import exists, select, tuple_

from bot.audit.checkpoints import BEFORE_SEALED_LINES, Checkpoint, checkpoint, version_of
from bot.audit.ledger import SYSTEM, Head, LineKind
from bot.audit.purges import group_emptied
from bot.confirmation.effects import Step
from bot.policy.approvers import OPERATOR
from bot.store.checkpoints import last_checkpoint, store_checkpoint, take_turn
from bot.store.ledger_lines import write_step
from bot.store.repository import now
from bot.store.sealed_rows import ledger_keys
from bot.store.tables import chains, ledger
from runtime.store.database import Tx, for_update

AT_ONCE = 1000
"""The most chains in one checkpoint, and the most empty lines that one purge line names."""

_LATEST = 20


def upgrade_ledger(tx: Tx) -> Checkpoint | None:
    """Takes over an old ledger. Returns the last checkpoint made here, or None if there is nothing to take over."""
    take_turn(tx)
    keys, before = ledger_keys(tx), last_checkpoint(tx)
    if before is not None and version_of(before, keys) != BEFORE_SEALED_LINES:
        return None
    sealed, unsealed = exists().where(ledger.c.sealed.is_not(None)), exists().where(ledger.c.sealed.is_(None))
    if tx.execute(select(sealed)).scalar_one() or not tx.execute(select(unsealed)).scalar_one():
        return None
    while heads := _unsealed_heads(tx):
        before = store_checkpoint(tx, checkpoint(before, heads, now(tx), keys, version=BEFORE_SEALED_LINES))
    _record_emptied(tx)
    return store_checkpoint(tx, checkpoint(before, _unsealed_heads(tx), now(tx), keys))


def _unsealed_heads(tx: Tx) -> dict[str, Head]:
    found = select(chains.c.chain, chains.c.seq, chains.c.hash).where(chains.c.hash != chains.c.sealed_hash)
    return {row.chain: Head(row.seq, row.hash) for row in tx.execute(for_update(found.limit(AT_ONCE)))}


def _record_emptied(tx: Tx) -> None:
    place = tuple_(ledger.c.chain, ledger.c.seq)
    found = select(ledger.c.chain, ledger.c.seq).where(ledger.c.content.is_(None))
    found = found.order_by(ledger.c.chain, ledger.c.seq).limit(AT_ONCE)
    after = ("", 0)
    while rows := [(row.chain, row.seq) for row in tx.execute(found.where(place > after))]:
        text = f"{len(rows)} lines, by an older version"
        write_step(
            tx, SYSTEM, Step(kind=LineKind.PURGED, at=now(tx), who=OPERATOR, text=text, emptied=group_emptied(rows))
        )
        after = rows[-1]


def secret_fits(tx: Tx) -> bool:
    """Whether the last checkpoint, or any of the latest lines, was sealed with the given secret.

    One match is enough, since somebody may have changed the others. An empty ledger fits any secret.
    """
    keys, point = ledger_keys(tx), last_checkpoint(tx)
    if point is not None and version_of(point, keys) is not None:
        return True
    latest = select(ledger.c.hash, ledger.c.sealed).where(ledger.c.sealed.is_not(None)).order_by(ledger.c.at.desc())
    rows = tx.execute(latest.limit(_LATEST)).all()
    if point is None and not rows:
        return True
    return any(keys.line.matches(row.hash, row.sealed) for row in rows)
