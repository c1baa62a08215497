"""Jobs: one table says what is due, for `runtime` and `bot`. A loop takes jobs by lease (`lease_loop.py`).

Nothing here depends on what a job means. What is due follows from the stored state, so there is no queue to lose: after
a restart the same loop goes on. A job that fails is retried at growing intervals. After twenty failures it is parked,
which operators see, and no longer blocks others.

One lease covers an owner, such as a thread, and all its jobs: cards, lines and runs. It is the lease of the owner's job
of the loop's first kind.

    owe, settle  something is due; it is done
    JobKind      one kind of work, and how much of it at once
    claim_due    whose turn it is, and what there is to do; one process gets each owner
    postpone     retries, and parks
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from adk_confirm.runtime.errors import Busy, ConfirmError, StoreError
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.lease import (
    JobKey,
    Lease,
    new_token,
    topic_of,
    wake_when_due,
)

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
    """A job that is due now. `turn`: the person or thread whose share of the slots it takes."""

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
    whose share of the slots it takes (`JobKind`). `or_sooner`: a job that is due earlier stays due then."""
    at = tx.now() if at is None else at
    owed = tx.first(_OWE_OR_SOONER if or_sooner else _OWE, kind=kind, key=key, owner=owner, turn=turn, due_at=at)
    tx.leases["lease", f"{kind} {key}"] = owed.lease_token
    _tell(tx, Due(JobKey(kind, key), owner or key, owed.due_at, _turn_of(turn, key)))


def settle(
    tx: Tx, kind: str, key: str, again: float | None = None, *, owner: str | None = None, turn: str | None = None
) -> None:
    """Notes that the job has nothing left to do. `again`: when it is due next."""
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
    tx.lock("SELECT 1 FROM jobs WHERE kind = :kind AND key = :key FOR UPDATE", kind=kind, key=key)


_OWE = """
    INSERT INTO jobs (kind, key, owner, turn, due_at) VALUES (:kind, :key, :owner, :turn, :due_at)
    ON CONFLICT (kind, key) DO UPDATE SET
        turn = excluded.turn, due_at = excluded.due_at, parked_at = NULL, failures = 0
    RETURNING due_at, lease_token
"""
_OWE_OR_SOONER = """
    INSERT INTO jobs (kind, key, owner, turn, due_at) VALUES (:kind, :key, :owner, :turn, :due_at)
    ON CONFLICT (kind, key) DO UPDATE SET
        turn = excluded.turn, parked_at = NULL, failures = 0,
        due_at = CASE WHEN jobs.due_at <= excluded.due_at THEN jobs.due_at ELSE excluded.due_at END
    RETURNING due_at, lease_token
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
    once it notices, since the former holder's last message may arrive after those of the new one.
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
    """What a process works on: `jobs`; the `tokens` of the owners that it holds, of which it could release the `idle`
    ones; and the owners that it has leased `elsewhere`, outside of the loop.

    Its claims take none of these `jobs`, and nothing of owners `elsewhere` or with a new token: after a freeze a lease
    may have expired while its work goes on. `drains`: the process begins no job of the first kind any more, so others
    may have an idle owner for which one is due. `choosing`: held by one chooser of jobs at a time. It gives the jobs
    that are at work, or will be in a moment, with their turns; the chooser adds its own.
    """

    jobs: Collection[JobKey] = ()
    choosing: Callable[[], AbstractContextManager[dict[JobKey, str]]] = lambda: nullcontext({})
    tokens: dict[str, str] = field(default_factory=dict)
    idle: Collection[str] = ()
    elsewhere: Collection[str] = ()
    drains: bool = False

    def may_take(self, owner: str, token: str | None) -> bool:
        """Whether a claim may give this process something of the owner's. `token`: that of its lease."""
        return owner not in self.elsewhere and self.tokens.get(owner, token) == token


@dataclass
class Claim:
    """What a claim gave. `pause`: the seconds until the next one is worthwhile: 0 if there is more than fits into one,
    None if nothing is known to become due. `full`: the kinds of which jobs wait until one at work ends. `released`: the
    idle owners that this claim gave back, or an earlier one whose answer was lost."""

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
    with at.choosing() as busy:
        for kind in wanted:
            ours = [row for row in due if row.kind == kind.name]
            in_turn = _choose_in_turn(ours, kind, turns_beside(busy, kind, [JobKey(row.kind, row.key) for row in ours]))
            full |= {kind.name} if len(in_turn) < len(ours) else set()
            chosen += sorted(in_turn[: room[kind.name]], key=lambda row: row.due_at)
        busy |= {JobKey(row.kind, row.key): _turn(row) for row in chosen}
    taken = _take_owners(tx, kinds, chosen, term, at)
    claimed = [_claimed(tx, kinds, row, taken[row.owner]) for row in chosen if row.owner in taken]
    lost = {row.owner for row in rows if not at.may_take(row.owner, row.token)}
    idle = [owner for owner in at.idle if owner not in taken]
    ends = {owner: at.tokens[owner] for owner in idle if owner not in lost}
    released = [*lost.intersection(idle), *give_back(tx, kinds[0].name, ends, at.drains)]
    count = Counter(one.job.kind for one in claimed)
    if any(count[kind.name] == room[kind.name] for kind in wanted):
        return Claim(claimed, 0.0, full, released)
    times = _read_next(tx, kinds[0], wanted, {*at.tokens, *taken, *at.elsewhere})
    # What was chosen and not claimed is locked by a transaction right now. It will be free in a moment, or when
    # PostgreSQL ends the transaction of a process that is frozen. So will an owner that we have just lost or released.
    times += [now] if lost or any(row.owner not in taken for row in chosen) else []
    return Claim(claimed, max(min(times) - now, SKIPPED) if times else None, full, released)


