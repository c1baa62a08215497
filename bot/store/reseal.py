"""Seals anew what an earlier secret sealed, so that nobody needs that secret any more. Transaction functions.

What fits neither secret is void, and is left as it is. A process may be killed at any point: what is sealed anew
already fits, and the next run goes on. The ledger's checkpoints are outside the database, too, so they stay as they
are: the first ones with the new secret cover all chains again, and `NEWER` says from which number on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adk_confirm.bot.audit.checkpoints import Checkpoint, CheckpointKey, checkpoint
from adk_confirm.bot.audit.ledger import SYSTEM, Head, LineKind
from adk_confirm.bot.confirmation.states import Step
from adk_confirm.bot.policy.redaction import own_words
from adk_confirm.bot.store.checkpoint_rows import last_checkpoint, store_checkpoint, take_turn
from adk_confirm.bot.store.ledger_rows import write_steps
from adk_confirm.bot.store.repository import find_session, now, session_is_sealed, session_seal
from adk_confirm.bot.store.sealed_rows import STORED, letter_is_sealed, letter_seal
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.seal import Seal, seal_of
from adk_confirm.runtime.store.stored_session import call_key
from adk_confirm.runtime.store.tables import BEFORE, forget, note, noted
from adk_confirm.runtime.wire import SessionId

PAGE = 500
NEWER = "sealed anew"
"""The name under which a store keeps the number of the first checkpoint that counts for its current secret."""


def note_new_secret(tx: Tx) -> None:
    _note(tx, "From here on, what is stored is sealed with a new secret.")


def _note(tx: Tx, text: str) -> None:
    write_steps(tx, SYSTEM, Step(kind=LineKind.SEALED_ANEW, at=now(tx), text=own_words(text)))


@dataclass(frozen=True)
class SealedTable:
    """`rows` selects rows, sorted by `key`. `seal` says which seal a row should have, if its own fits. `write` writes
    it, unless somebody has changed the row meanwhile: then they sealed it with the new secret."""

    key: tuple[str, ...]
    rows: str
    seal: Callable[[Tx, Any], str | None]
    write: str


def _session(tx: Tx, row: Any) -> str | None:
    session = find_session(tx, row.key)
    return session_seal(tx, session) if session is not None and session_is_sealed(tx, session) else None


def _letter(tx: Tx, row: Any) -> str | None:
    return letter_seal(tx, row._asdict()) if letter_is_sealed(tx, row) else None


def _body(tx: Tx, row: Any) -> str | None:
    seal, key = seal_of(tx), [row.id, row.session, row.request_id]
    fits = seal.fits(row.sealed, "confirmation", key, row.body, row.last_line)
    return seal.of("confirmation", key, row.body, row.last_line) if fits else None


def _places(tx: Tx, row: Any) -> str | None:
    seal = seal_of(tx)
    fits = seal.fits(row.sealed, "cards", row.id, row.places)
    return seal.of("cards", row.id, row.places) if fits else None


def _line(tx: Tx, row: Any) -> str | None:
    seal, of = seal_of(tx), ("line", row.chain, row.hash, row.seq)
    return seal.of(*of) if seal.fits(row.sealed, *of) else None


def _call(tx: Tx, row: Any) -> str | None:
    key = call_key(SessionId(row.app, row.user_id, row.name), row.opened_by, row.id)
    seal = seal_of(tx)
    return seal.of("call", key, row.body) if seal.fits(row.sealed, "call", key, row.body) else None


SEALED = (
    SealedTable(
        ("key",),
        "SELECT c.key, c.sealed FROM bot_sessions c",
        _session,
        "UPDATE bot_sessions SET sealed = :sealed WHERE key = :key AND sealed = :before",
    ),
    SealedTable(
        ("id",),
        "SELECT * FROM bot_mail c",
        _letter,
        "UPDATE bot_mail SET sealed = :sealed WHERE id = :id AND sealed = :before",
    ),
    SealedTable(
        ("id",),
        STORED,
        _body,
        "UPDATE bot_confirmations SET sealed = :sealed WHERE id = :id AND sealed = :before",
    ),
    SealedTable(
        ("id",),
        "SELECT c.id, c.places, coalesce(c.places_sealed, '') AS sealed FROM bot_confirmations c",
        _places,
        "UPDATE bot_confirmations SET places_sealed = :sealed WHERE id = :id AND places_sealed = :before",
    ),
    SealedTable(
        ("session", "id"),
        "SELECT s.app, s.user_id, s.id AS name, s.opened_by, c.session, c.id, c.body, c.sealed FROM runtime_calls c"
        " JOIN runtime_sessions s ON s.key = c.session",
        _call,
        "UPDATE runtime_calls SET sealed = :sealed WHERE session = :session AND id = :id AND sealed = :before",
    ),
    SealedTable(
        ("chain", "seq"),
        "SELECT c.chain, c.seq, c.hash, c.sealed FROM bot_ledger c",
        _line,
        "UPDATE bot_ledger SET sealed = :sealed WHERE chain = :chain AND seq = :seq AND sealed = :before",
    ),
)


def count_sealed(tx: Tx) -> int:
    return int(tx.value(_COUNT))


_COUNT = """
    SELECT (SELECT count(*) FROM bot_sessions) + (SELECT count(*) FROM bot_mail)
        + 2 * (SELECT count(*) FROM bot_confirmations) + (SELECT count(*) FROM runtime_calls)
        + (SELECT count(*) FROM bot_ledger)
