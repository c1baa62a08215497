"""Takes due jobs by lease, and runs one task for each.

The holder of an owner's lease works on all of the owner's jobs side by side, and gives the lease back when none is due.
A transaction of this process that makes a job due also takes it along if there is room: it claims the job for the loop,
so nobody has to look for it.

    LeaseLoop    the loop
    Lane         a lease, as one job under it uses it
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from itertools import groupby
from typing import Any, Concatenate, ParamSpec, TypeVar

from adk_confirm.runtime.errors import Busy, ConfirmError, StoreError, was_cancelled
from adk_confirm.runtime.store.database import Clocks, Database, Tx, Waiter
from adk_confirm.runtime.store.jobs import (
    MOST_FAILURES,
    AtWork,
    Claim,
    ClaimedJob,
    Due,
    JobKind,
    PutOff,
    Unreadable,
    claim_due,
    exceeds_share,
    give_back,
    look_at,
    postpone,
    take_free,
    turns_beside,
)
from adk_confirm.runtime.store.lease import TERM, JobKey, Keeper, Lease, LeaseLost, keep_trying, topic_of
from adk_confirm.runtime.store.wakeups import until_stopped

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

WHILE_FAILING = 0.25
"""While a service that a job needs fails, the job's next pause is this share of the time that it has waited, up to
`LONGEST_LAG` seconds."""
POLL = 5.0
HELPING = 16
"""The most jobs of one claim. A claim waits for a connection behind the work on those claimed before, so a store that
can't keep up is not asked for more. Jobs that wait in a process have leases that must be renewed again and again."""
REFILL = 0.05
"""Seconds between the end of a job and the next claim when others wait for its slot, so that several ended jobs are
replaced together."""
AGAIN = 1.0
LONGEST_FREEZE = 10.0


@dataclass
class _Held:
    """An owner that this process holds: its lease, the jobs of it that are at work, and those whose last transaction is
    under way."""

    lease: Lease
    jobs: set[JobKey] = field(default_factory=set)
    ending: set[JobKey] = field(default_factory=set)


class Lane(Lease):
    """The lease of an owner, as one of its jobs uses it: the last of the jobs at work releases it."""

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
        return last and bool(give_back(tx, self.job.kind, {self.job.key: self.token}))


@dataclass(frozen=True)
class _Taken:
    """What a transaction has taken along: reported to the loop once it is committed. `due`: the jobs at work that it
    made due again. `ended`: the job whose last transaction it was. `alarms`: in how many seconds jobs become due; None:
    they are not due later any more."""

    loop: LeaseLoop
    asked: Clocks
    jobs: Sequence[ClaimedJob]
    due: Collection[JobKey]
    ended: object
    alarms: Mapping[JobKey, float | None]


