"""Keeps which cards must be drawn and which threads have something to post. Transaction functions.

Decisions and runs never wait for a post to Slack. Cards and threads are updated separately. `bot_cards` has a row for
each confirmation whose cards are out of date. `bot_threads` has a row for each thread with ledger lines or agent's
messages that are not posted yet. Each row has its own due time, lease and failures.
"""

from __future__ import annotations

from collections.abc import Collection

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation.model import Confirmation, State
from adk_confirm.runtime.store.database import Tx

CARDS = "bot:cards"
THREADS = "bot:threads"
"""The topics of the two lanes, notified when a row may be due."""

CARDS_FIRST = 0.5
"""How long lines wait at a time while a card is about to be posted, since people decide on the card."""

SOON = 1.0
"""A call that ends within this many seconds of its approval gets one line and one update of its card for both."""


def mark_cards_due(tx: Tx, session: str, row: Confirmation) -> None:
    """Marks a confirmation's cards as out of date. The caller has locked the confirmation. Those of a call that was
    approved just now are due when its end is known, or after a while."""
    due_at = tx.now()
    if row.decision is not None and waits_for_end(row):
        due_at = max(due_at, row.decision.at.timestamp() + SOON)
    owe = "UPDATE bot_cards SET due_at = :due_at, parked_at = NULL, failures = 0 WHERE confirmation = :id"
    if not tx.run(owe, id=row.id, due_at=due_at):
        tx.insert("bot_cards", {"confirmation": row.id, "session": session, "due_at": due_at})
    tx.notify(CARDS, due_at)


def waits_for_end(row: Confirmation) -> bool:
    """Whether its cards may wait for the call's end: it is approved, and a card says already that it was asked for."""
    return row.decision is not None and row.runs and bool(row.card_channels) and not row.unreached


def card_done(tx: Tx, confirmation: str) -> None:
    tx.run(
        "UPDATE bot_cards SET due_at = NULL, owed_since = NULL, failures = 0, trouble = NULL WHERE confirmation = :id",
        id=confirmation,
    )


def mark_thread_due(tx: Tx, key: str, wait: float = 0.0) -> None:
    """Marks a session's thread as having something to post. It may be stored later in the same transaction. `wait`: it
    is due in this many seconds, or when something else in it is due."""
    due_at = tx.now() + wait
    if not tx.run(_OWE_THREAD_LATER if wait else _OWE_THREAD, key=key, due_at=due_at):
        if tx.first("SELECT 1 FROM bot_sessions WHERE key = :key", key=key) is None:
            return  # a chain without a session
        tx.insert("bot_threads", {"session": key, "due_at": due_at}, if_absent=True)
    tx.notify(THREADS, due_at)


_OWE_THREAD = "UPDATE bot_threads SET due_at = :due_at, parked_at = NULL, failures = 0 WHERE session = :key"
_OWE_THREAD_LATER = """
    UPDATE bot_threads SET
        due_at = CASE WHEN due_at <= :due_at THEN due_at ELSE :due_at END, parked_at = NULL, failures = 0
    WHERE session = :key
"""


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
    tx.first("SELECT 1 FROM bot_threads WHERE session = :key FOR UPDATE", key=key)


def thread_done(tx: Tx, key: str, due_at: float | None) -> None:
    tx.run(
        "UPDATE bot_threads SET due_at = :due_at, owed_since = NULL, failures = 0, trouble = NULL WHERE session = :key",
        key=key,
        due_at=due_at,
    )


def count_due_cards(tx: Tx) -> int:
    """How many confirmations have an out-of-date card, not counting those that failed."""
    return int(tx.value("SELECT count(*) FROM bot_cards WHERE due_at IS NOT NULL AND failures = 0"))


def cards_under_way(tx: Tx, key: str) -> bool:
    """Whether a card of the session is being sent to Slack, not counting those that failed."""
    found = "SELECT 1 FROM bot_cards WHERE session = :key AND due_at <= :now AND failures = 0 LIMIT 1"
    return tx.first(found, key=key, now=tx.now()) is not None
