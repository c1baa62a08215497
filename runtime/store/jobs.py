"""Jobs: one table says what is due, for both packages. A loop claims each job by lease, runs one task for it, and
releases it.

Nothing here depends on what a job means. What is due follows from the stored state, so there is no queue to lose: after
a restart the same loop goes on. A job that fails is retried at growing intervals. After twenty failures it is parked,
which operators see, and no longer blocks others.

    owe, settle  something is due; it is done
    JobKind      what one loop works on, and how much of it at once
    claim_due    whose turn it is, and what there is to do; one process gets each job
    LeaseLoop    the loop
    postpone     retries, and parks
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from adk_confirm.runtime.errors import Busy, ConfirmError, StoreError, was_cancelled
from adk_confirm.runtime.store.database import Clocks, Database, Tx, Waiter
from adk_confirm.runtime.store.lease import TERM, JobKey, Keeper, Lease, LeaseLost, keep_trying, new_token, topic_of
from adk_confirm.runtime.store.wakeups import until_stopped

log = logging.getLogger(__name__)

T = TypeVar("T")

SKIPPED = 0.05
_LOOKED_AT = 1000
"""How many due jobs are considered when choosing whose turn it is."""

_NOBODYS = " "
"""Prefix for the turn of a job that belongs to nobody. No name begins like this."""

_NO_ROWS: Mapping[str, str] = {}


def owe(
    tx: Tx, kind: str, key: str, at: float | None = None, *, turn: str | None = None, or_sooner: bool = False
) -> None:
    """There is something to do: now, or `at` that time. `turn`: whose turn it takes. `or_sooner`: a job that is due
    before that stays due then."""
    at = tx.now() if at is None else at
    tx.run(_OWE_OR_SOONER if or_sooner else _OWE, kind=kind, key=key, turn=turn, due_at=at)
    tx.notify(topic_of(kind), at)


def settle(tx: Tx, kind: str, key: str, again: float | None = None, *, turn: str | None = None) -> None:
    """Everything is done. `again`: when the next thing is due."""
    tx.run(_SETTLE, kind=kind, key=key, turn=turn, due_at=again)
    if again is not None:
        tx.notify(topic_of(kind), again)


def lock_job(tx: Tx, kind: str, key: str) -> None:
    """Lock the job before you look for work. Work stored meanwhile is either seen by you, or stored after `settle`,
    which makes the job due again."""
    tx.first("SELECT 1 FROM jobs WHERE kind = :kind AND key = :key FOR UPDATE", kind=kind, key=key)


_OWE = """
    INSERT INTO jobs (kind, key, turn, due_at) VALUES (:kind, :key, :turn, :due_at)
    ON CONFLICT (kind, key) DO UPDATE SET
        turn = excluded.turn, due_at = excluded.due_at, parked_at = NULL, failures = 0
"""
_OWE_OR_SOONER = """
    INSERT INTO jobs (kind, key, turn, due_at) VALUES (:kind, :key, :turn, :due_at)
    ON CONFLICT (kind, key) DO UPDATE SET
        turn = excluded.turn, parked_at = NULL, failures = 0,
        due_at = CASE WHEN jobs.due_at <= excluded.due_at THEN jobs.due_at ELSE excluded.due_at END
"""
_SETTLE = """
    INSERT INTO jobs (kind, key, turn, due_at) VALUES (:kind, :key, :turn, :due_at)
    ON CONFLICT (kind, key) DO UPDATE SET
        turn = excluded.turn, due_at = excluded.due_at, owed_since = NULL, parked_at = NULL, failures = 0,
        trouble = NULL
"""


def _no_deadline(tx: Tx, key: str) -> None:  # noqa: ARG001  (what `JobKind.deadline` is, by default)
    return None


def _no_context(key: str) -> AbstractContextManager[None]:  # noqa: ARG001  (what `JobKind.log_context` is, by default)
    return nullcontext()


@dataclass(frozen=True)
class ClaimedJob(Generic[T]):
    """A job that this process has claimed. `due_at` is when it was due, `turn` whose turn it takes. `found`: what there
    is to do, or why that can't be read."""

    token: str
    due_at: float
    turn: str
    found: T | ConfirmError