class LeaseLoop:
    """Processes jobs of some kinds until it is stopped. The leases of the first kind cover the jobs of all kinds."""

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
        self._next: dict[JobKey, tuple[ClaimedJob, _Held]] = {}  # begin when the same jobs, at work now, have ended
        self._ended_at: dict[JobKey, float] = {}  # within the last term, and some from before
        self._due_again: set[JobKey] = set()  # these became due again since their last transaction began
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False  # no job of the first kind is begun any more
        self._over = False  # nothing is begun any more
        self._leaving: asyncio.Task[None] | None = None
        # Jobs that transactions took along, perhaps not committed yet: whose turn each takes, and when it was taken.
        self._taken: dict[JobKey, tuple[str, float]] = {}
        self._claiming: set[JobKey] = set()  # those of them that the loop's claim has chosen
        self._reserving = threading.Lock()
        self._full: set[str] = set()  # kinds whose due jobs, if any, wait for one at work to end
        self._waiter: Waiter | None = None
        self._alarms: dict[JobKey, asyncio.TimerHandle] = {}  # of what becomes due before the next look
        self.trouble: str | None = None  # why no job can be claimed now
        self._stopping = asyncio.Event()
        database.listen(self._begin_taken)

    async def run(self) -> None:
        """Processes jobs until `stop`, and returns when its last jobs are done. If it is cancelled, it cancels its jobs
        and releases their leases."""
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
        """Begins no job of the first kind any more, and leaves to other processes those that become due. Waits for
        those at work, for at most `patience` seconds. Jobs of other kinds go on."""
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
        self._forget(self._claiming)  # those of them that are at work are in `_jobs` by now
        self._claiming.clear()
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
        past = self._database.clocks().running - self._term
        # A transaction that was rolled back reports nothing, so what it took is forgotten after a term.
        self._forget([job for job, (_, at) in self._taken.copy().items() if at <= past])
        at = AtWork({*self._jobs}, partial(self._choosing, self._claiming), held, idle, elsewhere, self._draining)
        try:
            claim = await self._database.run(claim_due, [*self._kinds.values()], room, self._term, at)
        except (StoreError, Busy) as error:
            level = logging.WARNING if self.trouble is None else logging.DEBUG  # once, and not every second
            log.log(level, "the store did not answer, and is asked again until it does: %s", error)
            self.trouble = str(error)
            return Claim([], AGAIN, set(), [])
        self.trouble = None
        self._full |= claim.full
        return claim

    @contextmanager
    def _choosing(self, chosen: set[JobKey] | None = None) -> Iterator[dict[JobKey, str]]:
        """See `AtWork`. `chosen`: what an earlier try of the transaction chose; it then gets what this try chooses."""
        with self._reserving:
            for job in chosen or ():
                self._taken.pop(job, None)
            before = {**{job: turn for job, (turn, _) in self._taken.items()}, **self._jobs.copy()}
            busy, at = before.copy(), self._database.clocks().running
            yield busy
            new = {job: turn for job, turn in busy.items() if job not in before}
            self._taken |= {job: (turn, at) for job, turn in new.items()}
            if chosen is not None:
                chosen.clear()
                chosen.update(new)

    def _forget(self, jobs: Iterable[JobKey]) -> None:
        with self._reserving:
            for job in jobs:
                self._taken.pop(job, None)

    def _room(self, kind: JobKind[Any]) -> int:
        if self._draining and kind.name == self._leader:
            return 0
        return kind.at_once - sum(job.kind == kind.name for job in self._jobs.copy())

    # What other transactions of this process make due

    def _take(self, tx: Tx) -> None:
        """Takes along the jobs that this transaction made due, in the transaction's thread. What can't be taken now is
        claimed later, here or elsewhere."""
        due = {one.job: one for one in tx.owed if one.job.kind in self._kinds and not self._stopping.is_set()}
        busy = {job for job in due if job in self._jobs and job != tx.ended}
        asked, taken = self._database.clocks(), list[ClaimedJob]()
        for owner, jobs in groupby(sorted(due.values(), key=lambda one: one.owner), lambda one: one.owner):
            wanted = self._reserve([one for one in jobs if one.job not in busy])
            token = self._take_owner(tx, owner) if wanted else None
            for job, _, due_at, turn in wanted:
                if token is None:
                    self._forget([job])
                else:
                    found = look_at(tx, self._kinds[job.kind], job.key)
                    taken.append(ClaimedJob(job, owner, token, due_at, turn, found))
        alarms = {job: seconds for job, seconds in tx.alarms.items() if job.kind in self._kinds}
        if taken or busy or alarms:
            tx.report(_Taken(self, asked, taken, busy, tx.ended, alarms))
        left = {job.kind for job in due.keys() - busy - {one.job for one in taken}}
        tx.topics -= {topic_of(job.kind) for job in due if job.kind not in left}

    def _reserve(self, due: Sequence[Due]) -> list[Due]:
        """Those of these jobs for which there is room. Transactions that end at the same time share the room."""
        reserved: list[Due] = []
        with self._choosing() as busy:
            for one in due:
                kind = self._kinds[one.job.kind]
                room = kind.name not in self._full and self._room(kind) > 0
                if room and not exceeds_share(one.turn, kind, turns_beside(busy, kind, [one.job])):
                    busy[one.job] = one.turn
                    reserved.append(one)
        return reserved

    def _take_owner(self, tx: Tx, owner: str) -> str | None:
        """The token of the owner's lease, which is ours or was free. None if another process has it, or had it and did
        not release it."""
        held = self._held.get(owner)
        if held is not None and ("held", held.lease.token) in tx.leases:
            return held.lease.token
        known = ("lease", f"{self._leader} {owner}")
        found = [tx.leases[known]] if known in tx.leases else tx.column(_LOCK_LEASE, leader=self._leader, owner=owner)
        if held is None and owner in self._keeper.keys(self._leader):
            return None
        if held is not None:
            return held.lease.token if found == [held.lease.token] else None
        if any(found):
            return None
        return take_free(tx, self._leader, owner, self._term, leads=bool(found))

    def _begin_taken(self, fact: object) -> None:
        """Begins what a transaction took along. Called on the event loop, before the transaction's caller goes on."""
        if not (isinstance(fact, _Taken) and fact.loop is self):
            return
        self._forget(one.job for one in fact.jobs)
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
            elif one.job not in self._jobs:  # it may have been done since the claim began: look again
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
                self._wake()  # the process that took it may be gone by now
            held.lease.stop()
        if job.kind in self._full:
            asyncio.get_running_loop().call_later(REFILL, self._wake)

    def _wake(self) -> None:
        if self._waiter is not None:
            self._waiter.wake()

    async def _let_all_go(self, patience: float) -> None:
        """Releases all leases at the loop's end. One that a transaction takes just now follows once it is known."""
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
            except asyncio.CancelledError:  # its last transaction may be committed after the lease is released
                await self._call_overtaken(kind, job)
                raise

    async def _call_overtaken(self, kind: JobKind[Any], job: JobKey) -> None:
        """Calls the job's `overtaken`. Until that is stored, this process does not go on with the job: what was sent
        last would be sent again."""
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
            await until_stopped(self._stopping, asyncio.sleep(AGAIN))  # else the job would be claimed again at once
            raise
        except (Exception, asyncio.CancelledError) as error:  # the outermost boundary of one job's work
            if isinstance(error, asyncio.CancelledError) and was_cancelled():
                raise
            try:
                await self._put_off(kind, claimed, lease, error)
            except (StoreError, LeaseLost):
                raise
            except Exception:
                lease.stop()  # if released, the job would be claimed again at once, without end
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


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, ConfirmError) else f"{type(error).__name__}: {error}"
