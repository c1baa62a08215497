"""Computes which status Slack shows for a session's thread, and which it should show. Transaction functions.

Each status is noted in `attempts` before the call to Slack. After a crash the note says that Slack may show this
status, so the right one is set again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import bindparam, delete, func, insert, select

from bot.confirmation.model import State
from bot.store.attempts import earlier_attempts, forget_attempt
from bot.store.repository import lock_session
from bot.store.slack_lanes import MANY_CARDS, count_due_cards, mark_thread_due
from bot.store.tables import attempts, confirmations, mail, sessions, switches
from runtime.jsontypes import as_text
from runtime.store.database import Tx
from runtime.store.prepared import Prepared

SOON = 1.0
"""Seconds during which the call that shows `processing` may still be under way."""
SUSPENDED_AFTER = 15.0
"""A call that is decided within this many seconds causes no change of status, which would cost a call to Slack."""
LOOK_AGAIN = 5.0
LONGEST_TITLE = 80

_STATUS = "agent status:"
_CLOSE = "agent session closes"
_TITLED = "agent session titled"

_SHOWN = Prepared(
    select(attempts.c.mark, attempts.c.at).where(
        attempts.c.scope == bindparam("key_"), attempts.c.mark.startswith(_STATUS, autoescape=True)
    )
)
_OLDEST_WAITING = Prepared(
    select(func.min(confirmations.c.created).label("at")).where(
        confirmations.c.session == bindparam("key_"), confirmations.c.state == str(State.WAITING)
    )
)
_LAST_WORDS = Prepared(
    select(func.max(mail.c.stored_at).label("at")).where(mail.c.session == bindparam("key_"), mail.c.kind == "words")
)
_LAST_DECIDED = Prepared(
    select(confirmations.c.state, confirmations.c.decided_at)
    .where(confirmations.c.session == bindparam("key_"))
    .order_by(confirmations.c.decided_at.desc())
    .limit(1)
)
_LETTER = Prepared(select(mail.c.id).where(mail.c.session == bindparam("key_"), mail.c.done_at.is_(None)).limit(1))


class AgentStatus(StrEnum):
    """The statuses, as Slack names them."""

    PROCESSING = "processing"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    CLOSED = "closed"


@dataclass(frozen=True)
class StatusChange:
    """The status to set, what was shown before, and the session's title."""

    status: AgentStatus
    before: AgentStatus | None
    title: str


@dataclass(frozen=True)
class NextStatus:
    """The status to set, if any. `again`: look again in this many seconds."""

    change: StatusChange | None = None
    again: float | None = None


def begin_processing(tx: Tx, key: str) -> StatusChange | None:
    """Notes that `processing` is about to be set. None if Slack shows it already. The thread's worker corrects the
    status when the run ends."""
    lock_session(tx, key)
    before = shown_status(tx, key)
    if before is not None and before[0] is AgentStatus.PROCESSING:
        return None
    mark_thread_due(tx, key)
    change = _change_to(tx, key, AgentStatus.PROCESSING)
    _replace_mark(tx, key, change.status)
    return change


def begin_next(tx: Tx, key: str) -> NextStatus:
    """The status to set now, if any. From here on it counts as shown."""
    lock_session(tx, key)
    found = next_status(tx, key)
    if found.change is not None:
        _replace_mark(tx, key, found.change.status)
    return found


def next_status(tx: Tx, key: str) -> NextStatus:
    """The status to set next. Changes nothing."""
    if count_due_cards(tx) > MANY_CARDS:
        return NextStatus(again=LOOK_AGAIN)
    found = shown_status(tx, key)
    status, since = wanted_status(tx, key)
    now = tx.now()
    if status is AgentStatus.PROCESSING:
        return NextStatus(again=LOOK_AGAIN) if found is not None else NextStatus()
    if found is None and status is not AgentStatus.SUSPENDED:
        return NextStatus()
    if found is not None and found[0] is status:
        return NextStatus()
    ready = since + SUSPENDED_AFTER if status is AgentStatus.SUSPENDED else now
    if found is not None and found[0] is AgentStatus.PROCESSING:
        ready = found[1] + SOON
    if ready > now:
        return NextStatus(again=ready - now)
    return NextStatus(_change_to(tx, key, status))


def note_not_changed(tx: Tx, key: str, change: StatusChange) -> None:
    """Records that Slack refused the change and still shows the earlier status."""
    found = shown_status(tx, key)
    if found is not None and found[0] is change.status:
        _replace_mark(tx, key, change.before)


def shown_status(tx: Tx, key: str) -> tuple[AgentStatus, float] | None:
    """The status that Slack shows, and since when. None if the thread is not one of Slack's sessions yet."""
    row = _SHOWN.first(tx, key_=key)
    return None if row is None else (AgentStatus(row.mark.removeprefix(_STATUS)), row.at)


