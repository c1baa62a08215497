"""`adk-confirm audit purge`: deletes content from before a given day. The ledger still shows that something happened.

Deleted, session by session: the contents of ledger lines with their salts, confirmations that had ended, and their
letters and grants. If nothing happened in a session since that day, the agent's own record is deleted too: events,
calls, and its notes about people who have no other session.

Kept: each line's kind, time, tool and session, so that every chain still verifies. The same transaction writes a ledger
line that names the lines it emptied. No other line may be empty.

Nothing of a confirmation is deleted while work on it is left: a vote to count, a run, an answer about an unknown
outcome, a card to draw.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path

from sqlalchemy import ColumnElement, Table, and_, delete, exists, func, or_, select, true, update

from bot.audit.ledger import SYSTEM, LineKind
from bot.audit.purges import group_emptied
from bot.confirmation.effects import Step
from bot.confirmation.model import OutcomeKind, State
from bot.policy.approvers import OPERATOR
from bot.policy.redaction import own_words
from bot.store.ledger_lines import write_step
from bot.store.open import sqlite_file
from bot.store.repository import lock_session, now, save_people, seconds, session_is_sealed
from bot.store.sealed_rows import letter_fingerprint, letter_is_sealed
from bot.store.tables import cards, confirmations, grants, homes, ledger, mail, replies, sessions, spoken, threads
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
    """How many of each kind were purged, or would be. `kept`: sessions in use, which keep what they need."""

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
    planned = await plan(database, before)
    if not planned.any:
        return planned
    done = await database.run(purge_rest, before, dry_run=False)
    async for part in _key_pages(database, before):
        done += await database.run(purge_sessions, part, before, dry_run=False)
    async for names in _own_sessions(database, before):
        done += PurgeResult(histories=await database.run(purge_histories, names, before, dry_run=False))
    await _wipe(database)
    return done


async def plan(database: Database, before: datetime) -> PurgeResult:
    """What a purge would remove. Changes nothing."""
    found = await database.read(purge_rest, before, dry_run=True)
    async for part in _key_pages(database, before):
        found += await database.read(purge_sessions, part, before, dry_run=True)
    async for names in _own_sessions(database, before):
        found += PurgeResult(histories=await database.read(purge_histories, names, before, dry_run=True))
    return found


def _record(tx: Tx, before: datetime, gone: PurgeResult, lines: _Lines) -> PurgeResult:
    """Writes the ledger line about a purge, in the purging transaction itself."""
    if gone.any and not lines.dry_run:
        step = Step(kind=LineKind.PURGED, at=now(tx), who=OPERATOR, until=before, text=own_words(str(gone)))
        write_step(tx, SYSTEM, replace(step, emptied=group_emptied(lines.gone)))
    return gone


@dataclass
class _Lines:
    """The ledger lines that one transaction empties."""

    tx: Tx
    dry_run: bool
    gone: list[tuple[str, int]] = field(default_factory=list)

    def empty(self, where: Sequence[ColumnElement[bool]]) -> int:
        if self.dry_run:
            return _delete_or_count(self.tx, ledger, where, dry_run=True)
        forgotten = update(ledger).where(*where).values(content=None, salt=None)
        found = self.tx.execute(forgotten.returning(ledger.c.chain, ledger.c.seq)).all()
        self.gone += [(row.chain, row.seq) for row in found]
        return len(found)


# Data without a session


def purge_rest(tx: Tx, before: datetime, *, dry_run: bool) -> PurgeResult:
    with _overwriting(tx, dry_run=dry_run):
        at, lines = seconds(before), _Lines(tx, dry_run)
        old = [ledger.c.chain == SYSTEM, ledger.c.at < at, ledger.c.content.is_not(None)]
        old.append(ledger.c.kind.not_in(_EVIDENCE))
        _delete_or_count(tx, replies, [replies.c.parked_at < at], dry_run=dry_run)
        # The row is created again when the person opens the tab.
        _delete_or_count(tx, homes, [homes.c.opened_at < at, homes.c.looked_at < at], dry_run=dry_run)
        return _record(tx, before, PurgeResult(lines=lines.empty(old)), lines)


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


def purge_sessions(tx: Tx, keys: Sequence[str], before: datetime, *, dry_run: bool) -> PurgeResult:
    with _overwriting(tx, dry_run=dry_run):
        lines = _Lines(tx, dry_run)
        gone = sum((_purge_session(tx, key, before, lines, dry_run=dry_run) for key in keys), PurgeResult())
        return _record(tx, before, gone, lines)


def _purge_session(tx: Tx, key: str, before: datetime, lines: _Lines, *, dry_run: bool) -> PurgeResult:
    found = select(sessions).where(sessions.c.key == key)
    row = tx.execute(found if dry_run else for_update(found)).one()
    at, given_up = seconds(before) or 0.0, row.parked_at is not None
    leased = row.lease_until is not None and row.lease_until > tx.now()
    if leased or (row.due_at is not None and not given_up) or _has_unposted(tx, key):
        return PurgeResult(kept=1)
    kept = (
        tx.execute(select(confirmations.c.id).where(confirmations.c.session == key, ~_ended_before(at))).scalars().all()
    )
    ended = not kept and not _is_recent(tx, key, at) and (given_up or not _has_letters(tx, key))
    over = [confirmations.c.session == key, _ended_before(at)]
    session = lock_session(tx, key) if ended and not dry_run else None
    stood = session is not None and session_is_sealed(tx, session)
    if not dry_run:
        tx.execute(delete(cards).where(cards.c.confirmation.in_(select(confirmations.c.id).where(*over))))
    gone = PurgeResult(
        lines=lines.empty(_lines(key, at, kept)),
        letters=_delete_letters(tx, _letters(key, at, kept, ended=ended), ended=ended, dry_run=dry_run),
        grants=_delete_or_count(tx, grants, _grants(key, at, kept), dry_run=dry_run),
        confirmations=_delete_or_count(tx, confirmations, over, dry_run=dry_run),
        kept=0 if ended else 1,
    )
    if not ended:
        return gone
    forgotten = _purge_history(tx, SessionId(row.app, row.user_id, row.id), at, dry_run=dry_run)
    if session is not None:
        tx.execute(update(spoken).where(spoken.c.session == key, spoken.c.body.is_not(None)).values(body=None))
        if forgotten:
            # The agent's own record is deleted, so earlier messages no longer matter for whom it acts.
            tx.execute(delete(spoken).where(spoken.c.session == key))
            session = replace(session, speakers=frozenset(), present=frozenset())
        save_people(tx, session, stood=stood)
    return gone + PurgeResult(histories=1 if forgotten else 0)


def _delete_letters(tx: Tx, where: Sequence[ColumnElement[bool]], *, ended: bool, dry_run: bool) -> int:
    """Deletes or empties letters. A session in use keeps them without text, but with the names of who spoke."""
    if ended or dry_run:
        return _delete_or_count(tx, mail, where, None if ended else _EMPTY, dry_run=dry_run)
    letters = tx.execute(select(mail).where(*where)).all()
    for letter in letters:
        sealed = letter_fingerprint(tx, {**letter._mapping, **_EMPTY}) if letter_is_sealed(tx, letter) else ""
        tx.execute(update(mail).where(mail.c.id == letter.id).values(**_EMPTY, sealed=sealed))
    return len(letters)


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


def _ended_before(at: float) -> ColumnElement[bool]:
    """Whether the whole confirmation ended before that day. It is deleted as a whole."""
    later = exists().where(ledger.c.confirmation == confirmations.c.id, ledger.c.at >= at)
    return and_(_SETTLED, confirmations.c.created < at, ~later)


def _lines(key: str, at: float, kept: Sequence[str]) -> list[ColumnElement[bool]]:
    of_none = or_(ledger.c.confirmation.is_(None), ledger.c.confirmation.not_in(kept))
    return [ledger.c.chain == key, ledger.c.at < at, ledger.c.content.is_not(None), of_none]


def _letters(key: str, at: float, kept: Sequence[str], *, ended: bool) -> list[ColumnElement[bool]]:
    """The letters that can be emptied. A session in use keeps the rows, because it may still matter who spoke last."""
    of_none = or_(mail.c.confirmation.is_(None), mail.c.confirmation.not_in(kept))
    read = true() if ended else and_(mail.c.done_at.is_not(None), mail.c.body != _EMPTY["body"])
    return [mail.c.session == key, mail.c.stored_at < at, of_none, read]


def _grants(key: str, at: float, kept: Sequence[str]) -> list[ColumnElement[bool]]:
    return [grants.c.session == key, grants.c.until < at, grants.c.id.not_in(kept)]


def _is_recent(tx: Tx, key: str, at: float) -> bool:
    lines = select(ledger.c.seq).where(ledger.c.chain == key, ledger.c.at >= at).limit(1)
    letters = select(mail.c.id).where(mail.c.session == key, mail.c.stored_at >= at).limit(1)
    return tx.execute(lines).first() is not None or tx.execute(letters).first() is not None


def _has_unposted(tx: Tx, key: str) -> bool:
    """Whether something must still be posted in the thread and has not been given up."""
    owed = threads.c.due_at.is_not(None), threads.c.parked_at.is_(None)
    return tx.execute(select(threads.c.session).where(threads.c.session == key, *owed)).first() is not None


def _has_letters(tx: Tx, key: str) -> bool:
    waiting = select(mail.c.id).where(mail.c.session == key, mail.c.done_at.is_(None)).limit(1)
    return tx.execute(waiting).first() is not None


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


def purge_histories(tx: Tx, names: Sequence[SessionId], before: datetime, *, dry_run: bool) -> int:
    at = seconds(before) or 0.0
    with _overwriting(tx, dry_run=dry_run):
        gone = sum(_purge_history(tx, name, at, dry_run=dry_run) for name in names)
        return _record(tx, before, PurgeResult(histories=gone), _Lines(tx, dry_run)).histories


def _purge_history(tx: Tx, name: SessionId, at: float, *, dry_run: bool) -> bool:
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
    if dry_run:
        return True
    try:
        delete_session(tx, name, Writer(desk=True))
    except Conflict:
        return False  # somebody came back to it just now
    if tx.execute(select(histories.c.key).where(*of_user).limit(1)).first() is None:
        of_nobody = and_(shared_state.c.app == name.app, shared_state.c.user_id == name.user_id)
        tx.execute(delete(shared_state).where(of_nobody, shared_state.c.user_id != ""))
    return True


# Deleting rows

_EMPTY: dict[str, str | None] = {"body": "{}"}


def _delete_or_count(
    tx: Tx,
    table: Table,
    where: Sequence[ColumnElement[bool]],
    values: dict[str, str | None] | None = None,
    *,
    dry_run: bool,
) -> int:
    """Counts the rows that are deleted or emptied, and does so unless this is a plan."""
    if dry_run:
        counted: int = tx.execute(select(func.count()).select_from(table).where(*where)).scalar_one()
        return counted
    change = delete(table) if values is None else update(table).values(values)
    return int(tx.execute(change.where(*where)).rowcount)


@contextmanager
def _overwriting(tx: Tx, *, dry_run: bool) -> Iterator[None]:
    """Makes SQLite overwrite deleted data, which it otherwise leaves in its file."""
    if dry_run or tx.dialect != "sqlite":
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
