"""Which status Slack shows for a session's thread, and which it should show. Transaction functions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from adk_confirm.bot.store.marks import mark_thread_due
from adk_confirm.runtime.jsontypes import as_text
from adk_confirm.runtime.store.database import Tx

SUSPENDED_AFTER = 15.0
"""A call that is decided within this many seconds causes no change of status, which would cost a call to Slack."""


class AgentStatus(StrEnum):
    """The statuses, as Slack names them."""

    PROCESSING = "processing"
    ACTIVE = "active"
    SUSPENDED = "suspended"


@dataclass(frozen=True)
class ShownStatus:
    """What Slack shows (None: the thread is not one of its sessions yet) and should show. `again`: look again in this
    many seconds."""

    shown: AgentStatus | None
    wanted: AgentStatus
    again: float | None = None

    @property
    def change(self) -> AgentStatus | None:
        is_new = self.shown is None and self.wanted is not AgentStatus.ACTIVE
        return self.wanted if is_new or self.shown not in (None, self.wanted) else None


def begin_work(tx: Tx, key: str, letter: int) -> None:
    """Notes that the agent has worked on this letter for a while: people then see that, and can stop it."""
    begun = "UPDATE bot_sessions SET at_work = :letter WHERE key = :key AND thread_ts <> ''"
    if tx.run(begun, key=key, letter=letter):
        mark_thread_due(tx, key)


def keep_at_work(tx: Tx, key: str, letter: int) -> None:
    """Notes that the agent works on this letter from now on, if people still see it at work on another one: they stop
    the run that is under way."""
    kept = "UPDATE bot_sessions SET at_work = :letter WHERE key = :key AND (at_work <> 0 OR status = 'processing')"
    tx.run(kept, key=key, letter=letter)


def end_work(tx: Tx, key: str) -> None:
    """Notes the end of a run that people saw: the thread no longer shows the agent at work."""
    tx.run("UPDATE bot_sessions SET at_work = 0 WHERE key = :key", key=key)
    mark_thread_due(tx, key)


def note_status(tx: Tx, key: str, status: AgentStatus | None) -> None:
    """Stores which status Slack shows now."""
    shown = status and str(status)
    tx.run("UPDATE bot_sessions SET status = :status WHERE key = :key", key=key, status=shown)


def note_stopped(tx: Tx, key: str) -> None:
    """Notes that somebody pressed the stop button. Slack shows it while the agent works, and awaits another status."""
    note_status(tx, key, AgentStatus.PROCESSING)
    mark_thread_due(tx, key)


WAITING_SINCE = "(SELECT min(created) FROM bot_confirmations WHERE session = s.key AND state = 'waiting')"
_STATUS = f"SELECT status, at_work, {WAITING_SINCE} AS waiting_since FROM bot_sessions s WHERE key = :key"  # noqa: S608


def read_status(tx: Tx, key: str) -> ShownStatus:
    row = tx.first(_STATUS, key=key)
    return ShownStatus(None, AgentStatus.ACTIVE) if row is None else status_of(tx, row)


def status_of(tx: Tx, row: Any) -> ShownStatus:
    """The status of a session's thread, from the session's row and `waiting_since` in it."""
    shown = None if row.status is None else AgentStatus(row.status)
    if row.at_work:
        return ShownStatus(shown, AgentStatus.PROCESSING)
    since = row.waiting_since
    wait = 0.0 if since is None else since + SUSPENDED_AFTER - tx.now()
    if wait > 0:  # people may decide in a moment
        turn = AgentStatus.ACTIVE if shown is AgentStatus.PROCESSING else shown
        return ShownStatus(shown, turn or AgentStatus.ACTIVE, again=wait)
    return ShownStatus(shown, AgentStatus.ACTIVE if since is None else AgentStatus.SUSPENDED)


def first_words(tx: Tx, key: str) -> str:
    """What somebody said first in the thread."""
    body = tx.value("SELECT body FROM bot_mail WHERE session = :key AND kind = 'words' ORDER BY id LIMIT 1", key=key)
    return as_text(json.loads(body).get("text")) if body else ""
