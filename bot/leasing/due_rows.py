"""Finds the rows that are due, decides whose turn it is, and claims them by lease.

A loop asks after every change, many times in the life of one confirmation, so the statements are compiled once.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Column, ColumnElement, Double, Integer, String, Table, bindparam, literal, select, update

from runtime.store.database import Tx, for_update
from runtime.store.lease import Lease, free
from runtime.store.prepared import Prepared

SKIPPED = 0.05
_LOOKED_AT = 1000
"""How many due rows are considered when choosing whose turn it is."""

_NOBODYS = " "
"""Prefix for the turn of a row that belongs to nobody. No name begins like this."""

_NO_ROWS: Mapping[str, str] = {}

Turn = ColumnElement[str] | ColumnElement[str | None] | None


def _no_deadline(tx: Tx, key: str) -> None:  # noqa: ARG001  (what `RowKind.deadline` is, by default)
    return None


def _no_context(key: str) -> AbstractContextManager[None]:  # noqa: ARG001  (what `RowKind.about` is, by default)
    return nullcontext()


@dataclass(frozen=True)
class ClaimedRow:
    """A row that this process has claimed. `due_at` is when it was due, `turn` whose turn it takes. `left`: another
    process had it and did not release it."""

    token: str
    due_at: float
    turn: str = ""
    left: bool = False


@dataclass(frozen=True)
class RowKind:
    """One kind of row that needs attention. `attend` does everything that is due for one row. It may write only through
    the row's lease.

    `deadline` says when a row must be processed even if it was put off for longer, or parked. `turn` is the column that
    says whose a row is: rows of one person or thread get half of the slots at most, so that hundreds of them delay
    nobody else. `overtaken` is called when a row's lease passes to another process without a release: by the new
    holder, and by the former one once it notices, since its last message may reach Slack after those of the new holder.
    Rows that `can_wait` are claimed after people's clicks.
    """

    table: Table
    key: Column[str] | Column[int]
    topic: str
    attend: Callable[[str, Lease], Awaitable[None]]
    at_once: int = 64
    deadline: Callable[[Tx, str], float | None] = _no_deadline
    log_context: Callable[[str], AbstractContextManager[None]] = _no_context  # how log lines name a row
    turn: Turn = None
    reserved: int = 0
    can_wait: bool = False
    overtaken: Callable[[Tx, str], None] | None = None

    @property
    def most_in_turn(self) -> int:
        """How many rows that belong to somebody may be processed at once."""
        return self.at_once - self.reserved

    @property
    def most_each(self) -> int:
        return max(1, self.most_in_turn // 2)


def claim_due(
    tx: Tx, kind: RowKind, room: int, term: float, at_work: Mapping[str, str] = _NO_ROWS
) -> tuple[list[tuple[str, ClaimedRow]], float | None]:
    """Claims the most overdue rows that nobody processes. Also returns the seconds until the next row may be claimed: 0
    if there was no room for more, None if no other row is waiting.

    Rows that are `at_work` here, by key and by turn, are left alone: if this process was frozen for longer than its
    leases, they have expired although the work goes on.
    """
    statements, now = _statements(kind.table, kind.key, kind.turn), tx.now()
    due = statements.due.all(tx, now=now, most=room + len(at_work))
    found = [row for row in due if str(row.key) not in at_work][:room]
    if kind.turn is not None and (len(found) == room or _exceeds_share([*map(_turn_of, found)], kind, at_work)):
        found = _lock_in_turn(tx, kind, statements, room, at_work)
    token, until = secrets.token_hex(16), now + term
    if found:
        statements.claim.many(tx, [{"row": row.key, "token": token, "until": until} for row in found])
    claimed = [
        (str(row.key), ClaimedRow(token, row.due_at, _turn_of(row), row.lease_token is not None)) for row in found
    ]
    if len(claimed) == room:
        return claimed, 0.0
    ours = at_work.keys() | {key for key, _ in claimed}
    soon = (statements.next_due.all(tx, now=now, most=len(ours) + 1), statements.next_lapse.all(tx, most=len(ours) + 1))
    times = [at for rows in soon for key, at in rows if str(key) not in ours]
    # A row that is due but was not claimed is locked by a transaction right now. It will be free in a moment, unless
    # that process is frozen. The loop looks for that.
    return claimed, max(min(times) - now, SKIPPED) if times else None


@dataclass(frozen=True)
class _Statements:
    due: Prepared  # the most overdue rows that nobody holds, locked
    looked_at: Prepared  # the same, not locked
    claim: Prepared
    next_due: Prepared
    next_lapse: Prepared


@cache
def _statements(table: Table, key: Column[str] | Column[int], turn: Turn) -> _Statements:
    now, most = bindparam("now", type_=Double), bindparam("most", type_=Integer)
    row = bindparam("row", type_=key.type)
    is_due = table.c.due_at <= now, free(table, now)
    whose = literal(None).label("turn") if turn is None else turn.label("turn")
    due = (
        select(key.label("key"), table.c.due_at, table.c.lease_token, whose)
        .where(*is_due)
        .order_by(table.c.due_at)
        .limit(most)
    )
    next_due = select(key, table.c.due_at).where(table.c.due_at.is_not(None), free(table, now))
    next_lapse = select(key, table.c.lease_until).where(table.c.lease_token.is_not(None))
    held = {"lease_token": bindparam("token", type_=String), "lease_until": bindparam("until", type_=Double)}
    return _Statements(
        due=Prepared(for_update(due, skip_locked=True)),
        looked_at=Prepared(due),
        claim=Prepared(update(table).where(key == row).values(held)),
        next_due=Prepared(next_due.order_by(table.c.due_at).limit(most)),
        next_lapse=Prepared(next_lapse.order_by(table.c.lease_until).limit(most)),
    )


def _turn_of(row: Any) -> str:
    return row.turn or f"{_NOBODYS}{row.key}"


def _count_owned(turns: Iterable[str]) -> int:
    """How many of these rows are somebody's."""
    return sum(not turn.startswith(_NOBODYS) for turn in turns)


