"""Leases: who may work on a job now.

    claim    one conditional write; one caller gets the token, the others get None
    holds    fences a holder's writes: its token is still there, and nobody can take the job before the commit
    Lease    reads and writes for its holder
    Keeper   renews the leases of one process, all that it has in one statement, while their work lasts

A lease ends by time, so a dead process keeps nothing. Its token stays until somebody else claims the job, so a holder
that is late may still write until then. Effects outside the store can't be fenced like that: right before one comes
`await lease.sure()`. It asks the store, unless two clocks say that the lease was taken or renewed just now.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Self, TypeVar

from adk_confirm.runtime.errors import Busy, StoreError
from adk_confirm.runtime.store.database import Clocks, Database, Tx, Waiter
from adk_confirm.runtime.store.transaction import goes_first

TERM = 10.0
"""Seconds until the lease of a dead process expires, unless a setting says otherwise."""
POLL = 5.0
_LONGEST_PAUSE = 1.0
_LOCKED = 0.05

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)


class LeaseLost(Busy):
    """Another worker took over the job. Whoever gets this must stop; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("Another process took over; look at the session again before trying once more.")


def new_token() -> str:
    return secrets.token_hex(16)


class JobKey(NamedTuple):
    """Names a job: its kind, and the key of what is worked on."""

    kind: str
    key: str


def topic_of(kind: str) -> str:
    """The topic that is notified when a job of the kind may be due."""
    return f"jobs:{kind}"


def wake_when_due(tx: Tx, job: JobKey, at: float) -> None:
    """Wakes those who wait for jobs of the kind: at once if the job is due. Else in this process alone, when it becomes
    due and is not done. Other processes see that when they poll."""
    seconds = at - tx.now()
    tx.alarms[job] = seconds if seconds > 0 else None
    if seconds <= 0:
        tx.notify(topic_of(job.kind))


_CLAIM = """
    INSERT INTO jobs (kind, key, due_at, lease_token, lease_until) VALUES (:kind, :key, :now, :token, :until)
    ON CONFLICT (kind, key) DO UPDATE SET
        due_at = excluded.due_at, failures = 0, parked_at = NULL,
        lease_token = excluded.lease_token, lease_until = excluded.lease_until
    WHERE jobs.lease_until IS NULL OR jobs.lease_until <= :now
"""
_RENEW = """
    UPDATE jobs SET lease_until = :until WHERE lease_token IN (
        SELECT lease_token FROM jobs WHERE lease_token IN :tokens FOR UPDATE SKIP LOCKED
    )
    RETURNING lease_token
"""
_HELD = "SELECT lease_token FROM jobs WHERE lease_token IN :tokens"
_RELEASE = """
    UPDATE jobs SET lease_token = NULL, lease_until = NULL WHERE kind = :kind AND key = :key AND lease_token = :token
    RETURNING due_at
"""
_UNTIL = "SELECT lease_until FROM jobs WHERE kind = :kind AND key = :key AND lease_token = :token"
_LOCK_HELD = f"{_UNTIL} FOR UPDATE"
_EXTEND = "UPDATE jobs SET lease_until = :until WHERE kind = :kind AND key = :key"


def claim(tx: Tx, job: JobKey, *, term: float) -> str | None:
    """Claims the job and returns the token, or None if somebody else holds it. The job is due from now on, until its
    holder settles it: if the holder dies, others find it."""
    token, now = new_token(), tx.now()
    claimed = tx.run(_CLAIM, kind=job.kind, key=job.key, token=token, now=now, until=now + term)
    return token if claimed else None


def renew(tx: Tx, tokens: Collection[str], *, term: float) -> tuple[set[str], set[str]]:
    """Renews leases. Returns the tokens of those that belong to somebody else now, and of those that were not renewed
    because a transaction has locked them."""
    left = {*tokens} - {*tx.column(_RENEW, tokens=[*tokens], until=tx.now() + term)}
    locked = left & {*tx.column(_HELD, tokens=[*left])} if left else left
    return left - locked, locked


