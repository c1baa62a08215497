"""What must still be shown of a session: ledger lines and the agent's messages in its thread, and to voters the answers
to their votes. Transaction functions.

A run stores messages here and the thread worker posts them. Each message comes after the ledger line that was the last
when it was stored. Its text is kept until it is posted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from adk_confirm.bot.audit.ledger import LedgerLine, LineKind
from adk_confirm.bot.confirmation.confirmation import Confirmation, Seat
from adk_confirm.bot.confirmation.states import Verdict
from adk_confirm.bot.confirmation.stored_json import from_json, to_json
from adk_confirm.bot.hosts.host import AgentMessage, UnansweredWait
from adk_confirm.bot.store.agent_status import WAITING_SINCE, AgentStatus, ShownStatus, status_of
from adk_confirm.bot.store.cast_vote import ANSWERED, TRIES
from adk_confirm.bot.store.ledger_rows import find_head, is_told, lines_to_tell
from adk_confirm.bot.store.marks import CARD_UNDER_WAY, SLACK_IS_LATE, earlier_attempt, mark_thread_due
from adk_confirm.bot.store.repository import Session, lock_session, now, session_confirmations, session_of
from adk_confirm.bot.store.sealed_rows import storable
from adk_confirm.runtime.errors import NotFound
from adk_confirm.runtime.jsontypes import canonical
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.jobs import lock_job, settle

_COPIES = "copies"


@dataclass(frozen=True)
class NextPost:
    """What to post next: ledger lines in one message, an agent's message, or both in this order. `retry`: the letter
    that failed, for "Try again". `into`: the message that showed the reply while it was written."""

    lines: Sequence[LedgerLine] = ()
    said: AgentMessage | None = None
    retry: str | None = None
    into: str | None = None

    @property
    def tells(self) -> bool:
        """Whether the thread shows one of the lines, so that they come first."""
        return any(map(is_told, self.lines))


def say_later(tx: Tx, key: str, said: AgentMessage) -> bool:
    return say(tx, key, NextPost(said=said))


def say(tx: Tx, key: str, post: NextPost) -> bool:
    """Stores an agent's message for posting, and returns whether it is new."""
    said = post.said
    assert said is not None
    lock_session(tx, key)
    said = replace(said, event=storable(said.event))
    body = to_json(replace(post, said=said), exclude_defaults=True)
    row = {"session": key, "kind": "words", "mark": said.event, "body": body, "after_seq": find_head(tx, key).seq}
    is_new = tx.insert("bot_outbox", row, if_absent=True)
    if is_new:
        mark_thread_due(tx, key)
    return is_new


@dataclass(frozen=True)
class Unanswered:
    """An agent waits for something that can't be answered from this app."""

    kind: str


def say_waits(tx: Tx, key: str, waits: UnansweredWait) -> None:
    """Says in the thread, once, what an agent waits for, and counts it."""
    if say_later(tx, key, waits.said):
        tx.report(Unanswered(waits.kind))


_NEXT_WORDS = """
    SELECT body, after_seq FROM bot_outbox
    WHERE session = :key AND kind = 'words' AND shown_at IS NULL ORDER BY id LIMIT 1
"""


def _next_post(tx: Tx, key: str, posted: int) -> NextPost | None:
    words = tx.first(_NEXT_WORDS, key=key)
    lines = lines_to_tell(tx, key, posted)
    if words is None:
        return NextPost(lines=lines) if any(map(is_told, lines)) else None
    before = [line for line in lines if line.seq <= words.after_seq]
    return replace(from_json(NextPost, words.body), lines=before)


def note_possible_copies(tx: Tx, key: str, late: float = 0.0) -> None:
    """Makes the thread's next lease holder look for messages that should not be there: those of a process that lost
    its lease or died, and those that showed a reply while it was written and do not hold it now. `late`: seconds in
    which Slack may still show them. The last note counts: an older one knows nothing of what came since."""
    note_lost_answer(tx, key, late)
    mark_thread_due(tx, key)


def note_lost_answer(tx: Tx, key: str, late: float = 0.0) -> None:
    """Like `note_possible_copies`, for a post of the lease's holder that got no answer: it is posted again, so it may
    be there twice. The thread is due anyway, after a pause."""
    tx.run(
        """
        INSERT INTO bot_attempts (scope, mark, at) VALUES (:key, :mark, :at)
        ON CONFLICT (scope, mark) DO UPDATE SET at = excluded.at
        """,
        key=key,
        mark=_COPIES,
        at=tx.now() + late,
    )


def copies_until(tx: Tx, key: str) -> float | None:
    """When something may have been posted that should not be there, or None."""
    return earlier_attempt(tx, key, _COPIES)


def note_copy_search(tx: Tx, key: str) -> None:
    """Notes a search for copies. There is a second one if Slack may still have been processing what was sent
    before."""
    # In one statement, since another replica may just be noting a newer doubt.
    ended = "DELETE FROM bot_attempts WHERE scope = :key AND mark = :mark AND at <= :before"
    tx.run(ended, key=key, mark=_COPIES, before=tx.now() - SLACK_IS_LATE)


def spoken_events(tx: Tx, key: str) -> set[str]:
    """The ids of the agent's events that are posted in the thread, or will be."""
    return set(tx.column("SELECT mark FROM bot_outbox WHERE session = :key AND kind = 'words'", key=key))


def mark_posted(tx: Tx, key: str, seq: int | None, said: str | None = None) -> None:
    """Marks the lines up to `seq`, what the agent said with an event, or both as posted."""
    if seq is not None:
        posted_up_to(tx, key, seq)
    if said is not None:
        tx.run(_SHOWN, key=key, event=storable(said), now=tx.now())


