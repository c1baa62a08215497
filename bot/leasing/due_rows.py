"""Finds the rows that are due, decides whose turn it is, and claims them by lease."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from runtime.store.database import Tx
from runtime.store.lease import Lease, LeasedRow

SKIPPED = 0.05
_LOOKED_AT = 1000
"""How many due rows are considered when choosing whose turn it is."""

_NOBODYS = " "
"""Prefix for the turn of a row that belongs to nobody. No name begins like this."""

_NO_ROWS: Mapping[str, str] = {}


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

    `deadline` says when a row must be processed even if it was put off for longer, or parked. `turn` is the SQL that
    says whose a row is: rows of one person or thread get half of the slots at most, so that hundreds of them delay
    nobody else. `overtaken` is called when a row's lease passes to another process without a release: by the new
    holder, and by the former one once it notices, since its last message may reach Slack after those of the new holder.
    Rows that `can_wait` are claimed after people's clicks, and after rows that `goes_first`.
    """

    table: str
    key: str
    topic: str
    attend: Callable[[str, Lease], Awaitable[None]]
    at_once: int = 64
    deadline: Callable[[Tx, str], float | None] = _no_deadline
    log_context: Callable[[str], AbstractContextManager[None]] = _no_context  # how log lines name a row
    turn: str = "NULL"
    reserved: int = 0
    can_wait: bool = False
    goes_first: bool = False
    overtaken: Callable[[Tx, str], None] | None = None

    def row(self, key: str) -> LeasedRow:
        return LeasedRow(self.table, self.key, key)

    def sql(self, statement: str) -> str:
        return statement.format(table=self.table, key=self.key, turn=self.turn)

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
    now = tx.now()
    due = tx.all(kind.sql(_LOCK_DUE), now=now, most=room + len(at_work))
    found = [row for row in due if str(row.key) not in at_work][:room]
    if kind.turn != "NULL" and (len(found) == room or _exceeds_share([*map(_turn_of, found)], kind, at_work)):
        found = _lock_in_turn(tx, kind, room, at_work)
    token = secrets.token_hex(16)
    tx.many(kind.sql(_CLAIM), [{"row": row.key, "token": token, "until": now + term} for row in found])
    claimed = [
        (str(row.key), ClaimedRow(token, row.due_at, _turn_of(row), row.lease_token is not None)) for row in found
    ]
    if len(claimed) == room:
        return claimed, 0.0
    ours = at_work.keys() | {key for key, _ in claimed}
    soon = tx.all(kind.sql(_NEXT_DUE), now=now, most=len(ours) + 1)
    soon += tx.all(kind.sql(_NEXT_LAPSE), most=len(ours) + 1)
    times = [row.at for row in soon if str(row.key) not in ours]
    # A row that is due but was not claimed is locked by a transaction right now. It will be free in a moment,
    # or when PostgreSQL ends the transaction of a process that is frozen.
    return claimed, max(min(times) - now, SKIPPED) if times else None


# The most overdue rows that nobody holds.
_DUE = """
    SELECT {key} AS key, due_at, lease_token, {turn} AS turn FROM {table}
    WHERE due_at <= :now AND (lease_until IS NULL OR lease_until <= :now)
    ORDER BY due_at LIMIT :most
"""
_LOCK_DUE = f"{_DUE} FOR UPDATE SKIP LOCKED"
_LOCK_AGAIN = """
    SELECT {key} AS key FROM {table}
    WHERE {key} IN :keys AND due_at <= :now AND (lease_until IS NULL OR lease_until <= :now)
    FOR UPDATE SKIP LOCKED
"""
_CLAIM = "UPDATE {table} SET lease_token = :token, lease_until = :until WHERE {key} = :row"
_NEXT_DUE = """
    SELECT {key} AS key, due_at AS at FROM {table}
    WHERE due_at IS NOT NULL AND (lease_until IS NULL OR lease_until <= :now)
    ORDER BY due_at LIMIT :most
"""
_NEXT_LAPSE = """
    SELECT {key} AS key, lease_until AS at FROM {table}
    WHERE lease_token IS NOT NULL
    ORDER BY lease_until LIMIT :most
"""


def _turn_of(row: Any) -> str:
    return row.turn or f"{_NOBODYS}{row.key}"


def _count_owned(turns: Iterable[str]) -> int:
    """How many of these rows are somebody's."""
    return sum(not turn.startswith(_NOBODYS) for turn in turns)


def _exceeds_share(turns: Sequence[str], kind: RowKind, at_work: Mapping[str, str]) -> bool:
    """Whether the claim would give somebody more than their share."""
    every = [*at_work.values(), *turns]
    return _count_owned(every) > kind.most_in_turn or any(count > kind.most_each for count in Counter(every).values())


def _lock_in_turn(tx: Tx, kind: RowKind, room: int, at_work: Mapping[str, str]) -> list[Any]:
    """Locks the rows whose turn it is: the first row of everybody before anybody's second."""
    now, count = tx.now(), Counter(at_work.values())
    ranked: list[tuple[int, int, Any]] = []
    due = tx.all(kind.sql(_DUE), now=now, most=_LOOKED_AT + len(at_work))
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
        locked = set(tx.column(kind.sql(_LOCK_AGAIN), keys=[row.key for row in chosen], now=now))
        chosen = [row for row in chosen if row.key in locked]
    return sorted(chosen, key=lambda row: float(row.due_at))