@dataclass(frozen=True)
class JobKind(Generic[T]):
    """One kind of job. `look` reads what there is to do, in the transaction that claims the job. `attend` does it. It
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
    deadline: Callable[[Tx, str], float | None] = _no_deadline
    log_context: Callable[[str], AbstractContextManager[None]] = _no_context  # how log lines name a job
    reserved: int = 0
    overtaken: Callable[[Tx, str], None] | None = None

    @property
    def most_in_turn(self) -> int:
        """How many jobs that belong to somebody may be processed at once."""
        return self.at_once - self.reserved

    @property
    def most_each(self) -> int:
        return max(1, self.most_in_turn // 2)


def claim_due(
    tx: Tx, kind: JobKind[T], room: int, term: float, at_work: Mapping[str, str] = _NO_ROWS
) -> tuple[list[tuple[str, ClaimedJob[T]]], float | None, bool]:
    """Claims the most overdue jobs that nobody processes. Also returns the seconds until the next job may be claimed: 0
    if there was no room for more, None if no other job is waiting. And whether others wait for one of those at work to
    end, because they take the same turn.

    Jobs that are `at_work` here, by key and by turn, are left alone: if this process was frozen for longer than its
    leases, they have expired although the work goes on.
    """
    now = tx.now()
    due = tx.all(_LOCK_DUE, kind=kind.name, now=now, most=room + len(at_work))
    found = [row for row in due if row.key not in at_work][:room]
    later = set[str]()  # those whose turn comes when another job of theirs has ended
    if any(row.turn for row in due) and (len(found) == room or _exceeds_share([*map(_turn_of, found)], kind, at_work)):
        found, later = _lock_in_turn(tx, kind, room, at_work)
    tokens = {row.key: new_token() for row in found}
    leases = [{"kind": kind.name, "key": key, "token": token, "until": now + term} for key, token in tokens.items()]
    tx.many(_TAKE, leases)
    claimed: list[tuple[str, ClaimedJob[T]]] = []
    for row in found:
        if row.lease_token is not None and kind.overtaken is not None:
            kind.overtaken(tx, row.key)
        what = _look(tx, kind, row.key)
        claimed.append((row.key, ClaimedJob(tokens[row.key], row.due_at, _turn_of(row), what)))
    if len(claimed) == room:
        return claimed, 0.0, bool(later)
    ours = at_work.keys() | {key for key, _ in claimed} | later
    soon = tx.all(_NEXT_DUE, kind=kind.name, now=now, most=len(ours) + 1)
    soon += tx.all(_NEXT_LAPSE, kind=kind.name, now=now, most=len(ours) + 1)
    times = [row.at for row in soon if row.key not in ours]
    # A job that is due but was not claimed is locked by a transaction right now. It will be free in a moment,
    # or when PostgreSQL ends the transaction of a process that is frozen.
    return claimed, max(min(times) - now, SKIPPED) if times else None, bool(later)


def _look(tx: Tx, kind: JobKind[T], key: str) -> T | ConfirmError:
    """What there is to do. An error is this job's alone: the others of the same claim go on."""
    try:
        return kind.look(tx, key)
    except (StoreError, Busy):
        raise
    except ConfirmError as error:
        return error


# The most overdue jobs that nobody holds.
_DUE = """
    SELECT key, due_at, lease_token, turn FROM jobs
    WHERE kind = :kind AND due_at <= :now AND (lease_until IS NULL OR lease_until <= :now)
    ORDER BY due_at LIMIT :most
"""
_LOCK_DUE = f"{_DUE} FOR UPDATE SKIP LOCKED"
_NOBODYS_DUE = _DUE.replace("WHERE", "WHERE turn IS NULL AND")
_LOCK_AGAIN = """
    SELECT key FROM jobs
    WHERE kind = :kind AND key IN :keys AND due_at <= :now AND (lease_until IS NULL OR lease_until <= :now)
    FOR UPDATE SKIP LOCKED
"""
_TAKE = "UPDATE jobs SET lease_token = :token, lease_until = :until WHERE kind = :kind AND key = :key"
_NEXT_DUE = """
    SELECT key, due_at AS at FROM jobs
    WHERE kind = :kind AND due_at IS NOT NULL AND (lease_until IS NULL OR lease_until <= :now)
    ORDER BY due_at LIMIT :most
"""
_NEXT_LAPSE = """
    SELECT key, CASE WHEN due_at > lease_until THEN due_at ELSE lease_until END AS at FROM jobs
    WHERE kind = :kind AND lease_token IS NOT NULL AND lease_until > :now AND due_at IS NOT NULL
    ORDER BY lease_until LIMIT :most
"""


