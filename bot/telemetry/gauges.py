"""The figures that `/metrics` reads from the store. They hold for all replicas, and each uses an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Select, bindparam, func, literal_column, select, union_all

from bot.store.mailbox import read_pause
from bot.store.tables import ATTENDED, confirmations
from runtime.store.database import Tx
from runtime.store.lease import free


@dataclass(frozen=True, kw_only=True)
class Gauges:
    waiting: int
    unknown: int
    parked: Mapping[str, int]  # by kind of row
    oldest_owed: float  # since how many seconds it is due; rows that are being processed are not counted
    paused: bool


# SQLite uses a partial index only for the exact condition that it was made with, so the value is not a parameter here.
_COUNT = select(func.count()).select_from(confirmations)
_WAITING = _COUNT.where(confirmations.c.state == literal_column("'waiting'"))
_UNKNOWN = _COUNT.where(confirmations.c.outcome == literal_column("'unknown'"))
_PARKED = {
    kind: select(func.count()).select_from(table).where(table.c.parked_at.is_not(None))
    for kind, table in ATTENDED.items()
}


def _oldest_waits() -> list[Select[float]]:
    """Since when the oldest row of each kind has waited, whether it was never tried or was put off."""
    found: list[Select[float]] = []
    now = bindparam("now", type_=confirmations.c.due_at.type)
    for table in ATTENDED.values():
        overdue = select(table.c.due_at.label("since")).where(table.c.due_at <= now, free(table, now))
        oldest = overdue.order_by(table.c.due_at).limit(1).subquery()
        found.append(select(oldest.c.since))
        found.append(select(func.min(table.c.owed_since)).where(table.c.owed_since.is_not(None)))
    return found


_SINCE = union_all(*_oldest_waits())


def read_gauges(tx: Tx) -> Gauges:
    now = tx.now()
    since = [at for at in tx.execute(_SINCE, {"now": now}).scalars() if at is not None]
    return Gauges(
        waiting=tx.execute(_WAITING).scalar_one(),
        unknown=tx.execute(_UNKNOWN).scalar_one(),
        parked={kind: tx.execute(count).scalar_one() for kind, count in _PARKED.items()},
        oldest_owed=max(0.0, now - min(since, default=now)),
        paused=read_pause(tx) is not None,
    )