def _exceeds_share(turns: Sequence[str], kind: RowKind, at_work: Mapping[str, str]) -> bool:
    """Whether the claim would give somebody more than their share."""
    every = [*at_work.values(), *turns]
    return _count_owned(every) > kind.most_in_turn or any(count > kind.most_each for count in Counter(every).values())


def _lock_in_turn(tx: Tx, kind: RowKind, statements: _Statements, room: int, at_work: Mapping[str, str]) -> list[Any]:
    """Locks the rows whose turn it is: the first row of everybody before anybody's second."""
    now, count = tx.now(), Counter(at_work.values())
    ranked: list[tuple[int, int, Any]] = []
    due = statements.looked_at.all(tx, now=now, most=_LOOKED_AT + len(at_work))
    for place, row in enumerate(row for row in due if str(row.key) not in at_work):
        turn = _turn_of(row)
        if count[turn] < kind.most_each:
            ranked.append((count[turn], place, row))
        count[turn] += 1
    chosen: list[Any] = []
    left = kind.most_in_turn - _count_owned(at_work.values())
    for _, _, row in sorted(ranked, key=lambda one: one[:2]):
        left -= _count_owned([_turn_of(row)])
        if left >= 0 or row.turn is None:
            chosen.append(row)
    chosen = chosen[:room]
    if chosen and tx.dialect != "sqlite":  # SQLite has only one writer
        table = kind.table
        keys = [row.key for row in chosen]
        again = select(kind.key).where(kind.key.in_(keys), table.c.due_at <= now, free(table, now))
        locked = {key for (key,) in tx.execute(for_update(again, skip_locked=True))}
        chosen = [row for row in chosen if row.key in locked]
    return sorted(chosen, key=lambda row: float(row.due_at))