def wanted_status(tx: Tx, key: str) -> tuple[AgentStatus, float]:
    """The status that Slack should show. For `suspended` also since when something has waited."""
    if _is_at_work(tx, key):
        return AgentStatus.PROCESSING, tx.now()
    since = _OLDEST_WAITING.first(tx, key_=key).at
    if since is not None:
        return AgentStatus.SUSPENDED, since
    last_words = _LAST_WORDS.first(tx, key_=key).at or 0.0
    closing = earlier_attempts(tx, key, _CLOSE)
    if closing is not None and closing.at > last_words:
        return AgentStatus.CLOSED, closing.at
    row = _LAST_DECIDED.first(tx, key_=key)
    if row is not None and row.state == str(State.EXPIRED) and (row.decided_at or 0.0) > last_words:
        return AgentStatus.CLOSED, row.decided_at
    return AgentStatus.ACTIVE, tx.now()


def status_after_stream(tx: Tx, key: str) -> AgentStatus | None:
    """The status that Slack should show when a streamed reply ends. None if the thread is not one of its sessions."""
    return None if shown_status(tx, key) is None else wanted_status(tx, key)[0]


def note_shown(tx: Tx, key: str, status: AgentStatus) -> None:
    """Records a status that Slack shows now."""
    lock_session(tx, key)
    _replace_mark(tx, key, status)


def note_run_ended(tx: Tx, key: str) -> None:
    """Makes the thread's worker replace `processing` after a run."""
    found = shown_status(tx, key)
    if found is not None and found[0] is AgentStatus.PROCESSING:
        mark_thread_due(tx, key)


def note_stopped(tx: Tx, key: str) -> None:
    """Makes the thread's worker set a status after somebody pressed stop: Slack shows `processing` until then."""
    _replace_mark(tx, key, AgentStatus.PROCESSING)
    mark_thread_due(tx, key)


def close_purged(tx: Tx, key: str) -> None:
    """Makes Slack show the session as closed, since its messages were purged."""
    found = shown_status(tx, key)
    if found is not None and found[0] is not AgentStatus.CLOSED:
        forget_attempt(tx, key, _CLOSE)
        _mark(tx, key, _CLOSE)
        mark_thread_due(tx, key)


def needs_title(tx: Tx, key: str) -> bool:
    return earlier_attempts(tx, key, _TITLED) is None


def note_titled(tx: Tx, key: str) -> None:
    forget_attempt(tx, key, _TITLED)
    _mark(tx, key, _TITLED)


def title_of(words: str) -> str:
    """
    >>> title_of("<@U0BOT> please  deploy\\ncheckout")
    'please deploy checkout'
    >>> len(title_of("word " * 100))
    75
    """
    title = " ".join(re.sub(r"<[@!#][^>]*>", "", words).split())
    if len(title) <= LONGEST_TITLE:
        return title
    cut = title[: LONGEST_TITLE - 1].rpartition(" ")[0]
    return f"{cut or title[: LONGEST_TITLE - 1]}…"


def _is_at_work(tx: Tx, key: str) -> bool:
    """Whether the agent is at work. A run whose process died counts while its letter waits for another process."""
    if _LETTER.first(tx, key_=key) is None:
        return False
    row = tx.execute(select(sessions.c.lease_until, sessions.c.parked_at).where(sessions.c.key == key)).one()
    if row.lease_until is not None and row.lease_until > tx.now():
        return True
    found = shown_status(tx, key)
    is_paused = tx.execute(select(switches.c.name).where(switches.c.name == "paused")).first() is not None
    was_working = found is not None and found[0] is AgentStatus.PROCESSING
    return was_working and row.parked_at is None and not is_paused


def _change_to(tx: Tx, key: str, status: AgentStatus) -> StatusChange:
    before = shown_status(tx, key)
    return StatusChange(status, None if before is None else before[0], title_of(_first_words(tx, key)))


def _first_words(tx: Tx, key: str) -> str:
    found = select(mail.c.body).where(mail.c.session == key, mail.c.kind == "words").order_by(mail.c.id).limit(1)
    body = tx.execute(found).scalar_one_or_none()
    return as_text(json.loads(body).get("text")) if body else ""


def _replace_mark(tx: Tx, key: str, status: AgentStatus | None) -> None:
    old = delete(attempts).where(attempts.c.scope == key, attempts.c.mark.startswith(_STATUS, autoescape=True))
    tx.execute(old)
    if status is not None:
        _mark(tx, key, f"{_STATUS}{status}")


def _mark(tx: Tx, key: str, mark: str) -> None:
    tx.execute(insert(attempts).values(scope=key, mark=mark, at=tx.now(), tries=1))
