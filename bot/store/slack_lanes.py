"""Keeps which cards must be drawn and which threads have something to post. Transaction functions.

Decisions and runs never wait for a post to Slack. Cards and threads are updated separately. `bot_cards` has a row for
each confirmation whose cards are out of date. `bot_threads` has a row for each thread with ledger lines or agent's
messages that are not posted yet. Each row has its own due time, lease and failures.
"""

from __future__ import annotations

from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.sql.dml import Insert

from bot.confirmation.model import Confirmation
from bot.store.tables import cards, sessions, threads
from runtime.store.database import Tx, for_update
from runtime.store.prepared import Prepared
from runtime.store.upsert import insert_if_absent

CARDS = "bot:cards"
THREADS = "bot:threads"
"""The topics of the two lanes, notified when a row may be due. A line of a session's ledger notifies `THREADS`."""

MANY_CARDS = 8
"""With more due cards than this, cards come before any status."""

_NOW: dict[str, object] = {"due_at": bindparam("due_at_"), "parked_at": None, "failures": 0}
_OWE_CARD = Prepared(update(cards).where(cards.c.confirmation == bindparam("key_")).values(_NOW))
_OWE_THREAD = Prepared(update(threads).where(threads.c.session == bindparam("key_")).values(_NOW))
_LOCK_THREAD = Prepared(for_update(select(threads.c.session).where(threads.c.session == bindparam("key_"))))
_NEW_CARD: Insert = insert(cards).inline()
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
    """Marks a confirmation's cards as out of date. The caller has locked the confirmation."""
    if not _OWE_CARD(tx, key_=row.id, due_at_=tx.now()):
        new = {"team": row.asked.team, "enterprise": row.asked.enterprise, "due_at": tx.now()}
        tx.execute(_NEW_CARD, {"confirmation": row.id, "session": session, **new})
    tx.notify(CARDS)


def card_done(tx: Tx, confirmation: str) -> None:
    _CARD_DONE(tx, key_=confirmation, due_at_=None)


def mark_thread_due(tx: Tx, key: str) -> None:
    """Marks a session's thread as having something to post. It may be stored later in the same transaction."""
    if not _OWE_THREAD(tx, key_=key, due_at_=tx.now()):
        where = tx.execute(select(sessions.c.team, sessions.c.enterprise).where(sessions.c.key == key)).one_or_none()
        if where is None:
            return  # a chain without a session
        new = {"session": key, "team": where.team, "enterprise": where.enterprise, "due_at": tx.now(), "failures": 0}
        tx.execute(insert_if_absent(tx.dialect, threads), new)
    tx.notify(THREADS)


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
