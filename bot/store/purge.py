"""`adk-confirm audit purge`: deletes the contents of sessions that ended before a given day. The ledger still shows
that something happened.

Deleted, session by session: the contents of ledger lines with their salts, confirmations, letters and grants, and the
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
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, delete, exists, false, or_, select, update

from bot.audit.ledger import SYSTEM, LineKind
from bot.audit.purges import group_emptied
from bot.confirmation.effects import Step
from bot.confirmation.model import OutcomeKind, State
from bot.policy.approvers import OPERATOR
from bot.policy.redaction import own_words
from bot.store.ledger_lines import write_step
from bot.store.open import sqlite_file
from bot.store.repository import lock_session, now, save_people, seconds, session_is_sealed
from bot.store.tables import cards, confirmations, grants, ledger, mail, replies, sessions, spoken, threads
from runtime.calls.call import SETTLED
from runtime.errors import Conflict
from runtime.store.database import Database, Tx, for_update
from runtime.store.desk import Writer
from runtime.store.lease import free
from runtime.store.records import InvocationStatus, SessionId
from runtime.store.sessions import delete_session
from runtime.store.tables import calls, invocations, shared_state
from runtime.store.tables import sessions as histories

AT_ONCE = 50
"""How many sessions are purged in one transaction."""

_EVIDENCE = (str(LineKind.PURGED), str(LineKind.CHECKPOINT))
"""Lines that are never emptied: they name nobody, and record what was done to the ledger itself."""


@dataclass(frozen=True, kw_only=True)
class PurgeResult:
    """How many of each kind were purged. `kept`: sessions in use, which were left as they are."""

    lines: int = 0
    confirmations: int = 0
    letters: int = 0
    grants: int = 0
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
    "grants": "grant",
    "histories": "history",
}


async def purge(database: Database, before: datetime) -> PurgeResult:
    done = await database.run(purge_rest, before)
    async for keys in _key_pages(database, before):
        done += await database.run(purge_sessions, keys, before)
    async for names in _own_sessions(database, before):
        done += await database.run(purge_histories, names, before)
    if done.any:
        await _wipe(database)
    return done


def _record(tx: Tx, before: datetime, gone: PurgeResult, emptied: _Lines = ()) -> PurgeResult:
    """Writes the ledger line about a purge, in the purging transaction itself."""
    if gone.any:
        step = Step(kind=LineKind.PURGED, at=now(tx), who=OPERATOR, until=before, text=own_words(str(gone)))
        write_step(tx, SYSTEM, replace(step, emptied=group_emptied(emptied)))
    return gone


_Lines = Sequence[tuple[str, int]]
"""Ledger lines, by chain and number."""


def _empty_lines(tx: Tx, *where: ColumnElement[bool]) -> _Lines:
    forgotten = update(ledger).where(*where, ledger.c.content.is_not(None)).values(content=None, salt=None)
    return [(row.chain, row.seq) for row in tx.execute(forgotten.returning(ledger.c.chain, ledger.c.seq))]


# Data without a session


def purge_rest(tx: Tx, before: datetime) -> PurgeResult:
    with _overwriting(tx):
        at = seconds(before)
        tx.execute(delete(replies).where(replies.c.parked_at < at))
        old = ledger.c.chain == SYSTEM, ledger.c.at < at, ledger.c.kind.not_in(_EVIDENCE)
        emptied = _empty_lines(tx, *old)
        return _record(tx, before, PurgeResult(lines=len(emptied)), emptied)


# Sessions


async def _key_pages(database: Database, before: datetime) -> AsyncIterator[Sequence[str]]:
    after: str | None = ""
    while after is not None:
        keys = await database.read(read_keys, before, after)
        if keys:
            yield keys
        after = keys[-1] if len(keys) == AT_ONCE else None


def read_keys(tx: Tx, before: datetime, after: str) -> Sequence[str]:
    found = select(sessions.c.key).where(sessions.c.created < seconds(before), sessions.c.key > after)
    return tx.execute(found.order_by(sessions.c.key).limit(AT_ONCE)).scalars().all()


def purge_sessions(tx: Tx, keys: Sequence[str], before: datetime) -> PurgeResult:
    with _overwriting(tx):
        emptied: list[tuple[str, int]] = []
        gone = sum((_purge_session(tx, key, seconds(before) or 0.0, emptied) for key in keys), PurgeResult())
        return _record(tx, before, gone, emptied)


def _purge_session(tx: Tx, key: str, at: float, emptied: list[tuple[str, int]]) -> PurgeResult:
    row = tx.execute(for_update(select(sessions).where(sessions.c.key == key))).one()
    if not _has_ended(tx, row, at):
        return PurgeResult(kept=1)
    session = lock_session(tx, key)
    stood = session_is_sealed(tx, session)
    ours = select(confirmations.c.id).where(confirmations.c.session == key)
    tx.execute(delete(cards).where(cards.c.confirmation.in_(ours)))
    lines = _empty_lines(tx, ledger.c.chain == key)
    emptied += lines
    forgotten = _purge_history(tx, SessionId(row.app, row.user_id, row.id), at)
    tx.execute(update(spoken).where(spoken.c.session == key, spoken.c.body.is_not(None)).values(body=None))
    if forgotten:
        # The agent's own record is deleted, so earlier messages no longer matter for whom it acts.
        tx.execute(delete(spoken).where(spoken.c.session == key))
        session = replace(session, speakers=frozenset(), present=frozenset())
    gone = PurgeResult(
        lines=len(lines),
        letters=tx.execute(delete(mail).where(mail.c.session == key)).rowcount,
        grants=tx.execute(delete(grants).where(grants.c.session == key)).rowcount,
        confirmations=tx.execute(delete(confirmations).where(confirmations.c.session == key)).rowcount,
        histories=int(forgotten),
    )
    save_people(tx, session, stood=stood)
    return gone


def _has_ended(tx: Tx, row: Row[*tuple[Any, ...]], at: float) -> bool:
    """Whether nothing happened in the session since that day, and nothing is left to do in it. What was given up is not
    left to do."""
    given_up = row.parked_at is not None
    leased = row.lease_until is not None and row.lease_until > tx.now()
    if leased or (row.due_at is not None and not given_up):
        return False
    unread = mail.c.done_at.is_(None) if not given_up else false()
    in_use = [
        select(confirmations.c.id).where(confirmations.c.session == row.key, ~_SETTLED),
        select(ledger.c.seq).where(ledger.c.chain == row.key, ledger.c.at >= at),
        select(mail.c.id).where(mail.c.session == row.key, or_(mail.c.stored_at >= at, unread)),
        select(grants.c.id).where(grants.c.session == row.key, grants.c.until >= at),
        select(threads.c.session).where(
            threads.c.session == row.key, threads.c.due_at.is_not(None), threads.c.parked_at.is_(None)
        ),
    ]
    return not any(tx.execute(found.limit(1)).first() for found in in_use)


_SETTLED = and_(
    or_(
        confirmations.c.state.in_([State.DENIED, State.EXPIRED, State.WITHDRAWN, State.LAPSED]),
        and_(confirmations.c.state == State.ELSEWHERE, confirmations.c.outcome.is_(None)),
        confirmations.c.outcome.in_(set(OutcomeKind) - {OutcomeKind.RUNNING, OutcomeKind.UNKNOWN}),
    ),
    or_(confirmations.c.due_at.is_(None), confirmations.c.parked_at.is_not(None)),
    ~exists().where(
        cards.c.confirmation == confirmations.c.id, cards.c.due_at.is_not(None), cards.c.parked_at.is_(None)
    ),
)


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
    ours = exists().where(
        sessions.c.app == histories.c.app, sessions.c.user_id == histories.c.user_id, sessions.c.id == histories.c.id
    )
    found = select(histories).where(histories.c.key > after, histories.c.updated < seconds(before), ~ours)
    rows = tx.execute(found.order_by(histories.c.key).limit(AT_ONCE))
    return [(row.key, SessionId(row.app, row.user_id, row.id)) for row in rows]


def purge_histories(tx: Tx, names: Sequence[SessionId], before: datetime) -> PurgeResult:
    with _overwriting(tx):
        gone = sum(_purge_history(tx, name, seconds(before) or 0.0) for name in names)
        return _record(tx, before, PurgeResult(histories=gone))


def _purge_history(tx: Tx, name: SessionId, at: float) -> bool:
    """Deletes one session of our runtime. Returns False if it is gone, or somebody or something still waits in it."""
    open_call = exists().where(calls.c.session == histories.c.key, calls.c.state.not_in([str(s) for s in SETTLED]))
    open_turn = exists().where(
        invocations.c.session == histories.c.key, invocations.c.status != str(InvocationStatus.ENDED)
    )
    of_user = (histories.c.app == name.app, histories.c.user_id == name.user_id)
    found = select(histories.c.key).where(
        *of_user, histories.c.id == name.id, histories.c.updated < at, free(histories, tx.now()), ~open_call, ~open_turn
    )
    if tx.execute(found).first() is None:
        return False
    try:
        delete_session(tx, name, Writer(desk=True))
    except Conflict:
        return False  # somebody came back to it just now
    if tx.execute(select(histories.c.key).where(*of_user).limit(1)).first() is None:
        of_nobody = and_(shared_state.c.app == name.app, shared_state.c.user_id == name.user_id)
        tx.execute(delete(shared_state).where(of_nobody, shared_state.c.user_id != ""))
    return True


# The file


@contextmanager
def _overwriting(tx: Tx) -> Iterator[None]:
    """Makes SQLite overwrite deleted data, which it otherwise leaves in its file."""
    if tx.dialect != "sqlite":
        yield
        return
    tx.connection.exec_driver_sql("PRAGMA secure_delete=ON").close()
    try:
        yield
    finally:
        tx.connection.exec_driver_sql("PRAGMA secure_delete=OFF").close()


async def _wipe(database: Database) -> None:
    """Empties SQLite's write-ahead log, where old pages stay until they are overwritten. A reader may delay this."""
    file = sqlite_file(database.url)
    if file is not None:
        await asyncio.to_thread(_truncate_log, file)


def _truncate_log(path: Path) -> None:
    with closing(sqlite3.connect(path, timeout=_PATIENCE)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


_PATIENCE = 5.0
