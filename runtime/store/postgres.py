"""The engine for several replicas: PostgreSQL, through asyncpg, with the same synchronous functions."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import re
import socket
from collections.abc import Callable
from typing import Any

import asyncpg
import sqlalchemy
from sqlalchemy import Connection, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncTransaction, create_async_engine
from sqlalchemy.util import LRUCache

from runtime.errors import Busy, StoreError
from runtime.store.frozen import END_FROZEN, log_ended
from runtime.store.postgres_wakeups import BROKEN, PRESENCE, DriverConnection, WakeupConnection
from runtime.store.transaction import Admission, Job, Limits, OutcomeUnknown, R, SqlDialect, Tx
from runtime.store.wakeups import Hub, topic_key

_log = logging.getLogger(__name__)

WRITERS = 10
READERS = 5
ATTEMPTS = 8
CONNECT_SECONDS = 10.0
COMMAND_SECONDS = 60.0
AWAY_SECONDS = 5.0
"""Seconds that a transaction waits for a server that restarts, or for its replacement."""

_ERRNO = re.compile(r"\[Errno (-?\d+)\]")
_READ_ONLY = "25006"  # read_only_sql_transaction
_LOCKED = "55P03"  # lock_not_available
_IDLE = "25P03"  # idle_in_transaction_session_timeout
_TRY_AGAIN = frozenset({"40001", "40P01", _LOCKED})  # serialization_failure, deadlock_detected
SESSION = {
    "application_name": "adk-confirm",
    # A replica that is frozen or cut off must not keep its row locks from the others. Its transactions that wait for a
    # lock have to give up sooner than the one that holds it is ended: each would get the lock in its turn, and keep it.
    "idle_in_transaction_session_timeout": "5000",
    "lock_timeout": "3000",
    "tcp_keepalives_idle": "30",
}


class DatabaseAway(StoreError):
    """No server that accepts this can be reached now. Nothing was stored."""


class _Compiled(LRUCache[Any, Any]):
    """What SQLAlchemy has compiled, for all engines of this process. Its keys begin with the dialect, and every engine
    has one of its own. They differ in nothing that was chosen here, but perhaps in what the server said of itself."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_for_all(key), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_for_all(key), value)


def _for_all(key: Any) -> Any:
    dialect, *rest = key
    return dialect.server_version_info, getattr(dialect, "_backslash_escapes", None), *rest


_COMPILED = _Compiled(500)  # as many as SQLAlchemy keeps for one engine


