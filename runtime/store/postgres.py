"""The engine for several replicas: PostgreSQL, through psycopg's synchronous connections on a few threads.

A replica may freeze, or lose its network, in the middle of a transaction. PostgreSQL's own time-outs (`SESSION`) end
what it left open, so that others wait for its locks no longer than for those of a replica that was killed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import random
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.transaction import (
    Admission,
    Job,
    Limits,
    OutcomeUnknown,
    R,
    SqlDialect,
    Tx,
)
from adk_confirm.runtime.store.wakeups import Hub, topic_key

CHANNEL = "adk_confirm"
EVERYBODY = "*"
PAYLOAD_TOPICS = 400  # of 17 bytes each: PostgreSQL takes payloads of less than 8000 bytes
BACKLOG = 4000
CLOSING_SECONDS = 30.0
RETRY_SECONDS = 1.0

_log = logging.getLogger(__name__)


class WakeupConnection:
    def __init__(self, connect: Callable[[], Awaitable[psycopg.AsyncConnection]], hub: Hub) -> None:
        self._connect = connect
        self._hub = hub
        self._outbox: set[str] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._arrivals = -1

    async def start(self) -> None:
        connection = await self._listen()
        self._task = asyncio.create_task(self._serve(connection), name="adk-confirm-wakeups")

    def send(self, keys: Iterable[str]) -> None:
        self._outbox.update(keys)
        if len(self._outbox) > BACKLOG:
            self._outbox = {EVERYBODY}
        if self._outbox:
            self._changed.set()

    async def close(self) -> None:
        """Sends the remaining notifications, if there is a connection."""
        if self._task is not None:
            self._closing = True
            self._changed.set()
            await asyncio.wait({self._task}, timeout=CLOSING_SECONDS)

    async def _serve(self, connection: psycopg.AsyncConnection | None) -> None:
        broken = False
        while True:
            try:
                if connection is None:
                    connection = await self._listen()
                    self._hub.wake_all()
                if broken:
                    _log.info("The connection for wake-ups is back.")
                broken = False
                await self._talk(connection)
            except (OSError, psycopg.Error, StoreError) as error:
                level = logging.DEBUG if broken else logging.WARNING  # once, and not every second
                _log.log(level, "The connection for wake-ups broke (%s); polling until it is back.", error)
                broken = True
            except Exception:  # noqa: BLE001  (nobody awaits this task)
                _log.exception("The connection for wake-ups failed; polling until it is back.")
            if connection is not None:
                asyncio.get_running_loop().remove_reader(self._arrivals)
                os.close(self._arrivals)
                await connection.close()
                connection = None
            if self._closing:
                return
            await self._pause()

    async def _talk(self, connection: psycopg.AsyncConnection) -> None:
        """Returns when the store closes. Raises if the connection breaks."""
        while True:
            self._changed.clear()
            connection.pgconn.consume_input()
            while (heard := connection.pgconn.notifies()) is not None:
                self._heard(connection, heard.be_pid, heard.extra.decode())
            while self._outbox:
                keys = sorted(self._outbox)[:PAYLOAD_TOPICS]
                await connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, " ".join(keys)))
                self._outbox.difference_update(keys)
            if self._closing:
                return
            await self._changed.wait()

    async def _listen(self) -> psycopg.AsyncConnection:
        connection = await self._connect()
        connection.add_notify_handler(lambda heard: self._heard(connection, heard.pid, heard.payload))
        await connection.execute(f"LISTEN {CHANNEL}")
        # The driver itself reads only while it waits for an answer.
        self._arrivals = os.dup(connection.fileno())
        asyncio.get_running_loop().add_reader(self._arrivals, self._changed.set)
        return connection

    async def _pause(self) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                while not self._closing:
                    await self._changed.wait()
                    self._changed.clear()
        except TimeoutError:
            return

    def _heard(self, connection: psycopg.AsyncConnection, sender: int, payload: str) -> None:
        if sender == connection.pgconn.backend_pid:
            return  # waiters in this process were woken at the commit
        keys = payload.split(" ")
        if EVERYBODY in keys:
            self._hub.wake_all()
        else:
            self._hub.wake(keys)


WRITERS = 10
READERS = 5
FOR_FIRST = 2
"""How many of the writers, and of the readers, are kept for transactions that go first."""
ATTEMPTS = 8
CONNECT_SECONDS = 10
ANSWER_SECONDS = 90.0
"""After this long a transaction fails if its server keeps the connection but says nothing any more. A command that only
reads may take longer: somebody waits for it, and can end it."""
AWAY_SECONDS = 5.0
"""Seconds that a transaction waits for a server that restarts, or for its replacement."""

SESSION = {
    # A replica that is frozen or cut off must not keep its row locks from the others. Its transactions that wait for a
    # lock must give up before the one that holds the lock is ended: else each gets it in its turn, and keeps it.
    "idle_in_transaction_session_timeout": "5000",
    "lock_timeout": "3000",
    "statement_timeout": "60000",
    # When the other end is gone without a word: limits for the server's end. `NETWORK` has the same ones for ours
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
NETWORK = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 30_000}

_IN_THE_WAY = ("40001", "40P01", "55P03")  # serialization_failure, deadlock_detected, lock_not_available
_READ_ONLY = "25006"  # for a writer: its server has become a standby
_CHANGED = "0A000"  # what a prepared statement gets when the schema was changed meanwhile
_IDLE = "25P03"  # idle_in_transaction_session_timeout
_TIME_OVER = "57014"  # statement_timeout
_TROUBLE = ("53", "58")  # the disk, the memory or the server is the cause, and not the function


class DatabaseAway(StoreError):
    """No server that accepts this can be reached now. Nothing was stored."""


class _Again(Exception):
    """Nothing of the transaction was stored, and it may be tried again. The message says why."""


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
        # A process that only reads takes any server that the URL names.
        self._wanted = None if read_only else "read-write"
        self._writes = None if read_only else _Pool(WRITERS, self._connect, patience=ANSWER_SECONDS)
        # Readers have connections of their own, so they don't wait behind writers that wait for a lock.
        self._reads = _Pool(READERS, self._connect_reader, patience=None if read_only else ANSWER_SECONDS)
        self._wire = None if read_only else WakeupConnection(self._connect_for_wakeups, hub)
        self._write_gate, self._read_gate = Admission(limits), Admission(limits)
        self._running: set[asyncio.Task[None]] = set()
        self._closing = False

    @classmethod
    async def open(
        cls, dsn: str, name: str, clock: Callable[[], float] | None, hub: Hub, limits: Limits, *, read_only: bool
    ) -> PostgresEngine:
        engine = cls(dsn, name, clock, hub, limits, read_only=read_only)
        if engine._wire is not None:
            await engine._wire.start()
        else:
            await engine.read(lambda tx: tx.value("SELECT 1"))
        return engine

    async def write(self, work: Callable[[Tx], R]) -> R:
        if self._writes is None:
            raise StoreError("The store was opened for reading only.")
        return await self._submit(self._writes, self._write_gate, work)

    async def read(self, work: Callable[[Tx], R]) -> R:
        return await self._submit(self._reads, self._read_gate, work)

    async def close(self) -> None:
        """Closes the engine. Accepted transactions are finished."""
        self._closing = True
        while self._running:
            await asyncio.wait(self._running)
        if self._wire is not None:
            await self._wire.close()
        for pool in (self._writes, self._reads):
            if pool is not None:
                await asyncio.to_thread(pool.close)

    async def _submit(self, pool: _Pool, gate: Admission, work: Callable[[Tx], R]) -> R:
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

    async def _perform(self, pool: _Pool, job: Job[Any]) -> None:
        try:
            await self._attempt_until_done(pool, job)
        except Exception as error:  # noqa: BLE001  (handed on to the caller)
            job.fail(error)
        if job.topics and self._wire is not None:
            keys = [topic_key(topic) for topic in job.topics]
            self._hub.wake(keys)
            self._wire.send(keys)
        job.settle()
        self._hub.tell(job.facts)

    async def _attempt_until_done(self, pool: _Pool, job: Job[Any]) -> None:
        until = asyncio.get_running_loop().time() + AWAY_SECONDS
        away = attempt = 0
        while True:
            attempt += 1
            try:
                await pool.run(self._attempt, job)
                return
            except DatabaseAway:
                away += 1
                if self._closing or self._wanted is None or asyncio.get_running_loop().time() >= until:
                    raise
            except _Again as again:
                if attempt - away == ATTEMPTS:
                    raise StoreError(
                        f"PostgreSQL did not take a transaction in {ATTEMPTS} attempts ({again}). "
                        "Nothing of it was stored; try again later."
                    ) from again
            # Jitter, so that transactions that collided do not collide again.
            await asyncio.sleep(random.uniform(0.5, 1.0) * 0.01 * 2 ** min(attempt, 6))  # noqa: S311  (no secret)

    # The following runs on a pool's threads.

    def _attempt(self, connection: psycopg.Connection, job: Job[Any]) -> None:
        try:
            tx = Tx(connection, "postgresql", self._clock)
            job.run(tx)
            tx.end()
            if job.error is not None:
                error, job.error = job.error, None
                raise error
        except psycopg.Error as error:
            raise _nothing_stored(error, connection) from error
        except BaseException:
            _roll_back(connection)
            raise
        try:
            connection.commit()
        except psycopg.Error as error:
            told = _nothing_stored(error, connection)
            if connection.closed and error.sqlstate != _IDLE:  # that time-out ended it before the COMMIT came
                raise OutcomeUnknown(
                    "The connection to PostgreSQL broke during the commit: whether this was stored is not known. "
                    "Look before trying again."
                ) from error
            raise told from error

    def _connect(self) -> psycopg.Connection:
        try:
            return psycopg.connect(self._dsn, **self._parameters())
        except (psycopg.Error, OSError) as error:
            raise self._away(error) from error

    def _connect_reader(self) -> psycopg.Connection:
        connection = self._connect()
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        return connection

    async def _connect_for_wakeups(self) -> psycopg.AsyncConnection:
        try:
            return await psycopg.AsyncConnection.connect(self._dsn, **self._parameters(), autocommit=True)
        except (psycopg.Error, OSError) as error:
            raise self._away(error) from error

    def _parameters(self) -> dict[str, Any]:
        settings = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
        given = conninfo_to_dict(self._dsn)
        options = f"{given.get('options') or ''} {settings}".strip()
        wanted = {} if self._wanted is None else {"target_session_attrs": self._wanted}
        network = {**NETWORK, "connect_timeout": CONNECT_SECONDS}
        network = {name: value for name, value in network.items() if name not in given}
        return {**network, **wanted, "options": options, "application_name": "adk-confirm"}

    def _away(self, error: Exception) -> DatabaseAway:
        if "session is read-only" in str(error):
            return DatabaseAway(
                f"PostgreSQL at {self._name} takes no writes: it is a standby, or was made read-only. Wait for the "
                "failover to end, or name the primary in the store's URL."
            )
        return DatabaseAway(
            f"PostgreSQL at {self._name} can't be reached: {why_away(str(error))}. Start it, or correct the store's "
            "URL."
        )


class _Pool:
    """A few threads, each with a connection while it runs a transaction."""

    def __init__(self, size: int, connect: Callable[[], psycopg.Connection], *, patience: float | None) -> None:
        self._connect, self._patience = connect, patience
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="adk-confirm-postgres")
        self._others = asyncio.Semaphore(size - FOR_FIRST)
        self._idle: queue.LifoQueue[psycopg.Connection] = queue.LifoQueue()
        self._at_work: dict[Job[Any], psycopg.Connection] = {}

    async def run(self, attempt: Callable[[psycopg.Connection, Job[Any]], None], job: Job[Any]) -> None:
        async with nullcontext() if job.goes_first else self._others:
            await self._run_soon(attempt, job)

    async def _run_soon(self, attempt: Callable[[psycopg.Connection, Job[Any]], None], job: Job[Any]) -> None:
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._run, attempt, job)
        done, _ = await asyncio.wait({running}, timeout=self._patience)
        if not done and (connection := self._at_work.get(job)) is not None:
            hang_up(connection)  # its thread then finds it broken
        try:
            await running
        except _Again as again:
            if done:
                raise
            raise StoreError(
                f"PostgreSQL did not answer within {self._patience:g} seconds. Nothing was stored; try again later."
            ) from again

    def close(self) -> None:
        self._threads.shutdown()
        self._close_idle()

    def _run(self, attempt: Callable[[psycopg.Connection, Job[Any]], None], job: Job[Any]) -> None:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = self._connect()
        self._at_work[job] = connection
        try:
            attempt(connection, job)
        finally:
            del self._at_work[job]
            if connection.closed:
                self._close_idle()  # the other idle connections are probably broken as well
            else:
                self._idle.put(connection)

    def _close_idle(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()


def hang_up(connection: psycopg.Connection | psycopg.AsyncConnection) -> None:
    """Ends a connection that somebody waits for, without asking the server."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def _roll_back(connection: psycopg.Connection) -> None:
    with suppress(psycopg.Error):
        connection.rollback()


