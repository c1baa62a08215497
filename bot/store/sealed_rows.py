"""Seals stored confirmations, each as a whole and bound to the ledger, and what people said to an agent.

Somebody who can write to the database could restore an older row together with its fingerprints. So a row's fingerprint
covers its text and the number of its last ledger line. Each further line about the confirmation makes all older rows
invalid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row, bindparam, func, select

from bot.audit.fingerprint import same_fingerprint
from bot.audit.ledger import LedgerKeys, LineKind
from bot.store.tables import confirmations, ledger
from runtime.errors import StoreError
from runtime.store.database import Tx
from runtime.store.prepared import Prepared

LAST_LINE = select(func.coalesce(func.max(ledger.c.seq), 0)).where(ledger.c.confirmation == confirmations.c.id)
"""The number of a confirmation's last ledger line, as a column for queries."""

_LETTER = ("session", "kind", "mark", "person", "confirmation", "body")
_LAST = Prepared(
    select(func.coalesce(func.max(ledger.c.seq), 0).label("seq")).where(ledger.c.confirmation == bindparam("id_"))
)


def ledger_keys(tx: Tx) -> LedgerKeys:
    """The keys for writing the ledger. Fails for a store that was opened without the secret."""
    keys = tx.context
    if not isinstance(keys, LedgerKeys):
        raise StoreError("The store was opened without the secret, and the ledger can't be written without it.")
    return keys


def row_fingerprint(tx: Tx, confirmation: str, body: str) -> str:
    """The fingerprint of a row. Call this after the ledger lines of the same change are written."""
    return ledger_keys(tx).row.of([confirmation, body, _LAST.first(tx, id_=confirmation).seq])


def doubt_about(tx: Tx, found: Row[*tuple[Any, ...]]) -> frozenset[LineKind] | None:
    """Returns None if the row is as this app saved it. Otherwise returns the kinds of ledger lines about it.

    `found` has the columns id, body, sealed and last_line. A command that reads without the secret can't check.
    """
    keys = tx.context
    if not isinstance(keys, LedgerKeys) or keys.row.matches([found.id, found.body, found.last_line], found.sealed):
        return None
    return _kinds(tx, found.id)


def doubt_about_locked(tx: Tx, found: Row[*tuple[Any, ...]]) -> frozenset[LineKind] | None:
    """The same for a locked row, so that no change of it is under way. It is also in doubt if lines that this process
    wrote about it are missing."""
    keys = tx.context
    lost = keys.seen.lost(found.id, found.last_line) if isinstance(keys, LedgerKeys) else frozenset[LineKind]()
    return _kinds(tx, found.id) | lost if lost else doubt_about(tx, found)


def _kinds(tx: Tx, confirmation: str) -> frozenset[LineKind]:
    kinds = select(ledger.c.kind).where(ledger.c.confirmation == confirmation).distinct()
    return frozenset(LineKind(kind) for kind in tx.execute(kinds).scalars())


def letter_fingerprint(tx: Tx, letter: Mapping[str, object]) -> str:
    """The fingerprint over who said what to the agent, or what it gets about which call. Whose call the agent makes
    next depends on this."""
    return ledger_keys(tx).letter.of([letter[name] for name in _LETTER])  # type: ignore[misc]  # texts and None


def letter_is_sealed(tx: Tx, stored: Row[*tuple[Any, ...]]) -> bool:
    """Whether this app put the letter into the mailbox: it is sealed."""
    return same_fingerprint(letter_fingerprint(tx, {name: getattr(stored, name) for name in _LETTER}), stored.sealed)