class PostgresEngine:
    dialect: SqlDialect = "postgresql"

    def __init__(
        self, dsn: str, name: str, clock: Callable[[], float] | None, hub: Hub, limits: Limits, *, read_only: bool
    ) -> None:
        self._dsn = dsn
        self._name = name
        self._clock = clock
        self._hub = hub
        # A service reads what it has just written, so it can't read from a standby.
        # A process that only reads uses what the URL says.
        self._wanted = None if read_only else "read-write"
        self._writes = None if read_only else self._pool(WRITERS)
        if self._writes is not None:
            event.listen(self._writes.sync_engine, "handle_error", _dropped_if_read_only)
        # Readers have connections of their own, so they don't wait behind writers that wait for a lock.
        self._reads = self._pool(READERS).execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._wire = None if read_only else WakeupConnection(self._connect, hub)
        self._write_gate, self._read_gate = Admission(limits), Admission(limits)
        self._running: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Task[None] | None = None
        self._closing = False

    @classmethod
    async def open(
        cls, dsn: str, name: str, clock: Callable[[], float] | None, hub: Hub, limits: Limits, *, read_only: bool
    ) -> PostgresEngine:
        engine = cls(dsn, name, clock, hub, limits, read_only=read_only)
        if engine._wire is not None:
            await engine._wire.start()
        else:
            await engine.read(lambda tx: tx.execute(sqlalchemy.select(1)))
        return engine

    async def write(self, work: Callable[[Tx], R]) -> R:
        if self._writes is None:
            raise StoreError("The store was opened for reading only.")
        return await self._submit(self._writes, self._write_gate, work)

    async def read(self, work: Callable[[Tx], R]) -> R:
        return await self._submit(self._reads, self._read_gate, work)

    async def run_if_alone(self, work: Callable[[Tx], None]) -> None:
        if self._wire is None:
            raise StoreError("The store was opened for reading only.")
        await self.write(lambda tx: _run_if_alone(tx, work))
        await self._wire.announce()

    async def close(self) -> None:
        """Closes the engine. Accepted transactions are finished."""
        self._closing = True
        while self._running:
            await asyncio.wait(self._running)
        if self._wire is not None:
            await self._wire.close()
        if self._writes is not None:
            await self._writes.dispose()
        await self._reads.dispose()

    async def _submit(self, pool: AsyncEngine, gate: Admission, work: Callable[[Tx], R]) -> R:
        await gate.enter()
        if self._closing:
            gate.leave()
            raise StoreError("The store is closed.")
        # A task of its own, so that the transaction goes on if the caller is cancelled.
        job: Job[R] = Job(work, asyncio.get_running_loop().create_future())
        task = asyncio.create_task(self._perform(pool, job))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda _: gate.leave())
        return await job.future

    async def _perform(self, pool: AsyncEngine, job: Job[Any]) -> None:
        try:
            await self._attempt_until_done(pool, job)
        except Exception as error:  # noqa: BLE001  (handed on to the caller)
            job.fail(error)
        if job.topics and self._wire is not None:
            keys = [topic_key(topic) for topic in job.topics]
            self._hub.wake(keys)
            self._wire.send(keys)
        self._hub.wake_later(job.later)
        job.settle()
        self._hub.tell(job.facts)

    async def _attempt_until_done(self, pool: AsyncEngine, job: Job[Any]) -> None:
        until = asyncio.get_running_loop().time() + AWAY_SECONDS
        away = attempt = 0
        while True:
            attempt += 1
            try:
                await self._attempt(pool, job)
                return
            except DatabaseAway:
                away += 1
                if self._closing or self._wanted is None or asyncio.get_running_loop().time() >= until:
                    raise
            except DBAPIError as error:
                reason = _why_again(error)
                if reason is None:
                    raise
                if attempt - away == ATTEMPTS:
                    raise StoreError(
                        f"PostgreSQL did not take a transaction in {ATTEMPTS} attempts ({reason}). "
                        "Nothing of it was stored; try again later."
                    ) from error
                if _state(error.orig) == _LOCKED:
                    await self._end_frozen()
            except TimeoutError as error:
                await self._end_frozen()  # a migration waits for a lock without a time-out
                raise StoreError(
                    f"PostgreSQL did not answer within {COMMAND_SECONDS:g} seconds. Nothing was stored; "
                    "try again later."
                ) from error
            # Jitter, so that transactions that collided do not collide again.
            await asyncio.sleep(random.uniform(0.5, 1.0) * 0.01 * 2 ** min(attempt, 6))  # noqa: S311  (no secret)

    async def _end_frozen(self) -> None:
        """Ends frozen transactions once, for all who wait for them."""
        if self._ending is None or self._ending.done():
            self._ending = asyncio.create_task(self._terminate())
        await asyncio.shield(self._ending)

    async def _terminate(self) -> None:
        try:
            alone = await self._connect()
            try:
                ended = await alone.fetchval(END_FROZEN)
            finally:
                await alone.close()
        except (*BROKEN, DatabaseAway) as error:
            _log.warning("Could not look for frozen transactions in PostgreSQL: %s", error)
            return
        log_ended(ended)

    async def _attempt(self, pool: AsyncEngine, job: Job[Any]) -> None:
        try:
            connection = await pool.connect().start()
        except sqlalchemy.exc.TimeoutError:
            raise Busy("All connections to PostgreSQL are in use. Nothing was stored; try again soon.") from None
        try:
            transaction = await connection.begin()
            await connection.run_sync(self._run_job, job)
            if job.error is not None:
                error, job.error = job.error, None
                await transaction.rollback()
                raise error
            await _commit(transaction)
        finally:
            await connection.close()

    def _run_job(self, connection: Connection, job: Job[Any]) -> None:
        job.run(Tx(connection, "postgresql", self._clock))

    def _pool(self, size: int) -> AsyncEngine:
        return create_async_engine(
            "postgresql+asyncpg://",
            async_creator=self._connect,
            pool_size=size,
            max_overflow=0,
            pool_timeout=10,
            hide_parameters=True,
            execution_options={"compiled_cache": _COMPILED},
        )

    async def _connect(self) -> DriverConnection:
        try:
            connection: DriverConnection = await asyncpg.connect(
                self._dsn,
                timeout=CONNECT_SECONDS,
                command_timeout=COMMAND_SECONDS,
                target_session_attrs=self._wanted,
                server_settings=SESSION,
            )
        except asyncpg.TargetServerAttributeNotMatched as error:
            raise DatabaseAway(
                f"PostgreSQL at {self._name} takes no writes: it is a standby, or was made read-only. Wait for the "
                "failover to end, or name the primary in the store's URL."
            ) from error
        except (*BROKEN, ValueError) as error:
            raise DatabaseAway(
                f"PostgreSQL at {self._name} can't be reached: {why_away(error)}. Start it, or correct the store's URL."
            ) from error
        return connection


