"""Jobs: one table says what is due, for both packages. A loop takes jobs by lease, and runs one task for each.

Nothing here depends on what a job means. What is due follows from the stored state, so there is no queue to lose: after
a restart the same loop goes on. A job that fails is retried at growing intervals. After twenty failures it is parked,
which operators see, and no longer blocks others.

One lease is for an owner and all of its jobs: a thread's cards, lines and runs. It is that of the owner's job of the
loop's first kind. Its holder works on them side by side, and gives it back when nothing of its owner is due. A
transaction that makes a job due, here or in any other part of the process, also takes it along if there is room, so
nobody has to look for it.

    owe, settle  something is due; it is done
    JobKind      one kind of work, and how much of it at once
    claim_due    whose turn it is, and what there is to do; one process gets each owner
    LeaseLoop    the loop
    Lane         a lease, as one job under it uses it
    postpone     retries, and parks
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from itertools import groupby
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

from adk_confirm.runtime.errors import Busy, ConfirmError, StoreError, was_cancelled
from adk_confirm.runtime.store.database import Clocks, Database, Tx, Waiter
from adk_confirm.runtime.store.lease import (
    TERM,
    JobKey,
    Keeper,
    Lease,
    LeaseLost,
    keep_trying,
    new_token,
    topic_of,
    wake_when_due,
)
from adk_confirm.runtime.store.wakeups import until_stopped

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

SKIPPED = 0.05
_LOOKED_AT = 64
"""How many due jobs of a kind are considered when choosing whose turn it is."""

_NOBODYS = " "
"""Prefix for the turn of a job that belongs to nobody. No name begins like this."""


class Unreadable(NamedTuple):
    """What there is to do could not be read."""

    why: Exception


class Due(NamedTuple):
    """A job that is due now."""

    job: JobKey
    owner: str
    due_at: float
    turn: str


def owe(
    tx: Tx,
    kind: str,
    key: str,
    at: float | None = None,
    *,
    owner: str | None = None,
    turn: str | None = None,
    or_sooner: bool = False,
) -> None:
    """Makes a job due: now, or at the time `at`. `owner`: the key of the job whose lease covers this one too. `turn`:
    whose turn the job takes. `or_sooner`: a job that is due earlier stays due then."""
    at = tx.now() if at is None else at
    at = tx.value(_OWE_OR_SOONER if or_sooner else _OWE, kind=kind, key=key, owner=owner, turn=turn, due_at=at)
    _tell(tx, Due(JobKey(kind, key), owner or key, at, _turn_of(turn, key)))


def settle(
    tx: Tx, kind: str, key: str, again: float | None = None, *, owner: str | None = None, turn: str | None = None
) -> None:
    """Everything is done. `again`: when the next thing is due."""
    tx.run(_SETTLE, kind=kind, key=key, owner=owner, turn=turn, due_at=again)
    tx.alarms[JobKey(kind, key)] = None
    if again is not None:
        _tell(tx, Due(JobKey(kind, key), owner or key, again, _turn_of(turn, key)))


def _tell(tx: Tx, due: Due) -> None:
    wake_when_due(tx, due.job, due.due_at)
    if due.due_at <= tx.now():
        tx.owed.append(due)


def lock_job(tx: Tx, kind: str, key: str) -> None:
    """Locks the job. Call this before you look for work: work that is stored meanwhile is either seen by you, or stored
    after `settle`, which makes the job due again."""
    tx.first("SELECT 1 FROM jobs WHERE kind = :kind AND key = :key FOR UPDATE", kind=kind, key=key)


_OWE = """
    INSERT INTO jobs (kind, key, owner, turn, due_at) VALUES (:kind, :key, :owner, :turn, :due_at)
    ON CONFLICT (kind, key) DO UPDATE SET
        turn = excluded.turn, due_at = excluded.due_at, parked_at = NULL, failures = 0
    RETURNING due_at
"""
_OWE_OR_SOONER = """
    INSERT INTO jobs (kind, key, owner, turn, due_at) VALUES (:kind, :key, :owner, :turn, :due_at)
    ON CONFLICT (kind, key) DO UPDATE SET
        turn = excluded.turn, parked_at = NULL, failures = 0,
        due_at = CASE WHEN jobs.due_at <= excluded.due_at THEN jobs.due_at ELSE excluded.due_at END
    RETURNING due_at
"""
_SETTLE = """
    INSERT INTO jobs (kind, key, owner, turn, due_at) VALUES (:kind, :key, :owner, :turn, :due_at)
    ON CONFLICT (kind, key) DO UPDATE SET
        turn = excluded.turn, due_at = excluded.due_at, owed_since = NULL, parked_at = NULL, failures = 0,
        trouble = NULL
