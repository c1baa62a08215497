"""The store of a storm: a real SQLite in memory that all replicas share. Each transaction is run whole, on the loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.lease import Lease
from adk_confirm.runtime.store.sqlite import as_store_error
from adk_confirm.runtime.store.transaction import Job, OutcomeUnknown, R, SqlDialect, Tx
from adk_confirm.runtime.store.wakeups import Hub, topic_key
from tests.storms.faults import Fault, Kind, Weather
from tests.storms.loop import StormLoop

if TYPE_CHECKING:
    from tests.storms.office import Replica

AWAY = 5.0
"""Seconds that a transaction waits for a store that it can't reach, as on PostgreSQL."""
FULL = "database or disk is full"
AWAY_SAID = "The store can't be reached now. Nothing was stored."


class StormStore:
    """`committed` is called after each commit, before anybody has its answer; `unheld` after one by a lease that was
    lost."""

    def __init__(
        self,
        template: bytes,
        loop: StormLoop,
        dice: Random,
        weather: Weather,
        committed: Callable[[Replica], None],
        unheld: Callable[[Replica, Lease], None],
    ) -> None:
        self.loop, self.dice, self.weather, self.committed, self.unheld = loop, dice, weather, committed, unheld
        self.connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=1000)
        self.connection.deserialize(template)
        self.connection.execute("PRAGMA foreign_keys=ON")
        self.connection.execute("PRAGMA journal_mode=MEMORY")
        self.engines: list[StormEngine] = []
        self.full_until = 0.0
        self.commits = 0
        self.told: Callable[[Replica, str], None] | None = None

    def now(self) -> float:
        return self.loop.now

    def look(self, sql: str, **values: object) -> list[Any]:
        """Reads, beside everybody."""
        return Tx(self.connection, "sqlite", self.now).all(sql, **values)

    def held_by(self, lease: Lease) -> bool:
        """Whether the job belongs to this lease."""
        rows = self.look("SELECT lease_token FROM jobs WHERE kind = :kind AND key = :key", **lease.job._asdict())
        return bool(rows) and rows[0].lease_token == lease.token

    def perform(self, job: Job[Any]) -> None:
        connection = self.connection
        connection.execute("BEGIN")
        changes = connection.total_changes
        job.run(Tx(connection, "sqlite", self.now))
        if job.read_only and connection.total_changes != changes:
            job.fail(StoreError("It reads only."))
        if job.error is not None or job.read_only:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            if job.error is not None:
                job.error = as_store_error(job.error, writing=not job.read_only)
        else:
            connection.execute("COMMIT")

    def latency(self) -> float:
        return self.dice.choice((0.0001, 0.0005, 0.002, 0.01)) * (0.5 + self.dice.random())

    def wake_others(self, engine: StormEngine, keys: list[int] | list[str]) -> None:
        if self.weather.take("wake-ups are lost"):
            return
        for other in self.engines:
            if other is not engine:
                self.loop.call_later(self.latency(), other.hub.wake, keys, context=other.replica.process.context)


class StormEngine:
    """What a replica has of the store."""

    dialect: SqlDialect = "sqlite"

    def __init__(self, store: StormStore, replica: Replica, hub: Hub) -> None:
        self._store, self.replica, self.hub, self._under_way = store, replica, hub, 0
        store.engines.append(self)

    async def write(self, work: Callable[[Tx], R]) -> R:
        return await self._submit(work, read_only=False)

    async def read(self, work: Callable[[Tx], R]) -> R:
        return await self._submit(work, read_only=True)

    async def close(self) -> None:
        """After what was given to it."""
        while self._under_way:
            await asyncio.sleep(0.001)
        if self in self._store.engines:
            self._store.engines.remove(self)

    async def _submit(self, work: Callable[[Tx], R], *, read_only: bool) -> R:
        store, loop = self._store, self._store.loop
        take = store.weather.take if self.replica.number >= 0 else _nothing  # a command meets no faults
        job: Job[R] = Job(work, loop.create_future(), read_only=read_only)
        self._under_way += 1
        late = store.latency()
        if not read_only and (fault := take("commit is late")):
            late += fault.seconds
        loop.call_later(late, self._perform, job, loop.time() + AWAY)
        return await job.future

    def _perform(self, job: Job[Any], until: float) -> None:
        store, loop = self._store, self._store.loop
        take = store.weather.take if self.replica.number >= 0 else _nothing
        if loop.now < self.replica.cut_off_until:
            if loop.time() < until:
                loop.call_later(0.5, self._perform, job, until)
            else:
                job.fail(StoreError(AWAY_SAID))
                self._answer(job)
            return
        if take("read fails" if job.read_only else "commit fails"):
            job.fail(StoreError("The store could not do this. Nothing of it was stored."))
            loop.call_later(store.latency(), self._answer, job)
            return
        if loop.now < store.full_until and not job.read_only and self.replica.number >= 0:
            job.fail(StoreError(FULL))
            loop.call_later(store.latency(), self._answer, job)
            return
        lease = None if job.read_only else _lease_in(job.work)
        held = lease is None or store.held_by(lease)
        store.perform(job)
        if lease is not None and not held and job.error is None:
            store.unheld(self.replica, lease)
        late = store.latency()
        if job.read_only and (fault := take("read is late")):
            late += fault.seconds
        if not job.read_only and job.error is None:
            store.commits += 1
            topics = [topic_key(topic) for topic in sorted(job.topics)]
            if topics:
                store.wake_others(self, topics)
            if take("answer is lost"):
                job.fail(
                    OutcomeUnknown("The connection broke during the commit: whether this was stored is not known.")
                )
            elif fault := take("answer is late"):
                late += fault.seconds
            if self.replica.number >= 0:
                store.committed(self.replica)
        if store.told is not None:
            what = f"{'reads' if job.read_only else 'commits'} {_names(job.work)}"
            store.told(self.replica, f"{what}{f': {job.error!r}' if job.error else ''}")
        loop.call_later(late, self._answer, job)

    def _answer(self, job: Job[Any]) -> None:
        self.hub.wake([topic_key(topic) for topic in sorted(job.topics)])
        self._under_way -= 1
        job.settle()
        self.hub.tell(job.facts)


def _nothing(*_: Kind) -> Fault | None:
    return None


def _lease_in(work: object, depth: int = 6) -> Lease | None:
    """The lease by which a transaction writes."""
    if isinstance(work, Lease):
        return work
    if isinstance(held := getattr(work, "_lease", None), Lease):
        return held
    if depth and callable(work):
        for cell in getattr(work, "__closure__", None) or ():
            if (found := _lease_in(cell.cell_contents, depth - 1)) is not None:
                return found
    return None


def _names(work: Callable[..., Any]) -> str:
    """What a transaction does, by the names of its functions."""
    found: list[str] = []
    for cell in work.__closure__ or ():
        inner = cell.cell_contents
        if callable(inner) and hasattr(inner, "__name__"):
            found += [inner.__name__, _names(inner)] if getattr(inner, "__closure__", None) else [inner.__name__]
        if isinstance(inner, tuple):
            found += [str(one)[:60] for one in inner if isinstance(one, str)]
    return " ".join(filter(None, found))