def _run_if_alone(tx: Tx, work: Callable[[Tx], None]) -> None:
    # The lock ends with this transaction. PostgreSQL ends both if this process freezes: then the others can start.
    if tx.execute(sqlalchemy.select(sqlalchemy.func.pg_try_advisory_xact_lock(PRESENCE))).scalar_one():
        work(tx)


def why_away(error: Exception) -> str:
    """Why there is no connection. The operating system's numbers say nothing to most readers. If a name has several
    addresses, one error stands for all of them."""
    numbers = {int(number) for number in _ERRNO.findall(str(error))}
    if isinstance(error, TimeoutError):
        return f"it did not answer within {CONNECT_SECONDS:g} seconds"
    if isinstance(error, socket.gaierror):
        return "the name of its host could not be looked up"
    if errno.ECONNREFUSED in numbers:
        return "nothing accepts connections there"
    return os.strerror(min(numbers)) if numbers else str(error) or "no answer"


def _dropped_if_read_only(context: ExceptionContext) -> None:
    """Drops a connection whose server has become read-only. The pool then drops all connections of the same age, and
    looks for the server that accepts writes."""
    if _state(context.original_exception) == _READ_ONLY:
        context.is_disconnect = True


def _state(error: BaseException | None) -> object:
    return getattr(error, "sqlstate", None)


async def _commit(transaction: AsyncTransaction) -> None:
    try:
        await transaction.commit()
    except (DBAPIError, OSError) as error:
        if isinstance(error, OSError) or (error.connection_invalidated and not _not_stored(error)):
            raise OutcomeUnknown(
                "The connection to PostgreSQL broke during the commit: whether this was stored is not known. "
                "Look before trying again."
            ) from error
        raise


def _not_stored(error: DBAPIError) -> bool:
    """Whether a broken connection certainly ended before PostgreSQL saw the COMMIT.

    PostgreSQL may end a transaction that waits for its next statement: the server shuts down, or the process was frozen
    or had no CPU for as long as `idle_in_transaction_session_timeout`. It sends an error, and then closes the
    connection. Between the two, asyncpg refuses every statement as if another operation were in progress. A COMMIT that
    it sent before it read that error is answered with it, but a transaction ended by this time-out never gets one."""
    refused = error.orig.__cause__ if error.orig is not None else None
    if isinstance(refused, asyncpg.InternalClientError):
        return str(refused).startswith("cannot switch to state")
    return refused is not None and _state(refused.__cause__) == _IDLE


def _why_again(error: DBAPIError) -> str | None:
    """Why to try again, or None. Only transactions that certainly left nothing behind are retried."""
    if error.connection_invalidated:
        return "the connection broke"
    if _state(error.orig) in _TRY_AGAIN:
        return "others were in the way"
    if type(error.orig).__name__ == "InvalidCachedStatementError":
        return "the schema was changed meanwhile"
    return None
