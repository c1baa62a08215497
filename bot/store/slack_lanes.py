"""Keeps which cards must be drawn and which threads have something to post. Transaction functions.

Decisions and runs never wait for a post to Slack. Cards and threads are updated separately. `bot_cards` has a row for
each confirmation whose cards are out of date. `bot_threads` has a row for each thread with ledger lines or agent's
messages that are not posted yet. Each row has its own due time, lease and failures.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Double, bindparam, case, func, insert, select, update

from bot.audit.ledger import LineKind
from bot.confirmation.model import Confirmation, State
from bot.store.tables import cards, sessions, threads
from runtime.store.database import Tx, for_update
from runtime.store.prepared import Prepared
from runtime.store.upsert import prepared_insert_if_absent

CARDS = "bot:cards"
THREADS = "bot:threads"
"""The topics of the two lanes, notified when a row may be due."""

CARDS_FIRST = 0.5
"""How long lines wait at a time while a card is about to be posted, since people decide on the card."""

SOON = 1.0
"""A call that ends within this many seconds of its approval gets one line and one update of its card for both."""

_NOW: dict[str, object] = {"due_at": bindparam("due_at_"), "parked_at": None, "failures": 0}
_OWE_CARD = Prepared(update(cards).where(cards.c.confirmation == bindparam("key_")).values(_NOW))
_OWE_THREAD = Prepared(update(threads).where(threads.c.session == bindparam("key_")).values(_NOW))
_LATER = bindparam("due_at_", type_=Double)
_NOT_BEFORE = {**_NOW, "due_at": case((threads.c.due_at <= _LATER, threads.c.due_at), else_=_LATER)}
_OWE_THREAD_LATER = Prepared(update(threads).where(threads.c.session == bindparam("key_")).values(_NOT_BEFORE))
_LOCK_THREAD = Prepared(for_update(select(threads.c.session).where(threads.c.session == bindparam("key_"))))
_CARD = ("confirmation", "session", "due_at")
_NEW_CARD = Prepared(insert(cards).inline().values({name: bindparam(f"{name}_") for name in _CARD}))
_NEW_THREAD = prepared_insert_if_absent(threads, "session", "due_at", "failures")
_SESSION = Prepared(select(sessions.c.key).where(sessions.c.key == bindparam("key_")))
_DONE: dict[str, object] = {"due_at": bindparam("due_at_"), "owed_since": None, "failures": 0, "trouble": None}
_CARDS_OWED = Prepared(
    select(func.count().label("number")).select_from(cards).where(cards.c.due_at.is_not(None), cards.c.failures == 0)
)
_UNDER_WAY = Prepared(
    select(cards.c.confirmation)
    .where(cards.c.session == bindparam("key_"), cards.c.due_at <= bindparam("at_"), cards.c.failures == 0)
    .limit(1)
)
_CARD_DONE = Prepared(update(cards).where(cards.c.confirmation == bindparam("key_")).values(_DONE))
_THREAD_DONE = Prepared(update(threads).where(threads.c.session == bindparam("key_")).values(_DONE))


def mark_cards_due(tx: Tx, session: str, row: Confirmation) -> None:
    """Marks a confirmation's cards as out of date. The caller has locked the confirmation. Those of a call that was
    approved just now are due when its end is known, or after a while."""
    due_at = tx.now()
    if row.decision is not None and waits_for_end(row):
        due_at = max(due_at, row.decision.at.timestamp() + SOON)
    if not _OWE_CARD(tx, key_=row.id, due_at_=due_at):
        _NEW_CARD(tx, confirmation_=row.id, session_=session, due_at_=due_at)
    tx.notify(CARDS, due_at)


def waits_for_end(row: Confirmation) -> bool:
    """Whether its cards may wait for the call's end: it is approved, and a card says already that it was asked for."""
    return row.decision is not None and row.runs and bool(row.card_channels) and not row.unreached


def card_done(tx: Tx, confirmation: str) -> None:
    _CARD_DONE(tx, key_=confirmation, due_at_=None)


def mark_thread_due(tx: Tx, key: str, wait: float = 0.0) -> None:
    """Marks a session's thread as having something to post. It may be stored later in the same transaction. `wait`: it
    is due in this many seconds, or when something else in it is due."""
    due_at, mark = tx.now() + wait, _OWE_THREAD_LATER if wait else _OWE_THREAD
    if not mark(tx, key_=key, due_at_=due_at):
        if _SESSION.first(tx, key_=key) is None:
            return  # a chain without a session
        _NEW_THREAD(tx, session_=key, due_at_=due_at, failures_=0)
    tx.notify(THREADS, due_at)


def seconds_until_posted(tx: Tx, row: Confirmation, kinds: Collection[LineKind]) -> float:
    """How long lines of these kinds about `row` wait for what comes first, or follows soon and is said with them."""
    if LineKind.ASKED in kinds and row.state is State.WAITING:
        return CARDS_FIRST
    if LineKind.APPROVED in kinds and row.runs:
        return SOON
    if LineKind.BEGUN in kinds and row.runs and row.decision is not None:
        return max(0.0, row.decision.at.timestamp() + SOON - tx.now())
    return 0.0


def lock_thread(tx: Tx, key: str) -> None:
    """Locks a thread. Call this before looking whether anything is left to post: what is stored concurrently is then
    either seen, or stored after `thread_done` and makes the thread due again."""
    _LOCK_THREAD.first(tx, key_=key)


def thread_done(tx: Tx, key: str, due_at: float | None) -> None:
    _THREAD_DONE(tx, key_=key, due_at_=due_at)


def count_due_cards(tx: Tx) -> int:
    """How many confirmations have an out-of-date card, not counting those that failed."""
    return int(_CARDS_OWED.first(tx).number)


def cards_under_way(tx: Tx, key: str) -> bool:
    """Whether a card of the session is being sent to Slack, not counting those that failed."""
    return _UNDER_WAY.first(tx, key_=key, at_=tx.now()) is not None
