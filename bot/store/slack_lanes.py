"""Slack's two lanes, as transaction functions: which cards have to be drawn, and which threads have lines to post.

Deciding a confirmation and running an agent wait for no post to Slack. Cards and threads follow in lanes of their own.
`bot_cards` has a row for each card that shows an older state than the stored one. `bot_threads` has a row for each
thread with ledger lines or agent's messages that are not posted yet. Each row has its own due time, lease and failures.
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
"""Topics: something of this kind may be due. A line of a session's ledger is told as `THREADS`."""

MANY_CARDS = 8
"""While more cards than these are owed, they come before any status."""

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


def owe_card(tx: Tx, session: str, row: Confirmation) -> None:
    """Its cards show an older row. The caller has locked the confirmation."""
    if not _OWE_CARD(tx, key_=row.id, due_at_=tx.now()):
        new = {"team": row.asked.team, "enterprise": row.asked.enterprise, "due_at": tx.now()}
        tx.execute(_NEW_CARD, {"confirmation": row.id, "session": session, **new})
    tx.notify(CARDS)


def card_done(tx: Tx, confirmation: str) -> None:
    _CARD_DONE(tx, key_=confirmation, due_at_=None)


def owe_thread(tx: Tx, key: str) -> None:
    """Something was stored for a session's thread, in this transaction: before this call or after it."""
    if not _OWE_THREAD(tx, key_=key, due_at_=tx.now()):
        where = tx.execute(select(sessions.c.team, sessions.c.enterprise).where(sessions.c.key == key)).one_or_none()
        if where is None:
            return  # a chain that belongs to no session
        new = {"session": key, "team": where.team, "enterprise": where.enterprise, "due_at": tx.now(), "failures": 0}
        tx.execute(insert_if_absent(tx.dialect, threads), new)
    tx.notify(THREADS)


def lock_thread(tx: Tx, key: str) -> None:
    """Call this before you look whether anything is left to post. What is stored at that moment then either comes first
    and is seen, or comes after `thread_done`, and the thread is due again."""
    _LOCK_THREAD.first(tx, key_=key)


def thread_done(tx: Tx, key: str, due_at: float | None) -> None:
    _THREAD_DONE(tx, key_=key, due_at_=due_at)


def cards_owed(tx: Tx) -> int:
    """How many confirmations have a card that shows an older row, without any failure so far."""
    return int(_CARDS_OWED.first(tx).number)


def cards_under_way(tx: Tx, key: str) -> bool:
    """Whether a card of the session is on its way to Slack, without any failure so far."""
    return _UNDER_WAY.first(tx, key_=key, at_=tx.now()) is not None
