"""The figures that `/metrics` reads from the store. They hold for all replicas, and each uses an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bot.store.mailbox import read_pause
from bot.store.repository import ATTENDED
from runtime.store.database import Tx


@dataclass(frozen=True, kw_only=True)
class Gauges:
    waiting: int
    unknown: int
    parked: Mapping[str, int]  # by kind of row
    oldest_owed: float  # since how many seconds it is due; rows that are being processed are not counted
    paused: bool


# SQLite uses a partial index only for the exact condition that it was made with, so the value is not a parameter here.
_WAITING = "SELECT count(*) FROM bot_confirmations WHERE state = 'waiting'"
_UNKNOWN = "SELECT count(*) FROM bot_confirmations WHERE outcome = 'unknown'"
_PARKED = "SELECT count(*) FROM {table} WHERE parked_at IS NOT NULL"
# Since when the oldest row of a table has waited, whether it was never tried or was put off.
_NEVER_TRIED = """
    SELECT due_at FROM {table} WHERE due_at <= :now AND (lease_until IS NULL OR lease_until <= :now)
    ORDER BY due_at LIMIT 1
"""
_PUT_OFF = "SELECT min(owed_since) FROM {table} WHERE owed_since IS NOT NULL"


def read_gauges(tx: Tx) -> Gauges:
    now = tx.now()
    since = [tx.value(_NEVER_TRIED.format(table=kind.table), now=now) for kind in ATTENDED.values()]
    since += [tx.value(_PUT_OFF.format(table=kind.table)) for kind in ATTENDED.values()]
    return Gauges(
        waiting=tx.value(_WAITING),
        unknown=tx.value(_UNKNOWN),
        parked={name: tx.value(_PARKED.format(table=kind.table)) for name, kind in ATTENDED.items()},
        oldest_owed=max(0.0, now - min((at for at in since if at is not None), default=now)),
        paused=read_pause(tx) is not None,
    )
