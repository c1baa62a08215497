"""`adk-confirm audit purge`: deletes the contents of sessions that ended before a given day. The ledger still shows
that something happened.

Deleted, session by session: the contents of ledger lines with their salts, confirmations and letters, and the
agent's own record: events, calls, and its notes about people who have no other session.

Kept: each line's kind, time, tool and session, so that every chain still verifies. The same transaction writes a ledger
line that names the lines it emptied. No other line may be empty.

A session is purged as a whole or not at all. It has not ended while work on it is left: words to read, a vote to count,
a run, an answer about an unknown outcome, a card to draw, a grant in force.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path

from adk_confirm.bot.audit.ledger import SYSTEM, LineKind
from adk_confirm.bot.audit.verification import group_emptied
from adk_confirm.bot.confirmation.confirmation import OutcomeKind
from adk_confirm.bot.confirmation.states import Step
from adk_confirm.bot.policy.approvers import OPERATOR
from adk_confirm.bot.policy.redaction import own_words
from adk_confirm.bot.store.audit_log import Progress, unheard
from adk_confirm.bot.store.ledger_rows import write_steps
from adk_confirm.bot.store.open import sqlite_file
from adk_confirm.bot.store.repository import lock_session, now, save_people, seconds, session_is_sealed
from adk_confirm.runtime.errors import Conflict
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.sessions import Writer, delete_session
from adk_confirm.runtime.wire import SessionId

AT_ONCE = 50
"""How many sessions are purged in one transaction."""


@dataclass(frozen=True, kw_only=True)
class PurgeResult:
    """How many of each kind were purged. `kept`: sessions in use, which were left as they are."""

    lines: int = 0
    confirmations: int = 0
    letters: int = 0
    histories: int = 0
    kept: int = 0

    def __add__(self, other: PurgeResult) -> PurgeResult:
        return PurgeResult(
            **{part.name: getattr(self, part.name) + getattr(other, part.name) for part in fields(PurgeResult)}
        )

    def __str__(self) -> str:
        """
        >>> str(PurgeResult(lines=12, confirmations=1, kept=3))
        '12 lines, 1 confirmation'
        """
        return ", ".join(f"{n} {_ONE[name] if n == 1 else name}" for name, n in self._counts if n) or "nothing"

    @property
    def any(self) -> bool:
        return any(n for _, n in self._counts)

    @property
    def _counts(self) -> list[tuple[str, int]]:
        return [(name, getattr(self, name)) for name in _ONE]


_ONE = {
    "lines": "line",
    "confirmations": "confirmation",
    "letters": "letter",
    "histories": "history",
}


async def purge(database: Database, before: datetime, progress: Progress = unheard) -> PurgeResult:
    """Purges what ended before that time. `progress` hears how many more sessions were looked at."""
    done = await database.run(purge_rest, before)
    async for keys in _key_pages(database, before):
        done += await database.run(purge_sessions, keys, before)
        progress(len(keys))
    async for names in _own_sessions(database, before):
        done += await database.run(purge_histories, names, before)
        progress(len(names))
    if done.any:
        await _wipe(database)
    return done


def _record(tx: Tx, before: datetime, gone: PurgeResult, emptied: _Lines = ()) -> PurgeResult:
    """Writes the ledger line about a purge, in the purging transaction itself."""
    if gone.any:
        step = Step(kind=LineKind.PURGED, at=now(tx), who=OPERATOR, until=before, text=own_words(str(gone)))
        write_steps(tx, SYSTEM, replace(step, emptied=group_emptied(emptied)))
    return gone


_Lines = Sequence[tuple[str, int]]
"""Ledger lines, by chain and number."""


# Lines that name nobody, and record what was done to the ledger itself, are never emptied.
_EMPTY_OWN_LINES = """
    UPDATE bot_ledger SET content = NULL, salt = NULL
    WHERE chain = :chain AND at < :at AND kind NOT IN ('purged', 'checkpoint') AND content IS NOT NULL
    RETURNING chain, seq
"""
_EMPTY_LINES = """
    UPDATE bot_ledger SET content = NULL, salt = NULL WHERE chain = :chain AND content IS NOT NULL RETURNING chain, seq
