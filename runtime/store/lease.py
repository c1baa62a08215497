"""Leases: who may work on a row now. Two columns and a token, on any table.

    claim    one conditional write; one caller gets the token, the others get None
    holds    fences a holder's writes: its token is still there, and nobody can take the row before the commit
    Lease    reads and writes for its holder, and renews itself in the background while the work lasts

A lease ends by time, so a dead process keeps nothing. Its token stays until somebody else claims the row, so a holder
that is late may still write until then. Effects outside the store can't be fenced like that: right before one,
`await lease.sure()` asks the store.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import (
    BinaryExpression,
    BindParameter,
    Column,
    ColumnElement,
    Double,
    String,
    Table,
    bindparam,
    or_,
    select,
    update,
)

from runtime.errors import Busy, StoreError
from runtime.store.database import Database, Tx, Waiter, for_update
from runtime.store.prepared import Prepared

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


def lease_columns() -> tuple[Column[str], Column[float]]:
    """The columns for a table whose rows are leased."""
    return Column("lease_token", String(32)), Column("lease_until", Double)


def new_token() -> str:
    return secrets.token_hex(16)


def free(table: Table, now: float | BindParameter[float]) -> ColumnElement[bool]:
    """The condition that nobody holds the row."""
    return or_(table.c.lease_until.is_(None), table.c.lease_until <= now)


@dataclass(frozen=True)
class _Statements:
    claim: Prepared
    renew: Prepared
    release: Prepared
    holds: Prepared
    remaining: Prepared
    due: Prepared | None  # when the row is due next, in tables that say so


@cache
def _statements(table: Table, column: Column[Any]) -> _Statements:
    token = bindparam("claimed_token", type_=String)
    until = bindparam("claimed_until", type_=Double)
    named = column == bindparam("named")
    is_held = named & (table.c.lease_token == token)
    is_free = named & free(table, bindparam("claimed_at", type_=Double))
    return _Statements(
        claim=Prepared(update(table).where(is_free).values(lease_token=token, lease_until=until)),
        renew=Prepared(update(table).where(is_held).values(lease_until=until)),
        release=Prepared(update(table).where(is_held).values(lease_token=None, lease_until=None)),
        holds=Prepared(for_update(select(table.c.lease_token).where(is_held))),
        remaining=Prepared(select(table.c.lease_until).where(is_held)),
        due=Prepared(select(table.c.due_at).where(named)) if "due_at" in table.c else None,
    )


def _on(table: Table, where: ColumnElement[bool]) -> tuple[_Statements, object]:
    """The statements for a condition `column == value`, and the value."""
    assert isinstance(where, BinaryExpression)
    assert isinstance(where.left, Column)
    assert isinstance(where.right, BindParameter)
    return _statements(table, where.left), where.right.value


def claim(tx: Tx, table: Table, where: ColumnElement[bool], *, term: float) -> str | None:
    """Claims the row that `where` (`column == value`) names, and returns the token. None: there is no such row, or it
    is held."""
    token = new_token()
    now = tx.now()
    statements, value = _on(table, where)
    claimed = statements.claim(tx, named=value, claimed_token=token, claimed_at=now, claimed_until=now + term)
    if claimed > 1:
        raise ValueError(f"a lease is for one row, and this condition names {claimed}: {where}")
    return token if claimed else None


def renew(tx: Tx, table: Table, where: ColumnElement[bool], token: str, *, term: float) -> bool:
    statements, value = _on(table, where)
    return statements.renew(tx, named=value, claimed_token=token, claimed_until=tx.now() + term) == 1


def release(tx: Tx, table: Table, where: ColumnElement[bool], token: str, *, topic: str | None = None) -> bool:
    """Releases the row. Those who wait for the topic are woken when it is due: at once, later, or never."""
    statements, value = _on(table, where)
    released = statements.release(tx, named=value, claimed_token=token) == 1
    if released and topic is not None:
        if statements.due is None:
            tx.notify(topic)
        elif (due_at := statements.due.first(tx, named=value).due_at) is not None:
            tx.notify(topic, due_at)
    return released


def holds(tx: Tx, table: Table, where: ColumnElement[bool], token: str) -> bool:
    """Whether the row belongs to the token. If so, this stays true until the transaction ends."""
    statements, value = _on(table, where)
    return statements.holds.first(tx, named=value, claimed_token=token) is not None


def remaining(tx: Tx, table: Table, where: ColumnElement[bool], token: str) -> float | None:
    """Seconds left on the lease. None if the row does not belong to the token."""
    statements, value = _on(table, where)
    held = statements.remaining.first(tx, named=value, claimed_token=token)
    return None if held is None else held.lease_until - tx.now()


class Lease:
    """A claimed row. It is renewed every third of its term while the `async with` block runs, then released.

    Its holder reads and writes through it: `run` undoes what is written once the row belongs to somebody else. Nothing
    is cancelled then, since half a tool's run is worse than a whole one. `lost` is set only when the store says so. A
    process that was frozen for longer than the term may find that it still has the row, and goes on.
    """

    def __init__(
        self,
        database: Database,
        table: Table,
        where: ColumnElement[bool],
        token: str,
        *,
        term: float,
        topic: str | None = None,
    ) -> None:
        self.token = token
        self.lost = asyncio.Event()
        self._database = database
        self._table = table
        self._where = where
        self._topic = topic
        self._term = term
        self._keeping: asyncio.TimerHandle | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._released = False

    async def __aenter__(self) -> Self:
        self._keeping = asyncio.get_running_loop().call_later(self._term / 3, self._begin_keeping)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_keeper()
        if not (self._released or self.lost.is_set()):
            await self._give_back(patience=0.0 if kind is asyncio.CancelledError else self._term)
        self.stop()

    async def run(self, fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """A transaction that only counts if the row is ours at its end. The row is checked last, and so also locked
        last, so that `fn` can lock other rows in the usual order."""

        @wraps(fn)
        def fenced(tx: Tx) -> R:
            result = fn(tx, *args, **kwargs)
            if not holds(tx, self._table, self._where, self.token):
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
            ours = (self._table, self._where, self.token)
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
            left = await self._database.read(remaining, self._table, self._where, self.token)
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
        if not await self._database.run(release, self._table, self._where, self.token, topic=self._topic):
            self.lost.set()

    def stop(self) -> None:
        """Stops renewing and leaves the row alone, for callers that released it in a transaction of their own."""
        self._released = True
        self._end_keeper()

    def _begin_keeping(self) -> None:
        """Starts renewing later: most work ends before the first renewal and needs no task for it."""
        self._keeper = asyncio.create_task(self._keep(), name="adk-confirm-lease")

    def _end_keeper(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None

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

    async def _keep(self) -> None:
        while not self.lost.is_set():
            try:
                async with asyncio.timeout(self._term / 3):
                    await self._renew()
            except (StoreError, Busy, TimeoutError) as error:
                _log.warning("A lease could not be renewed, and will be tried again: %s", error)
            except Exception:  # noqa: BLE001  (nobody awaits the keeper: `sure` and `run` ask the store themselves)
                _log.exception("A lease could not be renewed, and will be tried again.")
            await asyncio.sleep(self._term / 3)

    async def _renew(self) -> None:
        if not await self._database.run(renew, self._table, self._where, self.token, term=self._term):
            self.lost.set()