class _Row(NamedTuple):
    """A due job, as it is read. `token`: of its owner's lease. `leads`: whether its owner has a row for a lease."""

    kind: str
    key: str
    due_at: float
    turn: str | None
    owner: str
    token: str | None
    leads: str | None


_CROWDS = "kind, turn IS NULL"
"""Each group is numbered by itself: a crowd in one hides no other kind of job, and no job that is nobody's."""
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
    """Takes the leases of the owners of these jobs. Returns the tokens of those that this process holds now. Jobs that
    are no longer due are removed from `chosen`."""
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


def take_free(tx: Tx, leader: str, owner: str, term: float, *, leads: bool) -> str | None:
    """Takes the lease of an owner that nobody holds, and returns its token. `leads`: the lease has a row, which is
    locked. None if another process makes that row at this moment."""
    token, until = new_token(), tx.now() + term
    if leads:
        tx.run(_TAKE, kind=leader, key=owner, token=token, until=until)
    return token if leads or _lead(tx, leader, owner, token, until) else None


def _lead(tx: Tx, kind: str, key: str, token: str, until: float) -> bool:
    """Makes the row of an owner's lease."""
    return tx.insert("jobs", {"kind": kind, "key": key, "lease_token": token, "lease_until": until}, if_absent=True)


def _call_overtaken(tx: Tx, kinds: Kinds, owner: str) -> None:
    """Calls `overtaken` for the owner's unfinished jobs: another process may have worked on them when it died."""
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


def give_back(tx: Tx, leader: str, held: Mapping[str, str], drains: bool = False) -> list[str]:
    """Releases the owners without a due job that this process would do, and returns them. `held`: the tokens, by
    owner."""
    if not held:
        return []
    # Whoever stores that something is due has locked the lease, or does that after us.
    tx.lock(_LOCK_LEASES, leader=leader, owners=[*held])
    if drains:
        tx.notify(topic_of(leader))
    tokens = [*held.values()]
    given = tx.column(_GIVE_BACK, leader=leader, owners=[*held], tokens=tokens, now=tx.now(), drains=drains)
    for owner in given:
        tx.leases.pop(("held", held[owner]), None)
        tx.leases.pop(("lease", f"{leader} {owner}"), None)
    return given


def _claimed(tx: Tx, kinds: Kinds, row: _Row, token: str) -> ClaimedJob:
    kind = next(kind for kind in kinds if kind.name == row.kind)
    return ClaimedJob(JobKey(row.kind, row.key), row.owner, token, row.due_at, _turn(row), look_at(tx, kind, row.key))


def look_at(tx: Tx, kind: JobKind[Any], key: str) -> Any:
    """What there is to do. An error is this job's alone: others go on, and so does the transaction that made it due."""
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
    """How many of these turns are somebody's."""
    return sum(not turn.startswith(_NOBODYS) for turn in turns)


def turns_beside(busy: Mapping[JobKey, str], kind: JobKind[Any], asked: Collection[JobKey]) -> list[str]:
    """The turns that a kind's busy jobs take, without the `asked` jobs."""
    return [turn for job, turn in busy.items() if job.kind == kind.name and job not in asked]


def exceeds_share(turn: str, kind: JobKind[Any], at_work: Sequence[str]) -> bool:
    """Whether one more job would give somebody more than their share."""
    crowded = not turn.startswith(_NOBODYS) and _count_owned(at_work) >= kind.most_in_turn
    return crowded or at_work.count(turn) >= kind.most_each


def _choose_in_turn(due: Sequence[_Row], kind: JobKind[Any], at_work: Sequence[str]) -> list[_Row]:
    """The jobs to do next, within everybody's share: the first of everybody before anybody's second."""
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


# Putting off

MOST_FAILURES = 20
LONGEST_PAUSE = 300.0
LONGEST_LAG = 10.0


class PutOff(Exception):
    """The job should be tried again in `after` seconds, and this is not its fault. `failing`: a service that it needs
    fails, so the pause grows with the time that the job has waited."""

    after: float
    failing: bool = False


class NotNow(ConfirmError, PutOff):
    """The job can't be processed now, and this is not its fault. It is tried again after `after` seconds."""

    def __init__(self, after: float, why: str) -> None:
        super().__init__(why)
        self.after = after


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
    not put off. `lag`: the pause is at least this share of the time that the job has waited.

    The time since when it waits is kept, but not for a parked job, as metrics count those apart. Returns whether this
    is news for the log, and whether the job is parked now.
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