"""


# Data without a session


def purge_rest(tx: Tx, before: datetime) -> PurgeResult:
    with _overwriting(tx):
        at = seconds(before)
        parked = tx.column("DELETE FROM jobs WHERE kind = 'reply' AND parked_at < :at RETURNING key", at=at)
        votes = tx.column(_END_ANSWERS, at=at, parked=parked)
        tx.run("DELETE FROM jobs WHERE kind = 'reply' AND key IN :votes", votes=votes)
        tx.run("DELETE FROM bot_names WHERE seen_at < :at", at=at)
        emptied = [(row.chain, row.seq) for row in tx.all(_EMPTY_OWN_LINES, chain=SYSTEM, at=at)]
        return _record(tx, before, PurgeResult(lines=len(emptied)), emptied)


_END_ANSWERS = """
    DELETE FROM bot_outbox WHERE kind = 'answer' AND (shown_at < :at OR mark IN :parked) RETURNING mark
"""


# Sessions


async def _key_pages(database: Database, before: datetime) -> AsyncIterator[Sequence[str]]:
    after: str | None = ""
    while after is not None:
        keys = await database.read(read_keys, before, after)
        if keys:
            yield keys
        after = keys[-1] if len(keys) == AT_ONCE else None


def count_sessions(tx: Tx, before: datetime) -> int:
    """About how many sessions a purge has to look at."""
    at = seconds(before)
    slack: int = tx.value("SELECT count(*) FROM bot_sessions WHERE created < :at", at=at)
    own: int = tx.value("SELECT count(*) FROM runtime_sessions WHERE updated < :at AND id NOT LIKE 'slack-%'", at=at)
    return slack + own


def read_keys(tx: Tx, before: datetime, after: str) -> Sequence[str]:
    found = "SELECT key FROM bot_sessions WHERE created < :before AND key > :after ORDER BY key LIMIT :most"
    return tx.column(found, before=seconds(before), after=after, most=AT_ONCE)


def purge_sessions(tx: Tx, keys: Sequence[str], before: datetime) -> PurgeResult:
    with _overwriting(tx):
        emptied: list[tuple[str, int]] = []
        gone = sum((_purge_session(tx, key, seconds(before) or 0.0, emptied) for key in keys), PurgeResult())
        return _record(tx, before, gone, emptied)


_OF_CONFIRMATIONS = (
    """
    DELETE FROM jobs
    WHERE (kind IN ('session', 'thread') AND key = :key)
       OR (kind IN ('confirmation', 'card') AND key IN (SELECT id FROM bot_confirmations WHERE session = :key))
    """,
    "DELETE FROM bot_attempts WHERE scope = :key OR scope IN (SELECT id FROM bot_confirmations WHERE session = :key)",
    "DELETE FROM bot_waiting WHERE confirmation IN (SELECT id FROM bot_confirmations WHERE session = :key)",
)


def _purge_session(tx: Tx, key: str, at: float, emptied: list[tuple[str, int]]) -> PurgeResult:
    session = lock_session(tx, key)
    if not _has_ended(tx, key, at):
        return PurgeResult(kept=1)
    stood = session_is_sealed(tx, session)
    for statement in _OF_CONFIRMATIONS:
        tx.run(statement, key=key)
    lines = [(line.chain, line.seq) for line in tx.all(_EMPTY_LINES, chain=key)]
    emptied += lines
    forgotten = _purge_history(tx, session.session, at)
    tx.run(_EMPTY_WORDS, key=key, now=tx.now())
    if forgotten:
        # The agent's own record is deleted, so the agent no longer acts for people who wrote to it before.
        tx.run("DELETE FROM bot_outbox WHERE session = :key AND kind = 'words'", key=key)
        session = replace(session, speakers=frozenset(), present=frozenset())
    gone = PurgeResult(
        lines=len(lines),
        letters=tx.run("DELETE FROM bot_mail WHERE session = :key", key=key),
        confirmations=tx.run("DELETE FROM bot_confirmations WHERE session = :key", key=key),
        histories=int(forgotten),
    )
    save_people(tx, session, stood=stood)
    return gone


_EMPTY_WORDS = """
    UPDATE bot_outbox SET body = NULL, shown_at = :now WHERE session = :key AND kind = 'words' AND body IS NOT NULL
