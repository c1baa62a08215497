"""The interface of transactions: what a function gets, and what an engine must do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar, TypeVarTuple, overload

from sqlalchemy import Connection, CursorResult, Executable, Select, func, select
from sqlalchemy.sql.selectable import TypedReturnsRows

from runtime.errors import Busy, StoreError

R = TypeVar("R")
Ts = TypeVarTuple("Ts")
SelectT = TypeVar("SelectT", bound=Select[*tuple[Any, ...]])

SqlDialect = Literal["sqlite", "postgresql"]
Parameters = Mapping[str, object] | Sequence[Mapping[str, object]]

_DATABASE_CLOCK = select(func.extract("epoch", func.clock_timestamp()))


@dataclass(frozen=True)
class Limits:
    """With `queue` transactions under way, callers wait for `patience` seconds, then get `Busy`."""

    queue: int = 4096
    patience: float = 10.0


class OutcomeUnknown(StoreError):
    """The connection broke during the commit. Read the store before trying again."""


class Tx:
    """A transaction, as the function in it sees it. Not usable after the function has returned."""

    __slots__ = ("_ahead", "_clock", "connection", "context", "dialect", "facts", "later", "topics")

    def __init__(self, connection: Connection, dialect: SqlDialect, clock: Callable[[], float] | None) -> None:
        self.connection = connection
        self.dialect = dialect
        self.topics: set[str] = set()
        self.later: dict[str, float] = {}  # topics, and in how many seconds they are due
        self.facts: list[object] = []
        self.context: object = None  # what the store was opened with: see `Database.open`
        self._clock = clock
        self._ahead: float | None = None  # of this machine's steady clock, the database's is

    @overload
    def execute(self, statement: TypedReturnsRows[*Ts], parameters: Parameters | None = None) -> CursorResult[*Ts]: ...

    @overload
    def execute(
        self, statement: Executable, parameters: Parameters | None = None
    ) -> CursorResult[*tuple[Any, ...]]: ...

    def execute(self, statement: Executable, parameters: Parameters | None = None) -> CursorResult[*tuple[Any, ...]]:
        return self.connection.execute(statement, parameters)

    def now(self) -> float:
        """Seconds since the epoch. Use this after the root row is locked: before that, others may still change
        things."""
        if self._clock is not None:
            return self._clock()
        if self._ahead is None:
            self._ahead = float(self.connection.execute(_DATABASE_CLOCK).scalar_one()) - time.monotonic()
        return self._ahead + time.monotonic()  # asked once, since a transaction is short

    def notify(self, topic: str, at: float | None = None) -> None:
        """Wakes those who wait for the topic, in this process and (PostgreSQL) in others, after the commit.

        If it is `at` a later time, only this process is woken, and only then: others see it when they poll."""
        wait = 0.0 if at is None else at - self.now()
        if wait <= 0:
            self.topics.add(topic)
        else:
            self.later[topic] = min(wait, self.later.get(topic, wait))

    def report(self, fact: object) -> None:
        """Tells listeners in this process (`Database.listen`) after the commit. Use it for counting, never for work
        that must be done."""
        self.facts.append(fact)


class Engine(Protocol):
    """A kind of database: how a function becomes a transaction there."""

    @property
    def dialect(self) -> SqlDialect: ...

    async def write(self, work: Callable[[Tx], R]) -> R: ...

    async def read(self, work: Callable[[Tx], R]) -> R: ...

    async def run_if_alone(self, work: Callable[[Tx], None]) -> None: ...

    async def close(self) -> None: ...


class Job(Generic[R]):
    """A function to run in an engine, and its result."""

    __slots__ = ("error", "facts", "future", "later", "result", "topics", "work")

    def __init__(self, work: Callable[[Tx], R], future: asyncio.Future[R]) -> None:
        self.work = work
        self.future = future
        self.result: R | None = None
        self.error: BaseException | None = None
        self.topics: set[str] = set()
        self.later: dict[str, float] = {}
        self.facts: list[object] = []

    def run(self, tx: Tx) -> None:
        """Runs the function. Its errors are for the caller, not for the engine."""
        try:
            self.result = self.work(tx)
        except StopIteration as error:
            self.error = RuntimeError("a transaction function raised StopIteration")  # futures can't hold these
            self.error.__cause__ = error
        except BaseException as error:  # noqa: BLE001  (handed on to the caller, unchanged)
            self.error = error
        else:
            self.topics, self.later, self.facts = tx.topics, tx.later, tx.facts

    def fail(self, error: BaseException) -> None:
        self.result, self.error, self.topics, self.later, self.facts = None, error, set(), {}, []

    def settle(self) -> None:
        """Gives the caller the result, unless the caller was cancelled. The transaction stays committed."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # R itself may be None


class Admission:
    """A bounded queue. If it is full, callers wait, and after a while get an error."""

    def __init__(self, limits: Limits) -> None:
        self._room = asyncio.Semaphore(limits.queue)
        self._patience = limits.patience

    async def enter(self) -> None:
        if not self._room.locked():
            await self._room.acquire()
            return
        try:
            async with asyncio.timeout(self._patience):
                await self._room.acquire()
        except TimeoutError:
            raise Busy("The store has too much to do at once. Nothing was stored; try again soon.") from None

    def leave(self) -> None:
        self._room.release()


def for_update(statement: SelectT, *, skip_locked: bool = False) -> SelectT:
    """Locks the rows that it reads until the transaction ends. SQLite has only one writer, so there it changes
    nothing."""
    return statement.with_for_update(skip_locked=skip_locked)