_SHOWN = """
    UPDATE bot_outbox SET body = NULL, shown_at = :now WHERE session = :key AND kind = 'words' AND mark = :event
"""


def posted_up_to(tx: Tx, key: str, seq: int) -> None:
    tx.run("UPDATE bot_sessions SET told_seq = :seq WHERE key = :key AND told_seq < :seq", key=key, seq=seq)


def thread_is_behind(tx: Tx, key: str) -> bool:
    """Whether lines or messages wait to be posted. New messages are posted after them."""
    posted = tx.value("SELECT told_seq FROM bot_sessions WHERE key = :key", key=key)
    return _next_post(tx, key, posted) is not None


_REFUSALS = "SELECT seq, content FROM bot_ledger WHERE confirmation = :confirmation AND kind = :kind ORDER BY seq"


def third_tries(tx: Tx, lines: Sequence[LedgerLine]) -> frozenset[int]:
    """The numbers of lines that record a person's third refused vote on a card."""
    refused = [line for line in lines if line.kind is LineKind.VOTE_REFUSED and line.confirmation is not None]
    thirds: set[int] = set()
    for confirmation in {line.confirmation for line in refused}:
        tries: Counter[str] = Counter()
        for seq, content in tx.all(_REFUSALS, confirmation=confirmation, kind=str(LineKind.VOTE_REFUSED)):
            who = canonical(json.loads(content or "{}").get("who"))
            tries[who] += 1
            if tries[who] == TRIES:
                thirds.add(seq)
    return frozenset(thirds & {line.seq for line in refused})


@dataclass(frozen=True)
class ThreadLook:
    """A thread at one moment. `rows`: the session's confirmations, if something is to be posted. `card_under_way`: a
    card of the session is about to be posted. `copies_until`: when something may have been posted that should not be
    there, or None. `up_to_date`: nothing is left to do, and that is stored."""

    at: datetime
    session: Session
    rows: tuple[Confirmation, ...]
    next_post: NextPost | None
    card_under_way: bool
    copies_until: float | None
    status: ShownStatus
    up_to_date: bool = False


_THREAD = f"""
    SELECT s.*, {WAITING_SINCE} AS waiting_since, {CARD_UNDER_WAY} AS card_under_way,
        (SELECT at FROM bot_attempts WHERE scope = s.key AND mark = :copies) AS copies_until
    FROM bot_sessions s WHERE key = :key
"""  # noqa: S608


def look_at_thread(tx: Tx, key: str) -> ThreadLook:
    found = tx.first(_THREAD, key=key, now=tx.now(), copies=_COPIES)
    if found is None:
        raise NotFound(f"There is no session {key}.")
    session = session_of(found)
    post = _next_post(tx, key, session.told_seq)
    return ThreadLook(
        at=now(tx),
        session=session,
        rows=() if post is None else tuple(session_confirmations(tx, key)),
        next_post=post,
        card_under_way=bool(found.card_under_way),
        copies_until=found.copies_until,
        status=status_of(tx, found),
    )


@dataclass(frozen=True)
class ThreadDone:
    """What was done in a thread while its lease is held. `seq`, `said`: the line and the agent's event that were posted
    last. `searched`: copies were looked for. `asked`: the status that Slack was asked to show."""

    seq: int | None = None
    said: str | None = None
    searched: bool = False
    asked: AgentStatus | None = None


def note_and_look(tx: Tx, key: str, done: ThreadDone) -> ThreadLook:
    """Stores what was done, and looks at the thread. If nothing is left, the thread is due when something will be."""
    lock_job(tx, "thread", key)
    mark_posted(tx, key, done.seq, done.said)
    look = look_at_thread(tx, key)
    searches = look.copies_until is not None
    if look.next_post or (searches and not done.searched) or look.status.change not in (None, done.asked):
        return look
    if searches:
        note_copy_search(tx, key)
    doubt = copies_until(tx, key) if searches else None
    times = [
        None if doubt is None else doubt + SLACK_IS_LATE,
        None if look.status.again is None else tx.now() + look.status.again,
    ]
    settle(tx, "thread", key, min((at for at in times if at is not None), default=None), owner=key)
    return replace(look, up_to_date=True)


# Answers to votes: each is for its voter alone, and a job shows it


def read_answer(tx: Tx, vote: str) -> tuple[Seat, Verdict]:
    """Reads where to show an answer, and the answer."""
    row = tx.first(_ANSWER, vote=vote)
    seat = from_json(Seat, row.seat)
    if row.owed_since is not None:
        seat = replace(seat, trigger="")  # it was put off: a trigger lives for three seconds
    return seat, from_json(Verdict, row.body)


_ANSWER = """
    SELECT o.seat, o.body, j.owed_since FROM jobs j
    JOIN bot_outbox o ON o.session = j.owner AND o.kind = 'answer' AND o.mark = j.key
    WHERE j.kind = 'reply' AND j.key = :vote
"""


def note_answered(tx: Tx, vote: str) -> None:
    """Marks an answer as shown. The row is kept for a day, to recognise the same click if Slack delivers it again."""
    now = tx.now()
    tx.run(ANSWERED, vote=vote, now=now)
    settle(tx, "reply", vote)
    old = tx.column("DELETE FROM bot_outbox WHERE kind = 'answer' AND shown_at < :old RETURNING mark", old=now - 86_400)
    tx.run("DELETE FROM jobs WHERE kind = 'reply' AND key IN :votes", votes=old)