def release(tx: Tx, job: JobKey, token: str, *, topic: str | None = None) -> bool:
    """Releases the job. Those who wait for its kind are woken when it is due: at once, later, or never. Those who wait
    for `topic` are woken at once."""
    released = tx.first(_RELEASE, kind=job.kind, key=job.key, token=token)
    if released is None:
        return False
    if released.due_at is not None:
        wake_when_due(tx, job, released.due_at)
    if topic is not None:
        tx.notify(topic)
    return True


def holds(tx: Tx, job: JobKey, token: str, *, term: float = 0.0) -> bool:
    """Whether the job belongs to the token. If so, this stays true until the transaction ends. With a `term` it stays
    true for a third of that longer: for a transaction that stores that an effect begins."""
    if not term and ("held", token) in tx.leases:
        return True
    until: float | None = tx.value(_LOCK_HELD, kind=job.kind, key=job.key, token=token)
    if until is not None and term and until < tx.now() + term / 3:
        tx.run(_EXTEND, kind=job.kind, key=job.key, until=tx.now() + term)
    if until is not None:
        tx.leases["held", token] = job
    return until is not None


def remaining(tx: Tx, job: JobKey, token: str) -> float | None:
    """Seconds left on the lease. None if the job does not belong to the token."""
    until: float | None = tx.value(_UNTIL, kind=job.kind, key=job.key, token=token)
    return None if until is None else until - tx.now()


@dataclass
class Kept:
    """What is known of a lease without asking: what the clocks said when it was last claimed or renewed, whether it was
    released, and `lives`: whether something that nobody can stop still needs it (`Lease.leave`)."""

    asked: Clocks | None
    released: bool = False
    lives: Callable[[], object] | None = None


@dataclass(frozen=True)
class _Carried(Generic[R]):
    """What the holder's next transaction writes first, and who hears that it is written."""

    write: Callable[[Tx], R]
    written: Callable[[R], None]


def _nothing(tx: Tx) -> None:
    """A transaction of which only what is carried counts."""