def _turn_of(row: Any) -> str:
    return row.turn or f"{_NOBODYS}{row.key}"


def _count_owned(turns: Iterable[str]) -> int:
    """How many of these jobs are somebody's."""
    return sum(not turn.startswith(_NOBODYS) for turn in turns)


def _exceeds_share(turns: Sequence[str], kind: JobKind[Any], at_work: Mapping[str, str]) -> bool:
    """Whether the claim would give somebody more than their share."""
    every = [*at_work.values(), *turns]
    return _count_owned(every) > kind.most_in_turn or any(count > kind.most_each for count in Counter(every).values())


def _lock_in_turn(tx: Tx, kind: JobKind[Any], room: int, at_work: Mapping[str, str]) -> tuple[list[Any], set[str]]:
    """Locks the jobs whose turn it is: the first job of everybody before anybody's second. Also returns the keys of
    those whose turn it is not."""
    now, count = tx.now(), Counter(at_work.values())
    ranked: list[tuple[int, int, Any]] = []
    most = _LOOKED_AT + len(at_work)
    due = tx.all(_DUE, kind=kind.name, now=now, most=most)
    if len(due) >= _LOOKED_AT:  # nobody's have slots of their own, however much of somebody's comes before them
        due = [*{row.key: row for row in (*due, *tx.all(_NOBODYS_DUE, kind=kind.name, now=now, most=most))}.values()]
    for place, row in enumerate(row for row in due if row.key not in at_work):
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
    later = {row.key for row in due} - {row.key for row in chosen} - at_work.keys()
    chosen = chosen[:room]
    if chosen and tx.dialect != "sqlite":  # SQLite has only one writer
        locked = set(tx.column(_LOCK_AGAIN, kind=kind.name, keys=[row.key for row in chosen], now=now))
        chosen = [row for row in chosen if row.key in locked]
    return sorted(chosen, key=lambda row: float(row.due_at)), later


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


