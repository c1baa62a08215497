"""The interface of transactions: what a function gets, and what an engine must do."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import defaultdict, namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

from adk_confirm.runtime.errors import Busy, StoreError

R = TypeVar("R")

SqlDialect = Literal["sqlite", "postgresql"]

AT_ONCE, ROWS_AT_ONCE = 1000, 50
"""How many rows `Tx.each` keeps in memory, and how many `Tx.many` writes with one statement."""


@dataclass(frozen=True)
class Limits:
    """The limits of a store. While `queue` transactions are under way, a caller waits for `patience` seconds, then gets
    `Busy`."""

    queue: int = 4096
    patience: float = 10.0


Known: TypeAlias = defaultdict[str, dict[str, Any]]
"""Rows by their table and key, each in the form that its first reader made of it."""


class OutcomeUnknown(StoreError):
    """The connection broke during the commit. Read the store before trying again."""


class Tx:
    """A transaction, as the function in it sees it. Not usable after the function has returned.

    Statements are text that both databases understand. `:name` stands for a value, and `IN :names` for a list of them.
    `FOR UPDATE` locks rows on PostgreSQL; SQLite has only one writer, so there it is left out. Rows have attributes.
    """

    __slots__ = (
        *("_ahead", "_clock", "_connection", "_cursors", "alarms", "context", "dialect", "ended", "facts", "known"),
        *("leases", "owed", "topics"),
    )

    def __init__(
        self, connection: Any, dialect: SqlDialect, clock: Callable[[], float] | None, known: Known | None = None
    ) -> None:
        self._connection = connection  # `sqlite3`'s, or psycopg's
        self.dialect = dialect
        self.topics: set[str] = set()
        self.facts: list[object] = []
        self.known = defaultdict(dict) if known is None else known  # rows that were locked or written
        self.leases: dict[tuple[str, str], Any] = {}  # of jobs: those that this transaction locked or released
        self.owed: list[Any] = []  # jobs that this transaction has made due now: see `jobs.py`
        self.alarms: dict[Any, float | None] = {}  # jobs, and in how many seconds they are due; None: not later
        self.ended: object = None  # the job whose work ends with this transaction
        self.context: object = None  # what the store was opened with: see `Database.open`
        self._cursors: list[Any] = []  # opened by `self.each()`, on PostgreSQL
        self._clock = clock
        self._ahead: float | None = None  # seconds that the database's clock is ahead of this machine's steady one

    def run(self, sql: str, /, **values: object) -> int:
        """Returns how many rows the statement changed."""
        return int(self._execute(sql, values).rowcount)

    def first(self, sql: str, /, **values: object) -> Any:
        """The first row, or None."""
        found = self._execute(sql, values)
        row = found.fetchone()
        return None if row is None else _row_of(found)(row)

    def all(self, sql: str, /, **values: object) -> list[Any]:
        found = self._execute(sql, values)
        return list(map(_row_of(found), found.fetchall()))

    def value(self, sql: str, /, **values: object) -> Any:
        """The first column of the first row. None if there is no row."""
        row = self._execute(sql, values).fetchone()
        return None if row is None else row[0]

    def column(self, sql: str, /, **values: object) -> list[Any]:
        """The first column of each row."""
        return [row[0] for row in self._execute(sql, values).fetchall()]

    def each(self, sql: str, /, **values: object) -> Iterator[Any]:
        """The rows one by one, for more of them than fit into memory."""
        if self.dialect == "sqlite":
            found = self._execute(sql, values)
        else:
            found = self._connection.cursor(f"each_{len(self._cursors)}")
            found.itersize = AT_ONCE
            self._cursors.append(found)
            found.execute(_for_postgres(sql), values)
        yield from map(_row_of(found), found)

    def lock(self, sql: str, /, **values: object) -> None:
        """Locks the rows that the statement reads, on PostgreSQL: SQLite has only one writer, and needs no locks."""
        if self.dialect != "sqlite":
            self._execute(sql, values)

    def insert(self, table: str, row: Mapping[str, object], *, if_absent: bool = False) -> bool:
        """Inserts a row. `if_absent`: only if that violates no unique key. Returns whether it did."""
        return self.run(_insert_into(table, tuple(row), if_absent), **row) == 1

    def many(self, sql: str, rows: Sequence[Mapping[str, object]], /) -> None:
        """Runs a statement with `VALUES (:name, …)` that returns nothing, for many of these rows at once."""
        for first in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[first : first + ROWS_AT_ONCE]
            values = {f"{name}_{number}": value for number, row in enumerate(some) for name, value in row.items()}
            self._execute(_for_rows(sql, len(some)), values)

    def _execute(self, sql: str, values: dict[str, object]) -> Any:
        if self.known and (changes := _changed_by(sql)):
            self._forget(*changes, values.values())
        if self.dialect == "postgresql":
            return self._connection.execute(_for_postgres(sql), values)
        text, lists = _for_sqlite(sql)
        for name in lists:
            values[name] = json.dumps(values[name])
        return self._connection.execute(text, values)

    def _forget(self, does: str, table: str, values: Iterable[object]) -> None:
        """Forgets the rows that a statement changes: those whose key is among its values, or else all of its table.
        Whoever runs the statement notes the new rows in `known` afterwards."""
        rows = self.known[table]
        changed = {value for value in values if isinstance(value, str) and value in rows}
        for key in changed or ([] if does == "INSERT" else [*rows]):
            del rows[key]

    def is_broken_by(self, error: Exception) -> bool:
        """Whether the database raised the error, so that nothing of the transaction may be kept."""
        return isinstance(error, self._connection.Error)

    def end(self) -> None:
        """Closes what `each` has left open."""
        for cursor in self._cursors:
            cursor.close()

    def now(self) -> float:
        """Seconds since the epoch. Use this after the root row is locked: before that, others may still change
        things."""
        if self._clock is not None:
            return self._clock()
        if self._ahead is None:
            clock = "SELECT CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)"
            self._ahead = self.value(clock) - time.monotonic()
        return self._ahead + time.monotonic()  # asked once, since a transaction is short

    def notify(self, topic: str) -> None:
        """Wakes those who wait for the topic, in this process and (PostgreSQL) in others, after the commit."""
        self.topics.add(topic)

    def report(self, fact: object) -> None:
        """Tells listeners in this process (`Database.listen`) after the commit. Use it for counting, never for work
        that must be done."""
        self.facts.append(fact)


_LOCK = re.compile(r"\s+FOR UPDATE( SKIP LOCKED)?\b")
_LIST = re.compile(r"\bIN (:\w+)")
_NAME = re.compile(r"'[^']*'|::|:([a-z_]\w*)")
_CHANGES = re.compile(r"\s*(?:(INSERT) INTO|(UPDATE)|(DELETE) FROM) (\w+)")
_VALUES = re.compile(r"(?<=VALUES )(\([^)]*\))")


@cache
def _changed_by(sql: str) -> tuple[str, str] | None:
    """What a statement does to which table, if it writes."""
    found = _CHANGES.match(sql)
    return None if found is None else (found[1] or found[2] or found[3], found[4])


@cache
def _for_sqlite(sql: str) -> tuple[str, tuple[str, ...]]:
    """The statement, and which of its values are lists."""
    listed = _LIST.sub(r"IN (SELECT value FROM json_each(\1))", _LOCK.sub("", sql))
    return listed, tuple(dict.fromkeys(name[1:] for name in _LIST.findall(sql)))


@cache
def _for_postgres(sql: str) -> str:
    """
    >>> _for_postgres("SELECT 'a:b', x::text FROM t WHERE name LIKE '%' AND id IN :ids AND n = :n")
    "SELECT 'a:b', x::text FROM t WHERE name LIKE '%%' AND id = ANY(%(ids)s) AND n = %(n)s"
    """
    listed = _LIST.sub(r"= ANY(\1)", sql).replace("%", "%%")
    return _NAME.sub(lambda found: f"%({found[1]})s" if found[1] else found[0], listed)


@cache
def _for_rows(sql: str, rows: int) -> str:
    """
    >>> _for_rows("INSERT INTO t (a, b) VALUES (:a, :b) ON CONFLICT DO NOTHING", 2)
    'INSERT INTO t (a, b) VALUES (:a_0, :b_0), (:a_1, :b_1) ON CONFLICT DO NOTHING'
    """
    before, row, after = _VALUES.split(sql)
    each = (_NAME.sub(rf"\g<0>_{number}", row) for number in range(rows))
    return f"{before}{', '.join(each)}{after}"


@cache
def _insert_into(table: str, columns: tuple[str, ...], if_absent: bool) -> str:
    given = ", ".join(f":{name}" for name in columns)
    made = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({given})"  # noqa: S608  (our own names)
    return f"{made} ON CONFLICT DO NOTHING" if if_absent else made


def _row_of(found: Any) -> Callable[[Sequence[Any]], Any]:
    return _row_type(tuple(column[0] for column in found.description))


@lru_cache(maxsize=1000)
def _row_type(names: tuple[str, ...]) -> Callable[[Sequence[Any]], Any]:
    made: Callable[[Sequence[Any]], Any] = cast("Any", namedtuple)("Row", names, rename=True)._make
    return made


class Engine(Protocol):
    """A kind of database: how a function becomes a transaction there."""

    @property
    def dialect(self) -> SqlDialect: ...

    async def write(self, work: Callable[[Tx], R]) -> R: ...

    async def read(self, work: Callable[[Tx], R]) -> R: ...

    async def close(self) -> None: ...


class Job(Generic[R]):
    """A function to run in an engine, and its result."""

    __slots__ = ("error", "facts", "future", "goes_first", "read_only", "result", "topics", "work")

    def __init__(self, work: Callable[[Tx], R], future: asyncio.Future[R], *, read_only: bool = False) -> None:
        self.work, self.read_only = work, read_only
        self.goes_first = _goes_first.get()
        self.future = future
        self.result: R | None = None
        self.error: BaseException | None = None
        self.topics: set[str] = set()
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
            self.topics, self.facts = tx.topics, tx.facts

    def fail(self, error: BaseException) -> None:
        self.result, self.error, self.topics, self.facts = None, error, set(), []

    def settle(self) -> None:
        """Gives the caller the result, unless the caller was cancelled. The transaction stays committed."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # R itself may be None


_goes_first = ContextVar("goes_first", default=False)


@contextmanager
def goes_first() -> Iterator[None]:
    """Somebody waits for an answer: the transactions in this block, and in tasks that begin in it, go first."""
    before = _goes_first.set(True)
    try:
        yield
    finally:
        _goes_first.reset(before)


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
