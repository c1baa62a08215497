"""One way to run SQL: every transaction is a synchronous function, run whole on SQLite or PostgreSQL.

    def count(tx: Tx, session: str) -> int:
        n = tx.value("SELECT n FROM t WHERE id = :id FOR UPDATE", id=session) + 1   # lock first, then read
        tx.run("UPDATE t SET n = :n, at = :at WHERE id = :id", id=session, n=n, at=tx.now())
        tx.notify(f"session:{session}")
        return n

    await database.run(count, "s-1")

A function does nothing but SQL, because it may be run again after a deadlock. If it raises, its work is rolled back,
and the caller gets the exception. If the caller is cancelled, the transaction is still committed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar
from urllib.parse import urlsplit

from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.sqlite import SqliteEngine
from adk_confirm.runtime.store.transaction import Engine, Limits, OutcomeUnknown, SqlDialect, Tx
from adk_confirm.runtime.store.wakeups import Hub, Waiter

__all__ = ["Clocks", "Database", "Limits", "OutcomeUnknown", "Tx", "Waiter", "sqlite_path"]

DEFAULT_LIMITS = Limits()
_RUNNING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

P = ParamSpec("P")
R = TypeVar("R")

_EXAMPLES = "a store is sqlite:///confirm.db, or postgresql://user:password@host/name"


class Clocks(NamedTuple):
    """Two clocks of this machine. The first sees that a process stands still or a machine sleeps; the second also that
    a machine was paused from outside, once its time is set right."""

    running: float
    wall: float

    def are_within(self, seconds: float, now: Clocks) -> bool:
        """Whether less time has passed until `now`, by both."""
        return all(0 <= after - before < seconds for before, after in zip(self, now, strict=True))


class Database:
    """An open store. It belongs to the event loop that opened it."""

    def __init__(
        self,
        engine: Engine,
        hub: Hub,
        url: str,
        *,
        read_only: bool,
        context: object = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._hub = hub
        self.clock = clock
        self.context = context
        self.url = url
        self.read_only = read_only
        self._takers: tuple[Callable[[Tx], None], ...] = ()

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        clock: Callable[[], float] | None = None,
        read_only: bool = False,
        beside: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        context: object = None,
    ) -> Database:
        """Opens a store. The default clock is the server's on PostgreSQL, and this machine's on SQLite.

        One process serves a SQLite store. `beside`: this one only does a few transactions, whether or not the store is
        served. On PostgreSQL every process may do that.

        Every `tx` carries the `context`: for example a key, without which some functions can't write.
        """
        hub = Hub()
        engine: Engine
        scheme = url.partition(":")[0].partition("+")[0]
        if url == ":memory:" or scheme == "sqlite":
            file = sqlite_path(url)
            engine = await SqliteEngine.open(
                file and file.resolve(), clock or time.time, hub, limits, read_only=read_only, beside=beside
            )
        elif scheme in ("postgresql", "postgres"):
            engine = await _open_postgres(url, clock, hub, limits, read_only=read_only)
        else:
            raise StoreError(f"{_without_secrets(url)!r} is not the URL of a store: {_EXAMPLES}.")
        return cls(engine, hub, _without_secrets(url), read_only=read_only, context=context, clock=clock or time.time)

    def clocks(self) -> Clocks:
        """What this machine's clocks say now, without asking the store."""
        return Clocks(time.clock_gettime(_RUNNING), self.clock())

    @property
    def dialect(self) -> SqlDialect:
        return self._engine.dialect

    async def run(self, fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs a writing transaction, and returns when it is committed."""

        def work(tx: Tx) -> R:
            result = fn(self._with_context(tx), *args, **kwargs)
            for take in self._takers:
                take(tx)
            return result

        return await self._engine.write(work)

    async def read(self, fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs a reading transaction on a consistent snapshot. It never waits for writers."""
        return await self._engine.read(lambda tx: fn(self._with_context(tx), *args, **kwargs))

    def waiter(self, *topics: str) -> Waiter:
        """`with database.waiter(topic) as w:` is woken by every `tx.notify(topic)` that is committed from then on.

        It may be woken without a reason, and a notification from another replica may be lost with a connection. So look
        at the store after each `await w.wait(seconds)`, whatever it returned.
        """
        return Waiter(self._hub, topics)

    @contextmanager
    def taking(self, take: Callable[[Tx], None]) -> Iterator[None]:
        """Calls `take` at the end of each writing transaction of this process, in its thread: `take` may claim the jobs
        that have become due with it."""
        self._takers = (*self._takers, take)
        try:
            yield
        finally:
            self._takers = tuple(one for one in self._takers if one != take)

    def listen(self, listener: Callable[[object], None]) -> None:
        """Calls `listener` with every `tx.report(fact)` of this process, after its commit, on the event loop."""
        self._hub.listen(listener)

    async def close(self) -> None:
        """Closes the store. Accepted transactions are finished; later ones are refused."""
        await self._engine.close()

    def _with_context(self, tx: Tx) -> Tx:
        tx.context = self.context
        return tx


_SQLITE = re.compile(r"sqlite(\+\w+)?://(?P<host>[^/?]*)(/(?P<path>[^?]*))?(?P<query>\?.*)?")


def sqlite_path(url: str) -> Path | None:
    """The path of the file, or None for a store in memory."""
    found = _SQLITE.fullmatch("sqlite://" if url == ":memory:" else url)
    if found is None:
        raise StoreError(f"{url!r} is not the URL of a store: {_EXAMPLES}.")
    if found["host"] or found["query"]:
        raise StoreError(
            f"{url!r} has parts that a SQLite store doesn't know. A file here is sqlite:///confirm.db (three "
            "slashes), elsewhere sqlite:////var/lib/confirm.db (four)."
        )
    return None if found["path"] in (None, "", ":memory:") else Path(found["path"])


async def _open_postgres(
    url: str, clock: Callable[[], float] | None, hub: Hub, limits: Limits, *, read_only: bool
) -> Engine:
    try:
        from adk_confirm.runtime.store.postgres import PostgresEngine
    except ImportError as error:
        if not (error.name or "").startswith("psycopg"):
            raise
        raise StoreError("A PostgreSQL store needs the psycopg driver: pip install 'adk-confirm[postgres]'.") from error
    dsn = "postgresql:" + url.partition(":")[2]
    return await PostgresEngine.open(dsn, _without_secrets(url), clock, hub, limits, read_only=read_only)


def _without_secrets(url: str) -> str:
    """The URL for messages, without a password anywhere."""
    if "@" not in url and "?" not in url:
        return url
    try:
        parts = urlsplit(url)
    except ValueError:  # malformed, so the password can't be located
        return url.partition("//")[0] + "//…"
    credentials, at, place = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{credentials.partition(':')[0]}{at}{place}{parts.path}"