class LeaseLoop(Generic[T]):
    """Processes the jobs of one kind until it is stopped."""

    def __init__(
        self,
        database: Database,
        kind: JobKind[T],
        *,
        poll: float = POLL,
        term: float = TERM,
        keeper: Keeper | None = None,
    ) -> None:
        self._database, self._kind, self._poll, self._term = database, kind, poll, term
        self._keeper = keeper or Keeper(database, term)
        self._tasks: dict[asyncio.Task[None], tuple[str, str]] = {}  # job key: turn
        self._full = False  # jobs may be due that wait for one of these to end
        self.trouble: str | None = None  # why no job can be claimed now
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Processes jobs until `stop`, and returns when its last jobs are done. If cancelled, so are they, and
        each releases its lease."""
        try:
            with self._database.waiter(topic_of(self._kind.name)) as waiter:
                while not self._stopping.is_set():
                    await self._begin(waiter)
            if self._tasks:
                await asyncio.wait(self._tasks)
        except asyncio.CancelledError:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)  # each releases its lease
            raise

    def stop(self) -> None:
        self._stopping.set()

    @property
    def name(self) -> str:
        return self._kind.name

    @property
    def at_work(self) -> list[str]:
        """The keys of the jobs that are being processed."""
        return [f"{self._kind.name} {key}" for key, _ in self._tasks.values()]

    async def _begin(self, waiter: Waiter) -> None:
        loop, before, asked = asyncio.get_running_loop(), set(self._tasks), self._database.clocks()
        claimed, pause = await self._claim(self._kind.at_once - len(before))
        if self._full and not before <= self._tasks.keys():  # meanwhile one has ended that others wait for
            pause = min(pause, REFILL)
        for key, claim in claimed:
            task = asyncio.create_task(self._attend(key, claim, asked))
            self._tasks[task] = key, claim.turn
            task.add_done_callback(self._tasks.pop)
            task.add_done_callback(lambda _: self._full and loop.call_later(REFILL, waiter.wake))
        if pause:
            await until_stopped(self._stopping, waiter.wait(pause))

    async def _claim(self, room: int) -> tuple[list[tuple[str, ClaimedJob[T]]], float]:
        """Claims due jobs. Also returns the seconds until the next look is worthwhile."""
        self._full = room <= 0
        if self._full:
            return [], self._poll
        try:
            held = self._keeper.keys(self._kind.name)  # also by what this process began without the loop
            at_work = {key: f"{_NOBODYS}{key}" for key in held} | dict(self._tasks.values())
            room = min(room, HELPING)
            claimed, next_due, self._full = await self._database.run(claim_due, self._kind, room, self._term, at_work)
        except (StoreError, Busy) as error:
            log.warning("the store did not answer: %s", error)
            self.trouble = str(error)
            return [], min(self._poll, AGAIN)
        self.trouble = None
        return claimed, self._poll if next_due is None else min(self._poll, next_due)

    async def _attend(self, key: str, claim: ClaimedJob[T], asked: Clocks) -> None:
        kind = self._kind
        job = JobKey(kind.name, key)
        lease = Lease(self._database, job, claim.token, term=self._term, keeper=self._keeper, asked=asked)
        with kind.log_context(key):
            try:
                async with lease:
                    await self._attend_once(key, claim, lease)
            except LeaseLost:
                log.info("%s %s was taken over by another process; nothing more was written here", kind.name, key)
                await self._call_overtaken(key)
            except StoreError as error:
                log.warning("the store did not answer; %s %s is tried again: %s", kind.name, key, error)
                await self._call_overtaken(key)  # or so it seems: after a freeze the connections break first

    async def _call_overtaken(self, key: str) -> None:
        """Calls the job's `overtaken`. Tries several times, since the connections may be dead after a freeze."""
        overtaken = self._kind.overtaken
        if overtaken is not None:
            error = await keep_trying(lambda: self._database.run(overtaken, key), LONGEST_FREEZE)
            if error is not None:
                log.warning("%s %s may show what was sent last: %s", self._kind.name, key, error)

    async def _attend_once(self, key: str, claim: ClaimedJob[T], lease: Lease) -> None:
        try:
            if isinstance(claim.found, ConfirmError):
                raise claim.found
            await self._kind.attend(key, lease, claim.found)
        except LeaseLost:
            raise
        except StoreError:
            await until_stopped(self._stopping, asyncio.sleep(AGAIN))  # given back at once, it would come up at once
            raise
        except (Exception, asyncio.CancelledError) as error:  # the outermost boundary of one job's work
            if isinstance(error, asyncio.CancelledError) and was_cancelled():
                raise
            try:
                await self._put_off(key, claim, lease, error)
            except (StoreError, LeaseLost):
                raise
            except Exception:
                lease.stop()  # releasing its lease would make it due again at once, without end
                log.exception("%s %s could not be put off, and is left to its lease", self._kind.name, key)

    async def _put_off(self, key: str, claim: ClaimedJob[T], lease: Lease, error: BaseException) -> None:
        if isinstance(error, PutOff):
            lag = WHILE_FAILING if error.failing else 0.0
            after, why = error.after, str(error)
            first = await lease.finish(postpone, self._kind, key, claim.due_at, after, why, counted=False, lag=lag)
            level = logging.INFO if first else logging.DEBUG  # a job may wait for hours
            log.log(level, "%s %s is put off for %.3g s: %s", self._kind.name, key, error.after, error)
        else:
            expected = isinstance(error, ConfirmError)
            log.log(
                logging.WARNING if expected else logging.ERROR,
                "%s %s will be tried again: %s",
                self._kind.name,
                key,
                error if expected else type(error).__name__,
                exc_info=not expected and error,
            )
            await lease.finish(postpone, self._kind, key, claim.due_at, None, _words(error), counted=True)


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
) -> bool:
    """Puts the job off, longer each time. After twenty failures the job waits for its deadline or for a change.

    `due_at` is when the job was due as it was claimed. If it is due at another time now, it has changed since, and is
    not put off. `lag` is a share of the time that the job has waited: the pause is at least as long.

    The time since when the job waits is kept. Parked jobs are counted apart. Returns whether this is the first time.
    """
    row = tx.first(_LOCK, kind=kind.name, key=key)
    if row.due_at != due_at:
        return False
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
        why=_UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", why[:500]),
        since=None if parked else since,
        parked=now if parked else None,
    )
    return row.owed_since is None


_LOCK = "SELECT failures, owed_since, due_at FROM jobs WHERE kind = :kind AND key = :key FOR UPDATE"
_PUT_OFF = """
    UPDATE jobs SET
        due_at = :again, failures = :failed, trouble = :why, owed_since = :since, parked_at = :parked
    WHERE kind = :kind AND key = :key
"""
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that no database takes. The trouble may quote an agent's server, which may say anything."""


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, ConfirmError) else f"{type(error).__name__}: {error}"