class Lease:
    """A claimed job. It is renewed while the `async with` block runs, then released. `keeper` renews it together with
    others. `work`: the job that is done under it; in a `Lane`, one of its owner's.

    Its holder reads and writes through it: `run` undoes what is written once the job belongs to somebody else. Nothing
    is cancelled then, since half a tool's run is worse than a whole one. `lost` is set only
    when the store says that the job belongs to somebody else, not by the end of the term: a process that was frozen
    for longer may find that it still has the job, and goes on.
    """

    def __init__(
        self,
        database: Database,
        job: JobKey,
        token: str,
        *,
        term: float,
        topic: str | None = None,
        keeper: Keeper | None = None,
        asked: Clocks | None = None,
    ) -> None:
        """`asked`: what the clocks said when the claim began."""
        self.token = token
        self.lost = asyncio.Event()
        self.kept = Kept(asked)
        self._database = database
        self.job = self.work = job
        self._topic = topic
        self.term = term
        self._keeper = keeper or Keeper(database, term)
        self._carried: _Carried[Any] | None = None
        self._one_carries = asyncio.Lock()

    async def __aenter__(self) -> Self:
        self.keep()
        return self

    def keep(self) -> None:
        """Has the lease renewed until it is released or stopped."""
        self._keeper.add(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.kept.lives is None:
            self._keeper.discard(self.token)
        await self.give_back(0.0 if kind is asyncio.CancelledError else self.term)

    async def give_back(self, patience: float) -> None:
        """Releases the job, if it is still ours and is not left, and tries for so many seconds."""
        if not (self.kept.released or self.lost.is_set()):
            # The work is done and stored, so a store that stays away must not make it look as if it were not.
            error = await keep_trying(self.release, patience)
            if error is not None:
                _log.warning("A lease was not released, and runs out by itself: %s", error)
        self.stop()

    async def run(self, fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """A transaction that only counts if the job is ours at its end. The job is checked last, and so also locked
        last, so that `fn` can lock other rows in the usual order."""
        return await self._fenced(lambda _: False, fn, *args, **kwargs)

    async def finish(self, fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The holder's last transaction, which also releases the job."""
        return await self.finish_if(lambda _: True, fn, *args, **kwargs)

    async def finish_if(
        self, ended: Callable[[R], bool], fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Like `finish` if the work has `ended` with the transaction's result, otherwise like `run`."""
        return await self._fenced(ended, fn, *args, **kwargs)

    @property
    def carries(self) -> bool:
        return self._carried is not None

    def carry(self, write: Callable[[Tx], R], written: Callable[[R], None]) -> None:
        """The holder's next transaction begins with this `write`. Then `written` is called with its result. What is
        never written is like what was lost in a crash."""
        self._carried = _Carried(write, written)

    async def write_carried(self) -> None:
        """Writes what is carried at once, for those who read it in the store."""
        if self.carries:
            await self.run(_nothing)

    async def _fenced(
        self, ended: Callable[[R], bool], fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        if not self.carries:
            return await self._commit(None, ended, fn, *args, **kwargs)
        async with self._one_carries:
            return await self._commit(self._carried, ended, fn, *args, **kwargs)

    async def _commit(
        self,
        carried: _Carried[Any] | None,
        ended: Callable[[R], bool],
        fn: Callable[Concatenate[Tx, P], R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        @wraps(fn)
        def fenced(tx: Tx) -> tuple[R, bool, object]:
            first = None if carried is None else carried.write(tx)
            result = fn(tx, *args, **kwargs)
            released = ended(result) and self.kept.lives is None and self._end(tx)
            if not (released or holds(tx, self.job, self.token)):
                raise LeaseLost
            return result, released, first

        try:
            result, released, first = await self._database.run(fenced)
        except LeaseLost:
            self.lost.set()
            raise
        if carried is not None:
            self._carried = None
            carried.written(first)
        if released:
            self.stop()
        return result

    def _end(self, tx: Tx) -> bool:
        """Releases the job in the transaction that ends its work. Returns whether it did."""
        return release(tx, self.job, self.token, topic=self._topic)

    async def read(self, fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Reads what belongs to the job: a few rows."""
        return await self._database.read(fn, *args, **kwargs)

    def waiter(self, *topics: str) -> Waiter:
        return self._database.waiter(*topics)

    def clocks(self) -> Clocks:
        return self._database.clocks()

    def is_fresh(self) -> bool:
        """Whether it was claimed or renewed less than a third of its term ago, by both clocks."""
        asked_last = None if self.lost.is_set() or self.kept.released else self.kept.asked
        return asked_last is not None and asked_last.are_within(self.term / 3, self._database.clocks())

    async def sure(self) -> None:
        """Await this right before an effect outside. Raises `LeaseLost`, or the error of a store that does not answer.
        A lease that was claimed or renewed less than a third of its term ago, by both clocks, is held. Of any other the
        store is asked. One that is nearly over, or has expired and was taken by nobody, is renewed first. If a
        transaction has locked the job, that may be somebody who takes it, so the store is asked again. It is also asked
        again if its answer took longer than the lease had left, or most of the term, by either clock: the process was
        frozen meanwhile, or its machine paused."""
        while not (self.lost.is_set() or self.kept.released):
            if self.is_fresh():
                return
            asked = self._database.clocks()
            left = await self._database.read(remaining, self.job, self.token)
            if left is None:
                self.lost.set()
            elif left < self.term / 3:
                asked, left = self._database.clocks(), self.term
                if await self._keeper.renew([self]):
                    await asyncio.sleep(_LOCKED)
                    continue
            in_time = left is not None and asked.are_within(min(left, self.term * 2 / 3), self._database.clocks())
            if in_time and not self.lost.is_set():
                return
        raise LeaseLost

    async def release(self) -> None:
        """Releases the job. Sets `lost` if the job belongs to somebody else."""
        self.stop()
        if not await self._database.run(release, self.job, self.token, topic=self._topic):
            self.lost.set()

    def stop(self) -> None:
        """Stops renewing and leaves the job alone, for callers that released it in a transaction of their own."""
        self.kept.released = True
        if self.kept.lives is None:
            self._keeper.discard(self.token)

    def leave(self, lives: Callable[[], object]) -> None:
        """Does not release the job, since something that nobody can stop works on it, such as a thread. While that
        `lives`, the lease is renewed; then it ends by itself."""
        self.kept.released, self.kept.lives = True, lives

    @property
    def goes_on(self) -> bool:
        return self.kept.lives is None or bool(self.kept.lives())


async def keep_trying(write: Callable[[], Awaitable[None]], patience: float) -> StoreError | Busy | None:
    """Writes as soon as the store answers again: no other process can do it. Returns the store's error after pauses of
    `patience` seconds in all. Only pauses count: this process may be frozen, and a try takes seconds itself."""
    pause = 0.1
    while True:
        try:
            await write()
            return None
        except (StoreError, Busy) as error:
            if pause > patience:
                return error
        await asyncio.sleep(pause)
        patience, pause = patience - pause, min(2 * pause, _LONGEST_PAUSE)


class Keeper:
    """Renews the leases of a process every third of their term, all in one transaction. Most work
    ends before it has to be renewed."""

    def __init__(self, database: Database, term: float) -> None:
        self._database, self._term = database, term
        self._leases: dict[str, Lease] = {}  # by token
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._failing = False

    def add(self, lease: Lease) -> None:
        self._leases[lease.token] = lease
        if self._timer is None and self._task is None:
            self._look_in(self._term / 3)

    def discard(self, token: str) -> None:
        self._leases.pop(token, None)
        if not self._leases:
            for pending in (self._timer, self._task):
                if pending is not None:
                    pending.cancel()
            self._timer = self._task = None

    def keys(self, kind: str) -> list[str]:
        """The keys of the kind's jobs on which this process works."""
        return [lease.job.key for lease in self._leases.values() if lease.job.kind == kind]

    def _look_in(self, pause: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(pause, self._begin)

    def _begin(self) -> None:
        self._timer, self._task = None, asyncio.create_task(self._keep(), name="adk-confirm-lease")

    async def _keep(self) -> None:
        pause = self._term / 3
        self._leases = {token: lease for token, lease in self._leases.items() if lease.goes_on}
        try:
            async with asyncio.timeout(self._term / 3):
                if await self.renew([*self._leases.values()]):
                    pause /= 10
            self._failing = False
        except (StoreError, Busy, TimeoutError) as error:
            level = logging.DEBUG if self._failing else logging.WARNING  # once, and not every few seconds
            _log.log(level, "Leases could not be renewed, and will be tried again: %s", error)
            self._failing = True
        except Exception:  # noqa: BLE001  (nobody awaits this: `sure` and `run` ask the store themselves)
            _log.exception("Leases could not be renewed, and will be tried again.")
        self._task = None
        self._look_in(pause)

    async def renew(self, leases: Iterable[Lease]) -> bool:
        """Renews these leases. Returns whether one was not renewed because its job is locked."""
        held = {lease.token: lease for lease in leases if not lease.lost.is_set()}
        if not held:
            return False
        asked = self._database.clocks()
        with goes_first():
            lost, locked = await self._database.run(renew, held.keys(), term=self._term)
        for token in held.keys() - lost - locked:
            held[token].kept.asked = asked
        for token in lost:
            if not held[token].kept.released:
                held[token].lost.set()
        return bool(locked)
