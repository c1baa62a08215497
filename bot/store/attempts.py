"""Remembers, by mark, what is done once: a letter that was sent to a server, a note that was given, a message that was
read. When the next mark of a scope is written, those older than a month are deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from adk_confirm.runtime.store.database import Tx

KEPT = 30 * 86_400.0


@dataclass(frozen=True)
class EarlierAttempts:
    """When the first attempt began, and how many there were."""

    at: float
    tries: int


def begin_attempt(tx: Tx, scope: str, mark: str) -> EarlierAttempts | None:
    """Notes an attempt, and returns the earlier ones, or None if this is the first. The caller holds the scope's
    lease."""
    before, now = earlier_attempts(tx, scope, mark), tx.now()
    if before is not None:
        tx.run(
            "UPDATE bot_attempts SET tries = tries + 1 WHERE scope = :scope AND mark = :mark", scope=scope, mark=mark
        )
        return before
    tx.run("DELETE FROM bot_attempts WHERE scope = :scope AND at < :before", scope=scope, before=now - KEPT)
    tx.insert("bot_attempts", {"scope": scope, "mark": mark, "at": now, "tries": 1})
    return None


def earlier_attempts(tx: Tx, scope: str, mark: str) -> EarlierAttempts | None:
    found = "SELECT at, tries FROM bot_attempts WHERE scope = :scope AND mark = :mark"
    row = tx.first(found, scope=scope, mark=mark)
    return None if row is None else EarlierAttempts(row.at, row.tries)


def forget_attempt(tx: Tx, scope: str, mark: str) -> None:
    """Deletes the marks of an attempt that is settled: nothing of it is in Slack, or its result is stored."""
    tx.run("DELETE FROM bot_attempts WHERE scope = :scope AND mark = :mark", scope=scope, mark=mark)
