"""Notes what is due to be drawn or posted on cards and threads, and what was done once. Transaction functions.

Decisions and runs never wait for a post to Slack. Cards and threads are updated by jobs of their own: one for each
confirmation whose cards are out of date, and one for each thread with ledger lines or agent's messages that are not
posted yet.

What is done once is remembered by its mark: a letter that was sent to a server, a note that was given, a message that
was read. When the next mark of a scope is written, those older than a month are deleted.
"""

from __future__ import annotations

from adk_confirm.bot.confirmation.confirmation import Confirmation
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.jobs import owe

CARDS_FIRST = 0.5
"""Seconds that lines wait, again and again, while a card is about to be posted: people decide on the card."""

SOON = 1.0
"""A call that ends within this many seconds of its approval gets one line and one update of its card for both."""

SLACK_IS_LATE = 20.0
"""Seconds in which Slack may still carry out a request that got no answer."""


def mark_cards_due(tx: Tx, session: str, row: Confirmation) -> None:
    """Marks a confirmation's cards as out of date. The caller has locked the confirmation. Those of a call that was
    approved just now are due when its end is known, or after a while."""
    due_at = tx.now()
    if row.decision is not None and waits_for_end(row):
        due_at = max(due_at, row.decision.at.timestamp() + SOON)
    owe(tx, "card", row.id, due_at, owner=session, turn=session)


def waits_for_end(row: Confirmation) -> bool:
    """Whether its cards may wait for the call's end. They may if it is approved and people have its card already."""
    return row.decision is not None and row.runs and bool(row.card_channels) and not row.unreached


def mark_thread_due(tx: Tx, key: str, wait: float = 0.0) -> None:
    """Marks a session's thread as having something to post, which may be stored later in this transaction. `wait`: it
    is due in this many seconds, or when something else in it is due."""
    owe(tx, "thread", key, tx.now() + wait, owner=key, or_sooner=wait > 0)


def count_due_cards(tx: Tx, most: int) -> int:
    """How many confirmations have an out-of-date card, not counting those that failed. `most`: stops there."""
    return int(tx.value(_COUNT_DUE_CARDS, most=most))


_COUNT_DUE_CARDS = """
    SELECT count(*) FROM (
        SELECT 1 FROM jobs WHERE kind = 'card' AND due_at IS NOT NULL AND failures = 0 LIMIT :most
    ) AS found
"""


CARD_UNDER_WAY = "EXISTS (SELECT 1 FROM jobs WHERE kind = 'card' AND turn = s.key AND due_at <= :now AND failures = 0)"
"""Whether a card of the session `s` is being sent to Slack, not counting those that failed."""


KEPT = 30 * 86_400.0


def begin_attempt(tx: Tx, scope: str, mark: str) -> float | None:
    """Notes an attempt, and returns when the first one was noted, or None if this is the first. The caller holds the
    scope's lease."""
    before, now = earlier_attempt(tx, scope, mark), tx.now()
    if before is not None:
        return before
    tx.run("DELETE FROM bot_attempts WHERE scope = :scope AND at < :before", scope=scope, before=now - KEPT)
    tx.insert("bot_attempts", {"scope": scope, "mark": mark, "at": now})
    return None


def earlier_attempt(tx: Tx, scope: str, mark: str) -> float | None:
    """When an attempt was noted, or None."""
    found = "SELECT at FROM bot_attempts WHERE scope = :scope AND mark = :mark"
    at: float | None = tx.value(found, scope=scope, mark=mark)
    return at


def forget_attempt(tx: Tx, scope: str, mark: str) -> None:
    """Deletes the marks of an attempt that is over: nothing of it is in Slack, or its result is stored."""
    tx.run("DELETE FROM bot_attempts WHERE scope = :scope AND mark = :mark", scope=scope, mark=mark)