"""


@dataclass(frozen=True)
class ClaimedJob:
    """A job that this process has taken, by the token of its owner's lease. `found`: what there is to do, or why that
    can't be read."""

    job: JobKey
    owner: str
    token: str
    due_at: float
    turn: str
    found: Any


@dataclass(frozen=True)
class JobKind(Generic[T]):
    """One kind of job. `look` reads what there is to do, in the transaction that takes the job. `attend` does it. It
    may write only through the job's lease.

    `deadline` says when a job must be processed even if it was put off for longer, or parked. Jobs with the same `turn`
    get half of the slots at most, so that hundreds of one person or thread delay nobody else. `overtaken` is called
    when a job's lease passes to another process without a release: in the new holder's claim, and by the former holder
    once it notices, since its last message may arrive after those of the new holder.
    """

    name: str
    look: Callable[[Tx, str], T]
    attend: Callable[[str, Lease, T], Awaitable[None]]
    at_once: int = 64
    deadline: Callable[[Tx, str], float | None] = lambda *_: None
    log_context: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext()  # how log lines name a job
    reserved: int = 0
    overtaken: Callable[[Tx, str], None] | None = None

    @property
    def most_in_turn(self) -> int:
        """How many jobs that belong to somebody may be processed at once."""
        return self.at_once - self.reserved

    @property
    def most_each(self) -> int:
        return max(1, self.most_in_turn // 2)


Kinds = Sequence[JobKind[Any]]


@dataclass
class AtWork:
    """What a process works on: its jobs, also those that its transactions take along just now, with the turns that they
    take; the tokens of the owners that it holds, and which of those it could release; and the owners on which it works
    by leases of another kind.

    These are left alone by its own claims: if the process was frozen for longer than its leases, they have expired
    although the work goes on. `drains`: the process begins no job of the first kind any more, so others may have an
    idle owner for which one is due.
    """

    jobs: dict[JobKey, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    idle: Collection[str] = ()
    elsewhere: Collection[str] = ()
    drains: bool = False

    def turns(self, kind: JobKind[Any]) -> list[str]:
        return [turn for job, turn in self.jobs.copy().items() if job.kind == kind.name]

    def may_take(self, owner: str, token: str | None) -> bool:
        """Whether a claim may give this process something of the owner's. `token`: that of its lease."""
        return owner not in self.elsewhere and self.tokens.get(owner, token) == token


@dataclass
class Claim:
    """What a claim gave. `pause`: the seconds until the next one is worthwhile: 0 if there is more than fits into one,
    None if nothing is known to become due. `full`: the kinds of which jobs wait for one at work to end. `released`: the
    idle owners that were given back, or were before: that transaction's answer was lost."""

    jobs: list[ClaimedJob]
    pause: float | None
    full: set[str]
    released: list[str]


def claim_due(tx: Tx, kinds: Kinds, room: Mapping[str, int], term: float, at: AtWork) -> Claim:
    """Takes the most overdue jobs that nobody processes, of each kind as many as there is `room` for: the first job of
    everybody before anybody's second. Gives idle owners back of which nothing is due."""
    now = tx.now()
    wanted = [kind for kind in kinds if room[kind.name] > 0]
    rows = _read_due(tx, kinds[0], wanted, at) if wanted else []
    due = [row for row in rows if JobKey(row.kind, row.key) not in at.jobs and at.may_take(row.owner, row.token)]
    chosen: list[_Row] = []
    full: set[str] = set()
    for kind in wanted:
        ours = [row for row in due if row.kind == kind.name]
        in_turn = _choose_in_turn(ours, kind, at.turns(kind))
        full |= {kind.name} if len(in_turn) < len(ours) else set()
        chosen += sorted(in_turn[: room[kind.name]], key=lambda row: row.due_at)
    taken = _take_owners(tx, kinds, chosen, term, at)
    claimed = [_claimed(tx, kinds, row, taken[row.owner]) for row in chosen if row.owner in taken]
    lost = {row.owner for row in rows if not at.may_take(row.owner, row.token)}
    idle = [owner for owner in at.idle if owner not in taken]
    ends = {owner: at.tokens[owner] for owner in idle if owner not in lost}
    released = [*lost.intersection(idle), *_give_back(tx, kinds[0].name, ends, at.drains)]
    count = Counter(one.job.kind for one in claimed)
    if any(count[kind.name] == room[kind.name] for kind in wanted):
        return Claim(claimed, 0.0, full, released)
    times = _read_next(tx, kinds[0], wanted, {*at.tokens, *taken, *at.elsewhere})
    # What was chosen and not claimed is locked by a transaction right now. It will be free in a moment, or when
    # PostgreSQL ends the transaction of a process that is frozen. So will an owner that we have just lost or released.
    times += [now] if lost or any(row.owner not in taken for row in chosen) else []
    return Claim(claimed, max(min(times) - now, SKIPPED) if times else None, full, released)


class _Row(NamedTuple):
    """A due job, as it is read. `token`: of its owner's lease. `leads`: whether its owner has a row for one."""

    kind: str
    key: str
    due_at: float
    turn: str | None
    owner: str
    token: str | None
    leads: str | None


_CROWDS = "kind, turn IS NULL"
"""A crowd of one kind, or of many people, hides neither another kind nor what is nobody's."""
# The most overdue jobs that nobody else holds: everybody's first before anybody's second.
_DUE = f"""
    SELECT kind, key, due_at, turn, owner, token, leads FROM (
        SELECT *, row_number() OVER (PARTITION BY {_CROWDS} ORDER BY place, due_at) AS number FROM (
            SELECT j.kind, j.key, j.due_at, j.turn, coalesce(j.owner, j.key) AS owner, l.lease_token AS token,
                l.key AS leads,
                row_number() OVER (PARTITION BY j.kind, coalesce(j.turn, j.key) ORDER BY j.due_at) AS place
            FROM jobs j LEFT JOIN jobs l ON l.kind = :leader AND l.key = coalesce(j.owner, j.key)
            WHERE j.kind IN :kinds AND j.due_at <= :now
              AND (l.lease_until IS NULL OR l.lease_until <= :now OR l.lease_token IN :tokens)
        ) AS placed WHERE place <= :each
    ) AS numbered WHERE number <= :most ORDER BY due_at
"""  # noqa: S608


def _read_due(tx: Tx, leader: JobKind[Any], kinds: Kinds, at: AtWork) -> list[_Row]:
    """As many jobs of each kind as the claim may choose from, beside those that are at work."""
    names, tokens = [kind.name for kind in kinds], [*at.tokens.values()]
    each = 2 * max(kind.most_each for kind in kinds) + 1
    most = _LOOKED_AT + len(at.jobs)
    found = tx.all(_DUE, leader=leader.name, kinds=names, now=tx.now(), tokens=tokens, each=each, most=most)
    return [_Row(*row) for row in found]


_NEXT_DUE = "SELECT min(due_at) AS at, NULL AS owner FROM jobs WHERE kind = :kind AND due_at > :now"
_NEXT_LAPSE = """
    SELECT * FROM (
        SELECT lease_until AS at, key AS owner FROM jobs
        WHERE kind = :leader AND lease_token IS NOT NULL AND lease_until > :now ORDER BY lease_until LIMIT :most
    ) AS found
"""


def _read_next(tx: Tx, leader: JobKind[Any], kinds: Kinds, ours: Collection[str]) -> list[float]:
    """When the next jobs are due, and when the next leases of others end."""
    each = " UNION ALL ".join(
        [*(_NEXT_DUE.replace(":kind", f":kind{number}") for number in range(len(kinds))), _NEXT_LAPSE]
    )
    names = {f"kind{number}": kind.name for number, kind in enumerate(kinds)}
    found = tx.all(each, leader=leader.name, now=tx.now(), most=len(ours) + 1, **names)
    return [row.at for row in found if row.at is not None and row.owner not in ours]


def _take_owners(tx: Tx, kinds: Kinds, chosen: list[_Row], term: float, at: AtWork) -> dict[str, str]:
    """Takes the leases of the owners of these jobs. Returns the tokens of all that this process holds now. What was
    settled meanwhile is removed from `chosen`."""
    leader, until = kinds[0].name, tx.now() + term
    wanted = {row.owner: row for row in chosen if row.owner not in at.tokens}
    new = {row.owner for row in wanted.values() if row.leads is None}
    if tx.dialect != "sqlite" and chosen:  # SQLite has only one writer
        free = set(tx.column(_LOCK_FREE, leader=leader, owners=[*wanted], now=tx.now()))
        wanted = {owner: row for owner, row in wanted.items() if owner in free | new}
        keys = [row.key for row in chosen]
        due = {
            (one.kind, one.key)
            for one in tx.all(_STILL_DUE, kinds=[*{r.kind for r in chosen}], keys=keys, now=tx.now())
        }
        chosen[:] = [row for row in chosen if (row.kind, row.key) in due]
    taken = {owner: at.tokens[owner] for owner in {row.owner for row in chosen} & at.tokens.keys()}
    for owner in {row.owner for row in chosen} & wanted.keys():
        token = new_token()
        if owner not in new or _lead(tx, leader, owner, token, until):
            taken[owner] = token
        if wanted[owner].token is not None:
            _call_overtaken(tx, kinds, owner)
    old = taken.keys() - at.tokens.keys() - new
    tx.many(_TAKE, [{"kind": leader, "key": owner, "token": taken[owner], "until": until} for owner in old])
    return taken


def _lead(tx: Tx, kind: str, key: str, token: str, until: float) -> bool:
    """Makes the row of an owner's lease."""
    return tx.insert("jobs", {"kind": kind, "key": key, "lease_token": token, "lease_until": until}, if_absent=True)


def _call_overtaken(tx: Tx, kinds: Kinds, owner: str) -> None:
    """For what another process may have worked on when it died: that is still due."""
    each = {kind.name: kind.overtaken for kind in kinds if kind.overtaken is not None}
    for row in tx.all(_ALL_DUE, leader=kinds[0].name, owner=owner) if each else ():
        if (overtaken := each.get(row.kind)) is not None:
            overtaken(tx, row.key)


_LOCK_FREE = """
    SELECT key FROM jobs WHERE kind = :leader AND key IN :owners AND (lease_until IS NULL OR lease_until <= :now)
    FOR UPDATE SKIP LOCKED
"""
_STILL_DUE = "SELECT kind, key FROM jobs WHERE kind IN :kinds AND key IN :keys AND due_at <= :now"
_TAKE = """
    UPDATE jobs SET lease_token = column3, lease_until = CAST(column4 AS DOUBLE PRECISION)
    FROM (VALUES (:kind, :key, :token, :until)) AS taken WHERE kind = column1 AND key = column2
"""
_ALL_DUE = """
    SELECT kind, key FROM jobs WHERE (owner = :owner OR (kind = :leader AND key = :owner)) AND due_at IS NOT NULL
"""
_LOCK_LEASES = "SELECT 1 FROM jobs WHERE kind = :leader AND key IN :owners ORDER BY key FOR UPDATE"
_GIVE_BACK = """
    UPDATE jobs SET lease_token = NULL, lease_until = NULL
    WHERE kind = :leader AND key IN :owners AND lease_token IN :tokens AND (coalesce(due_at > :now, TRUE) OR :drains)
      AND NOT EXISTS (SELECT 1 FROM jobs d WHERE d.owner = jobs.key AND d.due_at <= :now)
    RETURNING key
"""


def _give_back(tx: Tx, leader: str, held: Mapping[str, str], drains: bool = False) -> list[str]:
    """Releases those owners of which nothing is due that this process would do, and returns them. `held`: the tokens of
    owners."""
    if not held:
        return []
    if tx.dialect != "sqlite":  # whoever stores that something is due has locked the lease, or does that after us
        tx.all(_LOCK_LEASES, leader=leader, owners=[*held])
    if drains:
        tx.notify(topic_of(leader))
    tokens = [*held.values()]
    return tx.column(_GIVE_BACK, leader=leader, owners=[*held], tokens=tokens, now=tx.now(), drains=drains)


def _claimed(tx: Tx, kinds: Kinds, row: _Row, token: str) -> ClaimedJob:
    kind = next(kind for kind in kinds if kind.name == row.kind)
    return ClaimedJob(JobKey(row.kind, row.key), row.owner, token, row.due_at, _turn(row), _look(tx, kind, row.key))


def _look(tx: Tx, kind: JobKind[Any], key: str) -> Any:
    """What there is to do. An error is this job's alone: the others go on, and so does who made it due."""
    try:
        return kind.look(tx, key)
    except Exception as error:
        if isinstance(error, StoreError | Busy) or tx.is_broken_by(error):
            raise
        return Unreadable(error)


def _turn(row: _Row) -> str:
    return _turn_of(row.turn, row.key)


def _turn_of(turn: str | None, key: str) -> str:
    return turn or f"{_NOBODYS}{key}"


def _count_owned(turns: Iterable[str]) -> int:
    """How many of these jobs are somebody's."""
    return sum(not turn.startswith(_NOBODYS) for turn in turns)


def _exceeds_share(turn: str, kind: JobKind[Any], at_work: Sequence[str]) -> bool:
    """Whether one more job would give somebody more than their share."""
    crowded = not turn.startswith(_NOBODYS) and _count_owned(at_work) >= kind.most_in_turn
    return crowded or at_work.count(turn) >= kind.most_each


def _choose_in_turn(due: Sequence[_Row], kind: JobKind[Any], at_work: Sequence[str]) -> list[_Row]:
    """The jobs whose turn it is, in the order of their turns."""
    count = Counter(at_work)
    ranked: list[tuple[int, int, _Row]] = []
    for place, row in enumerate(due):
        if count[_turn(row)] < kind.most_each:
            ranked.append((count[_turn(row)], place, row))
        count[_turn(row)] += 1
    left = kind.most_in_turn - _count_owned(at_work)
    chosen: list[_Row] = []
    for _, _, row in sorted(ranked, key=lambda one: one[:2]):
        left -= row.turn is not None
        if left >= 0 or row.turn is None:
            chosen.append(row)
    return chosen


# The loop

MOST_FAILURES = 20
LONGEST_PAUSE = 300.0
WHILE_FAILING, LONGEST_LAG = 0.25, 10.0
"""While the other side fails, a job's next pause is this share of the time that it has waited, up to the second number
in seconds."""
POLL = 5.0
HELPING = 16
"""The most jobs of one claim. A claim waits for a connection behind the work on those claimed before, so a store that
can't keep up is not asked for more. Leases of jobs that wait in a process have to be renewed again and again."""
REFILL = 0.05
"""Seconds between the end of a job and the next claim when others wait for its slot, so that several ended jobs are
replaced together."""
AGAIN = 1.0
LONGEST_FREEZE = 10.0


class PutOff(Exception):
    """The job should be tried again in `after` seconds, and this is not its fault. `failing`: the other side does not
    work, so the pause grows with the time that the job has waited."""

    after: float
    failing: bool = False


class NotNow(ConfirmError, PutOff):
    """The job can't be processed now, and this is not its fault. It is tried again after `after` seconds."""

    def __init__(self, after: float, why: str) -> None:
        super().__init__(why)
        self.after = after


@dataclass
class _Held:
    """An owner that this process holds: its lease, the jobs of it that are at work, and those whose last transaction is
    under way."""

    lease: Lease
    jobs: set[JobKey] = field(default_factory=set)
    ending: set[JobKey] = field(default_factory=set)


class Lane(Lease):
    """The lease of an owner, as one of its jobs uses it: it ends with the last of those that are at work."""

    def __init__(self, of: _Held, work: JobKey, begins_last: Callable[[JobKey], None]) -> None:
        vars(self).update(vars(of.lease))
        self.work = work
        self._held, self._begins_last = of, begins_last

    async def finish_if(
        self, ended: Callable[[R], bool], fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        @wraps(fn)
        def ending(tx: Tx) -> R:
            result = fn(tx, *args, **kwargs)
            tx.ended = self.work if ended(result) else None
            return result

        self._held.ending.add(self.work)
        self._begins_last(self.work)
        over = False
        try:
            result = await super().finish_if(ended, ending)
            over = ended(result)
        finally:
            if not over:
                self._held.ending.discard(self.work)
        return result

    def _end(self, tx: Tx) -> bool:
        last = self._held.jobs == self._held.ending
        return last and bool(_give_back(tx, self.job.kind, {self.job.key: self.token}))


@dataclass(frozen=True)
class _Taken:
    """What a transaction has taken along: reported to the loop once it is committed. `due`: what it made due of that
    which is at work. `ended`: the job whose last transaction it was. `alarms`: in how many seconds jobs become due;
    None: they are not due later any more."""

    loop: LeaseLoop
    asked: Clocks
    jobs: Sequence[ClaimedJob]
    due: Collection[JobKey]
    ended: object
    alarms: Mapping[JobKey, float | None]


class LeaseLoop:
    """Processes the jobs of some kinds until it is stopped. The first kind leads: its leases are for all."""

    def __init__(
        self,
        database: Database,
        *kinds: JobKind[Any],
        poll: float = POLL,
        term: float = TERM,
        keeper: Keeper | None = None,
    ) -> None:
        self._database, self._poll, self._term = database, poll, term
        self._kinds = {kind.name: kind for kind in kinds}
        self._leader = kinds[0].name
        self._keeper = keeper or Keeper(database, term)
        self._held: dict[str, _Held] = {}
        self._jobs: dict[JobKey, str] = {}  # at work, and whose turn each takes
        self._next: dict[JobKey, tuple[ClaimedJob, _Held]] = {}  # begin when those at work have ended
        self._ended_at: dict[JobKey, float] = {}  # within the last term, and some from before
        self._due_again: set[JobKey] = set()  # something came since the last transaction of these began
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False  # no job of the first kind is begun any more
        self._over = False  # nothing is begun any more
        self._leaving: asyncio.Task[None] | None = None
        self._taken: dict[JobKey, str] = {}  # with their turns, by transactions that may not be committed yet
        self._reserving = threading.Lock()
        self._full: set[str] = set()  # kinds of which jobs may be due that wait for one of these to end
        self._waiter: Waiter | None = None
        self._alarms: dict[JobKey, asyncio.TimerHandle] = {}  # of what becomes due before the next look
        self.trouble: str | None = None  # why no job can be claimed now
        self._stopping = asyncio.Event()
        database.listen(self._begin_taken)

    async def run(self) -> None:
        """Processes jobs until `stop`, and returns when its last jobs are done. If cancelled, so are they, and
        each releases its lease."""
        try:
            with self._database.waiter(*map(topic_of, self._kinds)) as self._waiter, self._database.taking(self._take):
                while not self._stopping.is_set():
                    await self._begin(self._waiter)
            while self._tasks:
                await asyncio.wait(self._tasks)
        except asyncio.CancelledError:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._let_all_go(0.0)
            raise
        await self._let_all_go(self._term)

    async def drain(self, patience: float) -> None:
        """Begins no job of the first kind any more, and lets others have what becomes due of it. Waits for those that
        it has at work, for at most `patience` seconds. Jobs of other kinds go on."""
        self._draining, clock = True, asyncio.get_running_loop().time
        until = clock() + patience
        self._wake()
        while any(job.kind == self._leader for job in self._jobs) and (left := until - clock()) > 0:
            await asyncio.wait(self._tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    def stop(self) -> None:
        self._stopping.set()

    @property
    def at_work(self) -> list[str]:
        """The jobs that are being processed."""
        return [f"{job.kind} {job.key}" for job in self._jobs]

    async def _begin(self, waiter: Waiter) -> None:
        before, asked = set(self._tasks), self._database.clocks()
        claim = await self._claim()
        past = self._database.clocks().running - self._term
        self._ended_at = {job: at for job, at in self._ended_at.items() if at > past}
        pause = self._poll if claim.pause is None else min(self._poll, claim.pause)
        if self._full and not before <= self._tasks:  # meanwhile one has ended that others wait for
            pause = min(pause, REFILL)
        for owner in claim.released:
            if (held := self._held.pop(owner, None)) is not None:
                held.lease.stop()
        self._begin_jobs(claim.jobs, asked)
        if pause:
            await until_stopped(self._stopping, waiter.wait(pause))

    async def _claim(self) -> Claim:
        """Claims due jobs."""
        room = {name: min(self._room(kind), HELPING) for name, kind in self._kinds.items()}
        self._full = {name for name, left in room.items() if left <= 0}
        if len(self._full) == len(room):
            return Claim([], None, self._full, [])
        held = {owner: one.lease.token for owner, one in self._held.items()}
        idle = [owner for owner, one in self._held.items() if not one.jobs]
        elsewhere = set(self._keeper.keys(self._leader)) - held.keys()  # what this process began without the loop
        before = self._taken.copy()
        at = AtWork({**before, **self._jobs.copy()}, held, idle, elsewhere, self._draining)
        try:
            claim = await self._database.run(claim_due, [*self._kinds.values()], room, self._term, at)
        except (StoreError, Busy) as error:
            level = logging.WARNING if self.trouble is None else logging.DEBUG  # once, and not every second
            log.log(level, "the store did not answer, and is asked again until it does: %s", error)
            self.trouble = str(error)
            return Claim([], AGAIN, set(), [])
        self.trouble = None
        for job in before:  # of a transaction that was rolled back nothing is heard
            self._taken.pop(job, None)
        self._full |= claim.full
        return claim

    def _room(self, kind: JobKind[Any]) -> int:
        if self._draining and kind.name == self._leader:
            return 0
        return kind.at_once - sum(job.kind == kind.name for job in self._jobs.copy())

    # What other transactions of this process make due

    def _take(self, tx: Tx) -> None:
        """Takes along what has become due with this transaction, in its thread. What can't be taken now is claimed
        later, here or elsewhere."""
        due = {one.job: one for one in tx.owed if one.job.kind in self._kinds and not self._stopping.is_set()}
        busy = {job for job in due if job in self._jobs and job != tx.ended}
        asked, taken = self._database.clocks(), list[ClaimedJob]()
        for owner, jobs in groupby(sorted(due.values(), key=lambda one: one.owner), lambda one: one.owner):
            wanted = self._reserve([one for one in jobs if one.job not in busy])
            token = self._take_owner(tx, owner) if wanted else None
            for job, _, due_at, turn in wanted:
                if token is None:
                    self._taken.pop(job, None)
                else:
                    found = _look(tx, self._kinds[job.kind], job.key)
                    taken.append(ClaimedJob(job, owner, token, due_at, turn, found))
        alarms = {job: seconds for job, seconds in tx.alarms.items() if job.kind in self._kinds}
        if taken or busy or alarms:
            tx.report(_Taken(self, asked, taken, busy, tx.ended, alarms))
        left = {job.kind for job in due.keys() - busy - {one.job for one in taken}}
        tx.topics -= {topic_of(job.kind) for job in due if job.kind not in left}

    def _reserve(self, due: Sequence[Due]) -> list[Due]:
        """Those of these jobs for which there is room. Transactions that end at the same time do not exceed it."""
        with self._reserving:
            at_work, reserved = AtWork({**self._taken.copy(), **self._jobs.copy()}), list[Due]()
            for one in due:
                kind = self._kinds[one.job.kind]
                room = kind.name not in self._full and self._room(kind) > 0
                if room and not _exceeds_share(one.turn, kind, at_work.turns(kind)):
                    self._taken[one.job] = at_work.jobs[one.job] = one.turn
                    reserved.append(one)
        return reserved

    def _take_owner(self, tx: Tx, owner: str) -> str | None:
        """The token of the owner's lease, which is ours or was free. None if another process has it, or had it and did
        not release it."""
        held = self._held.get(owner)
        if held is not None and ("held", held.lease.token) in tx.known:
            return held.lease.token
        lease = tx.first(_LOCK_LEASE, leader=self._leader, owner=owner)
        if held is None and owner in self._keeper.keys(self._leader):
            return None
        if held is not None:
            return held.lease.token if lease is not None and lease.lease_token == held.lease.token else None
        token, until = new_token(), tx.now() + self._term
        if lease is None:
            return token if _lead(tx, self._leader, owner, token, until) else None
        if lease.lease_token is not None:
            return None
        tx.run(_TAKE, kind=self._leader, key=owner, token=token, until=until)
        return token

    def _begin_taken(self, fact: object) -> None:
        """Begins what a transaction has taken along. Called on the event loop, before anybody has its result."""
        if not (isinstance(fact, _Taken) and fact.loop is self):
            return
        for one in fact.jobs:
            self._taken.pop(one.job, None)
        for job, seconds in fact.alarms.items():
            self._set_alarm(job, seconds)
        if any(job not in self._jobs for job in fact.due):  # it has ended meanwhile
            self._wake()
        self._due_again |= self._jobs.keys() & fact.due
        self._begin_jobs(fact.jobs, fact.asked, fact.ended)
        if self._over:
            self._leaving = asyncio.create_task(self._let_all_go(0.0))

    def _set_alarm(self, job: JobKey, seconds: float | None) -> None:
        """Looks for due jobs when this one is due, unless it is done by then."""
        if (before := self._alarms.pop(job, None)) is not None:
            before.cancel()
        if seconds is not None and seconds < self._poll:
            self._alarms[job] = asyncio.get_running_loop().call_later(seconds, self._ring, job)

    def _ring(self, job: JobKey) -> None:
        del self._alarms[job]
        self._wake()

    # At work

    def _begin_jobs(self, claimed: Sequence[ClaimedJob], asked: Clocks, ended: object = None) -> None:
        forgotten = self._database.clocks().running - self._term
        for one in claimed:
            held = self._held.get(one.owner)
            if held is None:
                job = JobKey(self._leader, one.owner)
                lease = Lease(self._database, job, one.token, term=self._term, keeper=self._keeper, asked=asked)
                held = self._held[one.owner] = _Held(lease)
                lease.keep()
            if self._over:
                continue
            if one.job not in self._jobs and self._ended_at.get(one.job, forgotten) < asked.running:
                self._start(one, held)
            elif one.job not in self._jobs:  # it was done while this was on its way, or may have been: that is old
                self._wake()
            elif one.job == ended:
                self._next[one.job] = one, held
            else:
                self._due_again.add(one.job)

    def _start(self, claimed: ClaimedJob, held: _Held) -> None:
        self._jobs[claimed.job] = claimed.turn
        held.jobs.add(claimed.job)
        task = asyncio.create_task(self._attend(claimed, held))
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._ended(task, claimed, held))

    def _ended(self, task: asyncio.Task[None], claimed: ClaimedJob, held: _Held) -> None:
        job = claimed.job
        self._tasks.discard(task)
        self._jobs.pop(job)
        self._ended_at[job] = self._database.clocks().running
        held.jobs.discard(job)
        held.ending.discard(job)
        again = job in self._due_again
        self._due_again.discard(job)
        over = held.lease.kept.released or held.lease.lost.is_set()
        if (after := self._next.pop(job, None)) is not None and not over:
            self._start(*after)
        elif again or (not held.jobs and not over):
            self._wake()
        if over and not held.jobs and self._held.get(claimed.owner) is held:
            del self._held[claimed.owner]
            if held.lease.lost.is_set():
                self._wake()  # who had it meanwhile may be gone
            held.lease.stop()
        if job.kind in self._full:
            asyncio.get_running_loop().call_later(REFILL, self._wake)

    def _wake(self) -> None:
        if self._waiter is not None:
            self._waiter.wake()

    async def _let_all_go(self, patience: float) -> None:
        """The loop has ended. What a transaction took along just now is let go as soon as it is known."""
        self._over = True
        held = [self._held.pop(owner) for owner in [*self._held]]
        await asyncio.gather(*(one.lease.give_back(patience) for one in held))

    async def _attend(self, claimed: ClaimedJob, held: _Held) -> None:
        kind, job = self._kinds[claimed.job.kind], claimed.job
        lease = Lane(held, job, self._due_again.discard)
        with kind.log_context(job.key):
            try:
                await self._attend_once(kind, claimed, lease)
            except LeaseLost:
                log.info("%s %s was taken over by another process; nothing more was written here", *job)
                await self._call_overtaken(kind, job)
            except StoreError as error:
                log.warning("the store did not answer; %s %s is tried again: %s", *job, error)
                await self._call_overtaken(kind, job)  # or so it seems: after a freeze the connections break first
            except asyncio.CancelledError:  # what it stores last may be under way, and come after the lease
                await self._call_overtaken(kind, job)
                raise

    async def _call_overtaken(self, kind: JobKind[Any], job: JobKey) -> None:
        """Calls the job's `overtaken`. Until the store takes that, nobody goes on with the job here: what it sent last
        would be sent again."""
        overtaken = kind.overtaken
        if overtaken is None:
            return
        while (error := await keep_trying(lambda: self._database.run(overtaken, job.key), LONGEST_FREEZE)) is not None:
            log.warning("%s %s may show what was sent last: %s", *job, error)
            if self._stopping.is_set():
                return

    async def _attend_once(self, kind: JobKind[Any], claimed: ClaimedJob, lease: Lane) -> None:
        try:
            if isinstance(claimed.found, Unreadable):
                raise claimed.found.why
            await kind.attend(claimed.job.key, lease, claimed.found)
        except LeaseLost:
            raise
        except StoreError:
            await until_stopped(self._stopping, asyncio.sleep(AGAIN))  # given back at once, it would come up at once
            raise
        except (Exception, asyncio.CancelledError) as error:  # the outermost boundary of one job's work
            if isinstance(error, asyncio.CancelledError) and was_cancelled():
                raise
            try:
                await self._put_off(kind, claimed, lease, error)
            except (StoreError, LeaseLost):
                raise
            except Exception:
                lease.stop()  # releasing its lease would make it due again at once, without end
                log.exception("%s %s could not be put off, and is left to its lease", *claimed.job)

    async def _put_off(self, kind: JobKind[Any], claimed: ClaimedJob, lease: Lane, error: BaseException) -> None:
        job, due_at = claimed.job, claimed.due_at
        if isinstance(error, PutOff):
            lag = WHILE_FAILING if error.failing else 0.0
            after, why = error.after, str(error)
            news, _ = await lease.finish(postpone, kind, job.key, due_at, after, why, counted=False, lag=lag)
            level = logging.INFO if news else logging.DEBUG  # a job may wait for hours
            log.log(level, "%s %s is put off for %.3g s: %s", *job, error.after, error)
        else:
            expected = isinstance(error, ConfirmError)
            news, parked = await lease.finish(postpone, kind, job.key, due_at, None, _words(error), counted=True)
            level = (logging.WARNING if expected else logging.ERROR) if news else logging.DEBUG
            then = f"failed {MOST_FAILURES} times and is parked" if parked else "will be tried again"
            said = error if expected else type(error).__name__
            log.log(level, "%s %s %s: %s", *job, then, said, exc_info=not expected and error)


_LOCK_LEASE = "SELECT lease_token FROM jobs WHERE kind = :leader AND key = :owner FOR UPDATE SKIP LOCKED"


def postpone(
    tx: Tx,
    kind: JobKind[Any],
    key: str,
    due_at: float,
    after: float | None,
    why: str,
    *,
    counted: bool,
    lag: float = 0.0,
) -> tuple[bool, bool]:
    """Puts the job off, longer each time. After twenty failures the job waits for its deadline or for a change.

    `due_at` is when the job was due as it was claimed. If it is due at another time now, it has changed since, and is
    not put off. `lag` is a share of the time that the job has waited: the pause is at least as long.

    The time since when the job waits is kept. Parked jobs are counted apart. Returns whether the log has not said this
    yet, and whether the job is parked now.
    """
    row = tx.first(_LOCK, kind=kind.name, key=key)
    if row.due_at != due_at:
        return counted, False
    why = _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", why[:500])
    failures = row.failures + (1 if counted else 0)
    now = tx.now()
    parked = failures >= MOST_FAILURES
    since = due_at if row.owed_since is None else row.owed_since
    pause = after if after is not None else min(2.0 ** (failures - 1), LONGEST_PAUSE)
    pause = max(pause, min((now - since) * lag, LONGEST_LAG))
    deadline = kind.deadline(tx, key)
    again = deadline if parked else min(now + pause, deadline or math.inf)
    tx.run(
        _PUT_OFF,
        kind=kind.name,
        key=key,
        again=again,
        failed=failures,
        why=why,
        since=None if parked else since,
        parked=now if parked else None,
    )
    if again is not None:
        wake_when_due(tx, JobKey(kind.name, key), again)
    return parked or row.owed_since is None or (counted and row.trouble != why), parked


_LOCK = "SELECT failures, owed_since, due_at, trouble FROM jobs WHERE kind = :kind AND key = :key FOR UPDATE"
_PUT_OFF = """
    UPDATE jobs SET
        due_at = :again, failures = :failed, trouble = :why, owed_since = :since, parked_at = :parked
    WHERE kind = :kind AND key = :key
"""
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that no database takes. The trouble may quote an agent's server, which may say anything."""


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, ConfirmError) else f"{type(error).__name__}: {error}"
