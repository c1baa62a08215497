"""The store of a storm: a real SQLite in memory that all replicas share. Each transaction is run whole, on the loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from adk_confirm.bot.store.cast_vote import SubmittedVote, count_next
from adk_confirm.bot.store.transactions import hand_over
from adk_confirm.runtime.calls.call import CallState
from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.jobs import Claim
from adk_confirm.runtime.store.lease import Lease, remaining
from adk_confirm.runtime.store.lease_loop import _Taken
from adk_confirm.runtime.store.sqlite import as_store_error
from adk_confirm.runtime.store.stored_session import SessionChange
from adk_confirm.runtime.store.transaction import Job, Known, OutcomeUnknown, R, SqlDialect, Tx
from adk_confirm.runtime.store.wakeups import Hub, topic_key
from tests.storms.faults import Fault, Kind, Moment, Weather
from tests.storms.loop import Process, StormLoop

if TYPE_CHECKING:
    from tests.storms.office import Replica

AWAY = 5.0
"""Seconds that a transaction waits for a store that it can't reach, as on PostgreSQL."""
FULL = "database or disk is full"
AWAY_SAID = "The store can't be reached now. Nothing was stored."


class StormStore:
    """`committed` is called after each commit, before anybody has its answer; `unheld` after one by a lease that was
    lost; `coming` when a transaction of such a moment is on its way, and says how late it is if something happens
    meanwhile; `until_late` for how long a start may wait until it is too late; `stored` when somebody's vote is
    stored."""

    dialect: SqlDialect = "sqlite"

    def __init__(
        self,
        template: bytes,
        loop: StormLoop,
        dice: Random,
        weather: Weather,
        committed: Callable[[Replica], None],
        unheld: Callable[[Replica, Lease], None],
        coming: Callable[[Moment, Replica], float],
        until_late: Callable[[], float],
        stored: Callable[[SubmittedVote, float], None],
    ) -> None:
        self.loop, self.dice, self.weather, self.committed, self.unheld = loop, dice, weather, committed, unheld
        self.coming, self.until_late, self.stored = coming, until_late, stored
        self.ends_at = 0.0
        """When something ends: a vote that comes right before that is stored at that very instant."""
        self.holders: dict[str, int] = {}
        """Which process has written by a lease, by its token."""
        self.connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=1000)
        if template:
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
        return self.tx().all(sql, **values)

    def tx(self, *, whole: bool = False) -> Tx:  # noqa: ARG002  (PostgreSQL's)
        """Reads what is there. `whole`: one statement after another sees the same."""
        return Tx(self.connection, "sqlite", self.now)

    def held_by(self, lease: Lease) -> bool:
        """Whether the job belongs to this lease."""
        rows = self.look("SELECT lease_token FROM jobs WHERE kind = :kind AND key = :key", **lease.job._asdict())
        return bool(rows) and rows[0].lease_token == lease.token

    def lost(self, chain: str, replica: Replica) -> bool:
        """Whether this session's lease is over, or another process is known to hold it."""
        lease = "SELECT lease_token AS token, lease_until AS until FROM jobs WHERE kind = 'session' AND key = :key"
        held = [one for one in self.look(lease, key=chain) if one.token]
        return any(self.holders.get(one.token, replica.process.index) != replica.process.index for one in held) or any(
            one.until < self.loop.now for one in held
        )

    def kept(self, replica: Replica) -> list[str]:
        """What this process is known to hold."""
        rows = self.look("SELECT key, lease_token AS token FROM jobs WHERE lease_until > :now", now=self.loop.now)
        return [row.key for row in rows if self.holders.get(row.token) == replica.process.index]

    def is_over(self, lease: Lease) -> bool:
        found = self.look("SELECT lease_until AS at FROM jobs WHERE kind = :kind AND key = :key", **lease.job._asdict())
        return bool(found) and found[0].at is not None and found[0].at < self.loop.now

    def perform(self, engine: StormEngine, job: Job[Any], at: float | None, then: Callable[[], None]) -> None:
        """Runs a transaction, at the store's time or at another one."""
        connection = self.connection
        connection.execute("BEGIN")
        changes = connection.total_changes
        if engine.seen != changes:  # somebody else has written
            engine.known.clear()
        known = None if job.read_only else engine.known
        job.run(Tx(connection, "sqlite", self.now if at is None else lambda: at, known))
        if job.read_only and connection.total_changes != changes:
            job.fail(StoreError("It reads only."))
        if job.error is not None or job.read_only:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            if job.error is not None:
                engine.known.clear()
                job.error = as_store_error(job.error, writing=not job.read_only)
        else:
            connection.execute("COMMIT")
            engine.seen = connection.total_changes
        then()

    def ends(self, process: Process) -> None:
        """Ends what a process that died has begun."""

    def close(self) -> None:
        self.connection.close()

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

    def __init__(self, store: StormStore, replica: Replica, hub: Hub) -> None:
        self.dialect = store.dialect
        self._store, self.replica, self.hub, self._under_way = store, replica, hub, 0
        self.known: Known = defaultdict(dict)
        self.seen = 0
        """All changes when it last wrote: until somebody else writes, it knows the rows as it left them."""
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
        if not read_only and (moment := _moment(work)) and self.replica.number >= 0:
            late += store.coming(moment, self.replica)
            if moment == "start" and take("start is late"):
                late += store.until_late()
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
        inside = [] if job.read_only else [*_inside(job.work)]
        lease = next((one for one in inside if isinstance(one, Lease)), None)
        vote = next((one for one in inside if isinstance(one, SubmittedVote)), None)
        if lease is not None:
            store.holders[lease.token] = self.replica.process.index
        held, at = lease is None or store.held_by(lease), None
        if vote is not None and loop.now < store.ends_at + 0.001:
            if loop.now < store.ends_at:
                loop.call_later(store.ends_at - loop.now, self._perform, job, until)
                return
            at = store.ends_at
        ahead = (lease, held, vote, at or loop.now)
        store.perform(self, job, at, lambda: self._performed(job, *ahead))

    def _performed(self, job: Job[Any], lease: Lease | None, held: bool, vote: SubmittedVote | None, at: float) -> None:
        store, loop = self._store, self._store.loop
        take = store.weather.take if self.replica.number >= 0 else _nothing
        if vote is not None and job.error is None:
            store.stored(vote, at)
        if job.read_only and any(one is remaining for one in _inside(job.work)):
            store.coming("sure", self.replica)
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
            ends = lease is not None and held and not store.held_by(lease)
            claims = isinstance(job.result, Claim) and bool(job.result.jobs)
            if take("answer is lost") or (ends and take("last answer is lost")):
                job.fail(
                    OutcomeUnknown("The connection broke during the commit: whether this was stored is not known.")
                )
            elif fault := take("answer is late") or (take("claim is late") if claims else None):
                late += fault.seconds
            taken = [claimed for one in job.facts if isinstance(one, _Taken) for claimed in one.jobs]
            store.holders |= {claimed.token: self.replica.process.index for claimed in taken}
            if self.replica.number >= 0:
                store.committed(self.replica)
                if taken:
                    store.coming("taken", self.replica)
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


def _inside(work: object, depth: int = 7) -> Iterator[object]:
    """What a transaction is made of: functions, what they were given, and the lease by which it writes."""
    yield work
    if isinstance(held := getattr(work, "_lease", None), Lease):
        yield held
    if depth == 0:
        return
    parts = [cell.cell_contents for cell in getattr(work, "__closure__", None) or ()]
    parts += [work.func, *work.args] if isinstance(work, partial) else []
    parts += [*work] if type(work) is tuple else []
    for part in parts:
        if callable(part) or isinstance(part, tuple | Lease | SessionChange | SubmittedVote):
            yield from _inside(part, depth - 1)


def _moment(work: object) -> Moment:
    for one in _inside(work):
        if one is count_next:
            return "count"
        if one is hand_over:
            return "start"
        if isinstance(one, SessionChange) and any(call.state is CallState.RUNNING for call in one.calls.values()):
            return "start"
    return ""


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
