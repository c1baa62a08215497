"""Seals the bot's rows, and reads those whose seals fit. Nothing can be read of any other row.

A confirmation's seal covers the number of its last ledger line. Somebody who can write to the database could put an
older row back, with a seal that fitted then. So each further line about the confirmation makes all older rows void.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from adk_confirm.bot.confirmation.confirmation import Confirmation, Place
from adk_confirm.bot.confirmation.stored_json import UnreadableRecord, from_json, to_json
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.seal import Seal, seal_in, seal_of
from adk_confirm.runtime.wire import is_storable_id

STORED = """
    SELECT c.id, c.session, c.request_id, c.call_id, c.created, c.body, c.sealed, c.places, c.places_sealed,
        (SELECT coalesce(max(seq), 0) FROM bot_ledger WHERE confirmation = c.id) AS last_line
    FROM bot_confirmations c
"""
"""Confirmations as `load` reads them."""

LARGE = 10_000
"""Rows with more characters are not kept in memory: a call may have hundreds of thousands."""

_LETTER = ("kind", "person", "confirmation", "body", "turn", "line")


def storable(text: str) -> str:
    """An id that an agent's server chose, or a digest of it if it is too long, or has characters that no database
    takes. The row's body has the id as it is; the column is for finding the row."""
    return text if is_storable_id(text) else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class _Kept:
    """A confirmation as it is stored, and as it is read from that."""

    stored: tuple[object, ...]
    row: Confirmation | None


_kept: dict[str, _Kept] = {}
"""The rows that were read or written last: a thread's earlier rows are read at each of its steps, and hardly change."""
_MOST_KEPT, _keeping = 1000, Lock()


def _keep(confirmation: str, stored: tuple[object, ...], row: Confirmation | None) -> None:
    with _keeping:
        _kept.pop(confirmation, None)
        _kept[confirmation] = _Kept(stored, row)
        if len(_kept) > _MOST_KEPT:
            del _kept[next(iter(_kept))]


def load(tx: Tx, found: Any) -> Confirmation | None:
    """The confirmation, if the row and the places of its cards are as this app saved them. Otherwise the row is void,
    and this is None: `repository.lock_confirmation` ends it. A command that reads without the secret can't check."""
    row_is = found.session, found.request_id, found.body, found.sealed, found.last_line
    stored = seal_in(tx.context), *row_is, found.places, found.places_sealed
    kept = _kept.get(found.id)
    if kept is not None and kept.stored == stored:
        return kept.row
    row = _load(found.id, *stored)
    if len(found.body) <= LARGE:
        _keep(found.id, stored, row)
    return row


def _load(
    confirmation: str,
    seal: Seal | None,
    session: str,
    request: str,
    body: str,
    sealed: str,
    last_line: int,
    places: str | None,
    places_sealed: str | None,
) -> Confirmation | None:
    if seal is not None and not seal.fits(sealed, "confirmation", [confirmation, session, request], body, last_line):
        return None
    if seal is not None and places and not seal.fits(places_sealed, "cards", confirmation, places):
        return None
    try:
        row = from_json(Confirmation, body)
        return replace(row, places=from_json(tuple[Place, ...], places)) if places else row
    except UnreadableRecord:
        return None


def sealed_body(tx: Tx, session: str, row: Confirmation) -> dict[str, object]:
    """The row's text and seal. Call this after the ledger lines of the same change are written."""
    body, request, last = to_json(row), storable(row.asked.request_id), tx.known["bot_ledger"].get(row.id)
    if last is None:
        last = tx.value("SELECT coalesce(max(seq), 0) FROM bot_ledger WHERE confirmation = :id", id=row.id)
    seal = seal_of(tx)
    sealed = seal.of("confirmation", [row.id, session, request], body, last)
    kept = _kept.get(row.id)
    if len(body) <= LARGE and kept is not None and kept.row is not None and kept.row.places == row.places:
        _keep(row.id, (seal, session, request, body, sealed, last, *kept.stored[-2:]), row)
    return {"body": body, "sealed": sealed}


def sealed_places(tx: Tx, confirmation: str, places: tuple[Place, ...]) -> dict[str, object]:
    text = to_json(places)
    sealed = seal_of(tx).of("cards", confirmation, text)
    kept = _kept.get(confirmation)
    if kept is not None and kept.row is not None:
        _keep(confirmation, (*kept.stored[:-2], text, sealed), replace(kept.row, places=places))
    return {"places": text, "places_sealed": sealed}


def letter_seal(tx: Tx, letter: Mapping[str, Any]) -> str:
    """The letter's seal. It covers who said what, or what the agent gets about which call, and after which line."""
    return seal_of(tx).of("letter", [letter["session"], letter["mark"]], [letter[name] for name in _LETTER])


def letter_is_sealed(tx: Tx, stored: Any) -> bool:
    key, body = [stored.session, stored.mark], [getattr(stored, name) for name in _LETTER]
    return seal_of(tx).fits(stored.sealed, "letter", key, body)
