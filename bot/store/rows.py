"""Seals the bot's rows, and reads those whose seals fit. Nothing can be read of any other row.

A confirmation's seal covers the number of its last ledger line. Somebody who can write to the database could put an
older row back, with a seal that fitted then: each further line about the confirmation makes all older rows void.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Row, bindparam, func, select

from bot.confirmation.model import Confirmation, Place
from bot.confirmation.stored_json import UnreadableRecord, places_from_json, places_to_json, row_from_json, row_to_json
from bot.store.tables import cards, confirmations, ledger, storable
from runtime.store.database import Tx
from runtime.store.prepared import Prepared
from runtime.store.seal import seal_in, seal_of

_ABOUT_IT = select(func.coalesce(func.max(ledger.c.seq), 0)).where(ledger.c.confirmation == confirmations.c.id)
STORED = select(
    confirmations.c.id,
    confirmations.c.session,
    confirmations.c.request_id,
    confirmations.c.call_id,
    confirmations.c.created,
    confirmations.c.body,
    confirmations.c.sealed,
    _ABOUT_IT.scalar_subquery().label("last_line"),
    select(cards.c.places).where(cards.c.confirmation == confirmations.c.id).scalar_subquery().label("places"),
    select(cards.c.sealed).where(cards.c.confirmation == confirmations.c.id).scalar_subquery().label("places_sealed"),
)
"""Confirmations as `load` reads them."""

_LAST = Prepared(
    select(func.coalesce(func.max(ledger.c.seq), 0).label("seq")).where(ledger.c.confirmation == bindparam("id_"))
)
_LETTER = ("kind", "person", "confirmation", "body", "turn", "line")


def load(tx: Tx, found: Row[*tuple[Any, ...]]) -> Confirmation | None:
    """The confirmation, if the row and the places of its cards are as this app saved them. Otherwise it is void, and
    None: `repository.lock_confirmation` ends it. A command that reads without the secret can't check."""
    seal, key = seal_in(tx.context), [found.id, found.session, found.request_id]
    if seal is not None and not seal.fits(found.sealed, "confirmation", key, found.body, found.last_line):
        return None
    if seal is not None and found.places and not seal.fits(found.places_sealed, "cards", found.id, found.places):
        return None
    try:
        row = row_from_json(found.body)
        return replace(row, places=places_from_json(found.places)) if found.places else row
    except UnreadableRecord:
        return None


def sealed_body(tx: Tx, session: str, row: Confirmation) -> dict[str, object]:
    """The row's text and seal. Call this after the ledger lines of the same change are written."""
    body, key = row_to_json(row), [row.id, session, storable(row.asked.request_id)]
    return {
        "body": body,
        "sealed": seal_of(tx).of("confirmation", key, body, _LAST.first(tx, id_=row.id).seq),  # type: ignore[arg-type]
    }


def sealed_places(tx: Tx, confirmation: str, places: tuple[Place, ...]) -> dict[str, object]:
    text = places_to_json(places)
    return {"places": text, "sealed": seal_of(tx).of("cards", confirmation, text)}


def letter_seal(tx: Tx, letter: Mapping[str, Any]) -> str:
    """Covers who said what to the agent, or what it gets about which call, and its place in the ledger."""
    return seal_of(tx).of("letter", [letter["session"], letter["mark"]], [letter[name] for name in _LETTER])


def letter_is_sealed(tx: Tx, stored: Row[*tuple[Any, ...]]) -> bool:
    key, body = [stored.session, stored.mark], [getattr(stored, name) for name in _LETTER]
    return seal_of(tx).fits(stored.sealed, "letter", key, body)
