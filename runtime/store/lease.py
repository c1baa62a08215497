"""Leases: who may work on a row now. Two columns and a token, on any table.

    claim    one conditional write; one caller gets the token, the others get None
    holds    fences a holder's writes: its token is still there, and nobody can take the row before the commit
    Lease    reads and writes for its holder
    Keeper   renews the leases of one process, all that it has in one statement, while their work lasts

A lease ends by time, so a dead process keeps nothing. Its token stays until somebody else claims the row, so a holder
that is late may still write until then. Effects outside the store can't be fenced like that: right before one,
`await lease.sure()` asks the store.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from adk_confirm.runtime.errors import Busy, StoreError
from adk_confirm.runtime.store.database import Database, Tx, Waiter

TERM = 10.0
"""Seconds until the lease of a dead process expires, unless a setting says otherwise."""
POLL = 5.0
_LONGEST_PAUSE = 1.0

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)


class LeaseLost(Busy):
    """Another worker took over the row. Whoever gets this must stop; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("Another process took over; look at the session again before trying once more.")


def new_token() -> str:
    return secrets.token_hex(16)


@dataclass(frozen=True)
class LeasedRow:
    """A row with the columns `lease_token` and `lease_until`, named by the value of a column. `has_due_at`: it is
    worked on when a column says so, and not at once."""

    table: str
    column: str
    key: str | int
    has_due_at: bool = True

    def sql(self, statement: str) -> str:
        return statement.format(table=self.table, key=self.column, here=f"{self.column} = :key")


HeldRow = tuple[LeasedRow, str]
"""A row and the token of its lease."""

_CLAIM = """
    UPDATE {table} SET lease_token = :token, lease_until = :until
    WHERE {here} AND (lease_until IS NULL OR lease_until <= :now)
"""
_RENEW = "UPDATE {table} SET lease_until = :until WHERE {here} AND lease_token = :token"
_RENEW_ALL = """
    UPDATE {table} SET lease_until = :until WHERE {key} IN (
        SELECT {key} FROM {table} WHERE {key} IN :keys AND lease_token IN :tokens FOR UPDATE SKIP LOCKED
    )
    RETURNING {key} AS key, lease_token
"""
_HOLDERS = "SELECT {key} AS key, lease_token FROM {table} WHERE {key} IN :keys"
_RELEASE = "UPDATE {table} SET lease_token = NULL, lease_until = NULL WHERE {here} AND lease_token = :token"
_HELD = "SELECT lease_until FROM {table} WHERE {here} AND lease_token = :token"
_LOCK_HELD = f"{_HELD} FOR UPDATE"
_DUE = "SELECT due_at FROM {table} WHERE {here}"


def claim(tx: Tx, row: LeasedRow, *, term: float) -> str | None:
    """Claims the row and returns the token. None: there is no such row, or it is held."""
    token, now = new_token(), tx.now()
    claimed = tx.run(row.sql(_CLAIM), key=row.key, token=token, now=now, until=now + term)
    if claimed > 1:
        raise ValueError(f"a lease is for one row, and this names {claimed}: {row}")
    return token if claimed else None


def renew(tx: Tx, row: LeasedRow, token: str, *, term: float) -> bool:
    return tx.run(row.sql(_RENEW), key=row.key, token=token, until=tx.now() + term) == 1


def renew_all(tx: Tx, held: Collection[HeldRow], *, term: float) -> tuple[set[HeldRow], set[HeldRow]]:
    """Renews leases on rows of one table. Returns those that belong to somebody else now, and those of rows that a
    transaction has locked: these keep no other waiting, and were not renewed."""
    keys, tokens = [row.key for row, _ in held], [*{token for _, token in held}]
    table = next(iter(held))[0]

    def without(found: Iterable[Any]) -> set[HeldRow]:
        there = {(row.key, row.lease_token) for row in found}
        return {(row, token) for row, token in held if (row.key, token) not in there}

    left = without(tx.all(table.sql(_RENEW_ALL), keys=keys, tokens=tokens, until=tx.now() + term))
    lost = without(tx.all(table.sql(_HOLDERS), keys=keys)) if left else set()
    return lost, left - lost


def release(tx: Tx, row: LeasedRow, token: str, *, topic: str | None = None) -> bool:
    """Releases the row. Those who wait for the topic are woken when it is due: at once, later, or never."""
    released = tx.run(row.sql(_RELEASE), key=row.key, token=token) == 1
    if released and topic is not None:
        if not row.has_due_at:
            tx.notify(topic)
        elif (due_at := tx.value(row.sql(_DUE), key=row.key)) is not None:
            tx.notify(topic, due_at)
    return released


def holds(tx: Tx, row: LeasedRow, token: str) -> bool:
    """Whether the row belongs to the token. If so, this stays true until the transaction ends."""
    return tx.first(row.sql(_LOCK_HELD), key=row.key, token=token) is not None


def remaining(tx: Tx, row: LeasedRow, token: str) -> float | None:
    """Seconds left on the lease. None if the row does not belong to the token."""
    until: float | None = tx.value(row.sql(_HELD), key=row.key, token=token)
    return None if until is None else until - tx.now()