"""


def reseal_page(tx: Tx, table: SealedTable, after: tuple[Any, ...] | None) -> tuple[int, int, tuple[Any, ...] | None]:
    """Seals a page of rows anew. Returns how many were looked at, how many were sealed anew, and where to go on."""
    at = {} if after is None else {f"after_{name}": value for name, value in zip(table.key, after, strict=True)}
    columns, values = ", ".join(f"c.{name}" for name in table.key), ", ".join(f":{name}" for name in at)
    where = f"WHERE ({columns}) > ({values})" if at else ""
    rows = tx.all(f"{table.rows} {where} ORDER BY {columns} LIMIT {PAGE}", **at)
    anew = 0
    for row in rows:
        key = {name: getattr(row, name) for name in table.key}
        sealed = table.seal(tx, row)
        if sealed not in (None, row.sealed):
            anew += tx.run(table.write, before=row.sealed, sealed=sealed, **key)
    last = tuple(getattr(rows[-1], name) for name in table.key) if len(rows) == PAGE else None
    return len(rows), anew, last


def cover_chains(tx: Tx, key: CheckpointKey | None, after: str | None, first: int | None) -> tuple[Checkpoint, bool]:
    """Makes a checkpoint over the next chains, grown or not. Returns whether there are more. With the last
    checkpoint the store notes that those from `first` on are enough, and that the old secret is over."""
    take_turn(tx)
    if after is None:
        _note(tx, "All that is stored is sealed with the new secret. The old one is not needed any more.")
    rows = tx.all(_CHAINS, after=after or "", most=PAGE)
    heads = {row.chain: Head(row.seq, row.hash) for row in rows}
    made = store_checkpoint(tx, checkpoint(last_checkpoint(tx), heads, now(tx), seal_of(tx), key))
    if len(rows) < PAGE:
        number = first or made.number
        forget(tx, BEFORE)
        note(tx, {NEWER: f"{number} {seal_of(tx).of(NEWER, '', number)}"})
    return made, len(rows) == PAGE


_CHAINS = "SELECT chain, seq, hash FROM bot_chains WHERE chain > :after ORDER BY chain LIMIT :most"


def first_of_secret(tx: Tx, seal: Seal) -> int:
    """The number of the first checkpoint that counts for this secret. An earlier secret sealed those before."""
    number, _, sealed = (noted(tx, NEWER) or "").partition(" ")
    return int(number) if number.isdigit() and seal.fits(sealed, NEWER, "", int(number)) else 1