"""


def _has_ended(tx: Tx, key: str, at: float) -> bool:
    """Whether nothing happened in the session since that day, and nothing is left to do in it. Work that was given
    up does not count."""
    return tx.first(_IN_USE, key=key, at=at, now=tx.now(), ended=_ENDED) is None


_ENDED = [str(kind) for kind in OutcomeKind if kind not in (OutcomeKind.RUNNING, OutcomeKind.UNKNOWN)]
_IN_USE = """
    SELECT 1 FROM jobs
    WHERE (
        (kind IN ('session', 'thread') AND key = :key)
        OR (kind IN ('confirmation', 'card') AND key IN (SELECT id FROM bot_confirmations WHERE session = :key))
    )
      AND (lease_until > :now OR (due_at IS NOT NULL AND parked_at IS NULL))
    UNION ALL SELECT 1 FROM bot_confirmations WHERE session = :key AND NOT (
        state IN ('denied', 'expired', 'withdrawn', 'lapsed')
        OR (state = 'elsewhere' AND outcome IS NULL)
        OR coalesce(outcome, '') IN :ended
    )
    UNION ALL SELECT 1 FROM bot_ledger WHERE chain = :key AND at >= :at
    UNION ALL SELECT 1 FROM bot_mail WHERE session = :key AND (stored_at >= :at OR (done_at IS NULL AND NOT EXISTS (
        SELECT 1 FROM jobs WHERE kind = 'session' AND key = :key AND parked_at IS NOT NULL
    )))
    UNION ALL SELECT 1 FROM bot_confirmations WHERE session = :key AND granted_until >= :at
    LIMIT 1
"""


# The agent's own record


async def _own_sessions(database: Database, before: datetime) -> AsyncIterator[Sequence[SessionId]]:
    """Sessions of our runtime that did not come from Slack."""
    after: int | None = -1
    while after is not None:
        found = await database.read(read_histories, before, after)
        if found:
            yield [name for _, name in found]
        after = found[-1][0] if len(found) == AT_ONCE else None


def read_histories(tx: Tx, before: datetime, after: int) -> Sequence[tuple[int, SessionId]]:
    found = """
        SELECT key, app, user_id, id FROM runtime_sessions h
        WHERE key > :after AND updated < :before AND NOT EXISTS (
            SELECT 1 FROM bot_sessions b WHERE b.app = h.app AND b.user_id = h.user_id AND b.id = h.id
        )
        ORDER BY key LIMIT :most
    """
    rows = tx.all(found, after=after, before=seconds(before), most=AT_ONCE)
    return [(row.key, SessionId(row.app, row.user_id, row.id)) for row in rows]


def purge_histories(tx: Tx, names: Sequence[SessionId], before: datetime) -> PurgeResult:
    with _overwriting(tx):
        gone = sum(_purge_history(tx, name, seconds(before) or 0.0) for name in names)
        return _record(tx, before, PurgeResult(histories=gone))


def _purge_history(tx: Tx, name: SessionId, at: float) -> bool:
    """Deletes one session of our runtime. Returns False if it is gone, or somebody or something still waits in it."""
    user = {"app": name.app, "user_id": name.user_id}
    if tx.first(_OVER, **user, id=name.id, at=at) is None:
        return False
    try:
        delete_session(tx, name, Writer(desk=True))
    except Conflict:
        return False  # somebody came back to it just now
    if tx.first("SELECT 1 FROM runtime_sessions WHERE app = :app AND user_id = :user_id LIMIT 1", **user) is None:
        # What is kept for '' is the whole app's.
        tx.run("DELETE FROM runtime_shared_state WHERE app = :app AND user_id = :user_id AND user_id <> ''", **user)
    return True


_OVER = """
    SELECT 1 FROM runtime_sessions h
    WHERE app = :app AND user_id = :user_id AND id = :id AND updated < :at
      AND NOT EXISTS (SELECT 1 FROM runtime_calls WHERE session = h.key AND state NOT IN ('done', 'refused'))
      AND NOT EXISTS (SELECT 1 FROM runtime_invocations WHERE session = h.key AND status <> 'ended')
"""


# The file


@contextmanager
def _overwriting(tx: Tx) -> Iterator[None]:
    """Makes SQLite overwrite deleted data, which it otherwise leaves in its file."""
    if tx.dialect != "sqlite":
        yield
        return
    tx.first("PRAGMA secure_delete=ON")
    try:
        yield
    finally:
        tx.first("PRAGMA secure_delete=OFF")


async def _wipe(database: Database) -> None:
    """Empties SQLite's write-ahead log, where old pages stay until they are overwritten. A reader may delay this."""
    file = sqlite_file(database.url)
    if file is not None:
        await asyncio.to_thread(_truncate_log, file)


def _truncate_log(path: Path) -> None:
    with closing(sqlite3.connect(path, timeout=_PATIENCE)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


_PATIENCE = 5.0