class Lease:
    """A claimed row. It is renewed while the `async with` block runs, then released. `keeper`: who renews it together
    with others.

    Its holder reads and writes through it: `run` undoes what is written once the row belongs to somebody else. Nothing
    is cancelled then, since half a tool's run is worse than a whole one. `lost` is set only when the store says so. A
    process that was frozen for longer than the term may find that it still has the row, and goes on.
    """

    def __init__(
        self,
        database: Database,
        row: LeasedRow,
        token: str,
        *,
        term: float,
        topic: str | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.token = token
        self.lost = asyncio.Event()
        self._database = database
        self.row = row
        self._topic = topic
        self._term = term
        self._keeper = keeper or Keeper(database, term)
        self._released = False

    async def __aenter__(self) -> Self:
        self._keeper.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keeper.discard(self)
        if not (self._released or self.lost.is_set()):
            await self._give_back(patience=0.0 if kind is asyncio.CancelledError else self._term)
        self.stop()

    async def run(self, fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """A transaction that only counts if the row is ours at its end. The row is checked last, and so also locked
        last, so that `fn` can lock other rows in the usual order."""

        @wraps(fn)
        def fenced(tx: Tx) -> R:
            result = fn(tx, *args, **kwargs)
            if not holds(tx, self.row, self.token):
                raise LeaseLost
            return result

        return await self._fenced(fenced)

    async def finish(self, fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The holder's last transaction, which also releases the row."""
        return await self.finish_if(lambda _: True, fn, *args, **kwargs)

    async def finish_if(
        self, ended: Callable[[R], bool], fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Like `finish` if the work has `ended` with the transaction's result, otherwise like `run`."""

        @wraps(fn)
        def fenced(tx: Tx) -> R:
            result = fn(tx, *args, **kwargs)
            ours = (self.row, self.token)
            if not (release(tx, *ours, topic=self._topic) if ended(result) else holds(tx, *ours)):
                raise LeaseLost
            return result

        result = await self._fenced(fenced)
        if ended(result):
            self.stop()
        return result

    async def _fenced(self, fn: Callable[[Tx], R]) -> R:
        try:
            return await self._database.run(fn)
        except LeaseLost:
            self.lost.set()
            raise

    async def read(self, fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Reads what belongs to the row: a few rows."""
        return await self._database.read(fn, *args, **kwargs)

    def waiter(self, *topics: str) -> Waiter:
        return self._database.waiter(*topics)

    async def sure(self) -> None:
        """Await this right before an effect outside. Raises `LeaseLost`, or the error of a store that does not answer.
        A lease that is nearly over, or has expired and was taken by nobody, is renewed first. If the store's answer
        took longer than the lease had left, the process was frozen meanwhile, so the store is asked again."""
        clock = asyncio.get_running_loop().time
        while not (self.lost.is_set() or self._released):
            asked = clock()
            left = await self._database.read(remaining, self.row, self.token)
            if left is None:
                self.lost.set()
            elif left < self._term / 3:
                asked, left = clock(), self._term
                await self._renew()
            if left is not None and not self.lost.is_set() and clock() - asked < left:
                return
        raise LeaseLost

    async def release(self) -> None:
        """Releases the row. Sets `lost` if the row belongs to somebody else."""
        self.stop()
        if not await self._database.run(release, self.row, self.token, topic=self._topic):
            self.lost.set()

    def stop(self) -> None:
        """Stops renewing and leaves the row alone, for callers that released it in a transaction of their own."""
        self._released = True
        self._keeper.discard(self)

    async def _give_back(self, patience: float) -> None:
        """Releases the row as soon as the store answers again, since nobody can work on the row before the lease
        expires. The work is done and stored, so a store that stays away must not make it look as if it were not."""
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + patience, 0.1
        while True:
            try:
                await self.release()
                return
            except (StoreError, Busy) as error:
                if loop.time() + pause > until:
                    _log.warning("A lease was not released, and runs out by itself: %s", error)
                    return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _renew(self) -> None:
        if not await self._database.run(renew, self.row, self.token, term=self._term):
            self.lost.set()


class Keeper:
    """Renews the leases of a process on rows of one table every third of their term, all in one transaction. Most work
    ends before the first time."""

    def __init__(self, database: Database, term: float) -> None:
        self._database, self._term = database, term
        self._leases = set[Lease]()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def add(self, lease: Lease) -> None:
        self._leases.add(lease)
        if self._timer is None and self._task is None:
            self._look_in(self._term / 3)

    def discard(self, lease: Lease) -> None:
        self._leases.discard(lease)
        if not self._leases:
            for pending in (self._timer, self._task):
                if pending is not None:
                    pending.cancel()
            self._timer = self._task = None

    def _look_in(self, pause: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(pause, self._begin)

    def _begin(self) -> None:
        self._timer, self._task = None, asyncio.create_task(self._keep(), name="adk-confirm-lease")

    async def _keep(self) -> None:
        pause = self._term / 3
        try:
            async with asyncio.timeout(self._term / 3):
                if await self._renew():
                    pause /= 10
        except (StoreError, Busy, TimeoutError) as error:
            _log.warning("Leases could not be renewed, and will be tried again: %s", error)
        except Exception:  # noqa: BLE001  (nobody awaits this: `sure` and `run` ask the store themselves)
            _log.exception("Leases could not be renewed, and will be tried again.")
        self._task = None
        self._look_in(pause)

    async def _renew(self) -> bool:
        """Returns whether a row was locked, so that its lease was not renewed."""
        leases = {(lease.row, lease.token): lease for lease in self._leases if not lease.lost.is_set()}
        if not leases:
            return False
        lost, locked = await self._database.run(renew_all, leases.keys(), term=self._term)
        for held in lost:
            if leases[held] in self._leases:
                leases[held].lost.set()
        return bool(locked)
