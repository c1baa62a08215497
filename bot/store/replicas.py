"""Counts the replicas that are alive. They share Slack's rate limits, so each uses its part of them."""

from __future__ import annotations

import asyncio
import logging
import secrets

from sqlalchemy import delete, func, insert, select, update

from bot.store.tables import replicas
from runtime.errors import StoreError
from runtime.store.database import Database, Tx
from runtime.store.wakeups import until_stopped

log = logging.getLogger(__name__)

REPLICAS = "replicas"
BEAT = 5.0
TERM = 15.0
"""A replica that has not reported for this many seconds counts as dead."""

_FORGOTTEN_AFTER = 3600.0


class Replicas:
    """Reports regularly that this replica is alive, and knows how many others are."""

    def __init__(self, database: Database) -> None:
        self._database, self._name = database, secrets.token_hex(16)
        self._alive = 1
        self._stopping = asyncio.Event()

    def alive(self) -> int:
        """How many replicas are alive, including this one. If the store does not answer, the last known number."""
        return self._alive

    async def run(self) -> None:
        """Reports until `stop`. Not needed with SQLite, which has only one process."""
        if self._database.dialect == "sqlite":
            await self._stopping.wait()
            return
        with self._database.waiter(REPLICAS) as waiter:
            while not self._stopping.is_set():
                await self.beat()
                await until_stopped(self._stopping, waiter.wait(BEAT))
        try:
            await self._database.run(remove_replica, self._name)
        except StoreError as error:
            log.info("the other replicas take this one for alive for %g s more: %s", TERM, error)

    def stop(self) -> None:
        self._stopping.set()

    async def beat(self) -> None:
        try:
            alive = await self._database.run(report_alive, self._name)
        except StoreError as error:
            log.warning("the store did not answer; how many replicas there are stays as it was: %s", error)
            return
        if alive != self._alive:
            log.info("%d replicas share Slack's limits", alive)
        self._alive = alive


# Transactions


def report_alive(tx: Tx, name: str) -> int:
    """Notes that this replica is alive, and counts all that are. Wakes the others if this one is new."""
    now = tx.now()
    mine = update(replicas).where(replicas.c.name == name).values(alive_until=now + TERM)
    if not tx.execute(mine).rowcount:
        tx.execute(insert(replicas).values(name=name, alive_until=now + TERM))
        tx.execute(delete(replicas).where(replicas.c.alive_until < now - _FORGOTTEN_AFTER))
        tx.notify(REPLICAS)
    alive: int = tx.execute(select(func.count()).where(replicas.c.alive_until > now)).scalar_one()
    return alive


def remove_replica(tx: Tx, name: str) -> None:
    tx.execute(delete(replicas).where(replicas.c.name == name))
    tx.notify(REPLICAS)