def _nothing_stored(error: psycopg.Error, connection: psycopg.Connection) -> Exception:
    """What to raise after an error that undid the transaction. A connection that is of no more use is closed."""
    _roll_back(connection)  # which also finds out whether it is still there
    state = error.sqlstate
    moved = state == _READ_ONLY and not connection.read_only
    if connection.closed or moved or state == _CHANGED:
        connection.close()
        return _Again("the schema was changed meanwhile" if state == _CHANGED else "the connection broke")
    if state in _IN_THE_WAY:
        return _Again("others were in the way")
    if state == _TIME_OVER:
        seconds = int(SESSION["statement_timeout"]) / 1000
        return StoreError(f"PostgreSQL did not answer within {seconds:g} seconds. Nothing was stored; try again later.")
    if state is not None and state.startswith(_TROUBLE):
        return StoreError(f"PostgreSQL could not do this ({error.diag.message_primary}). Nothing of it was stored.")
    told: Exception = error
    if error.diag.message_primary:
        told.args = (error.diag.message_primary,)  # the details would have values that people wrote
    return told


_REASONS = {
    "timeout expired": f"it did not answer within {CONNECT_SECONDS:g} seconds",
    "Name or service not known": "the name of its host could not be looked up",
    "could not translate host name": "the name of its host could not be looked up",
    "Connection refused": "nothing accepts connections there",
}


def why_away(said: str) -> str:
    """Why there is no connection, in a few words. If a name has several addresses, one error stands for all of them."""
    for words, reason in _REASONS.items():
        if words in said:
            return reason
    told = re.search(r"FATAL:\s*(.*)", said)
    return told[1] if told else said.splitlines()[0].rpartition("failed: ")[2] or "no answer"
