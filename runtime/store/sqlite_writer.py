"""The only thread of a process that writes to a SQLite file, with group commit.

Transactions that wait at the same time share one `COMMIT`, and so one fsync. Each after the first has a savepoint of
its own, so that a function that raises undoes only its own work. Nobody gets a result before the commit, not even a
refusal, since it may depend on what another transaction of the group has just written.

Another process may write to the file as well. This thread notices, and wakes everybody who waits for something.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.transaction import Admission, Job, R, Tx
from adk_confirm.runtime.store.wakeups import Hub, topic_key

GROUP_LIMIT = 256
LOOK = 0.5
"""Seconds between two looks at whether another process has written, while this one has nothing to write."""


# The cause is the file or the disk, and not the function that happened to fail.
_TROUBLE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PROTOCOL,
    }
)


_LOCKED = (
    "Another process has been writing to the store all the time. Nothing of this was stored; try again. If an "
    "adk-confirm command was stopped or hangs, end it first."
)
_CAN_NOT_WRITE = _TROUBLE | {sqlite3.SQLITE_READONLY}
"""SQLite's error if the file system turned read-only. For a reading transaction it would wrongly blame the function."""


def as_store_error(error: BaseException, *, writing: bool = False) -> BaseException:
    """The store's own errors as a sentence; other errors unchanged."""
    trouble_codes = _CAN_NOT_WRITE if writing else _TROUBLE
    if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in trouble_codes:
        trouble = StoreError(_sentence(error))
        trouble.__cause__ = error
        return trouble
    return error


def _sentence(error: Exception) -> str:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
        return _LOCKED
    return f"SQLite could not do this ({error}). Nothing of it was stored."


class _GroupLost(Exception):
    """SQLite rolled back the whole transaction during a function, for example because the disk is full."""


class SqliteWriter:
    def __init__(
        self, connect: Callable[[], sqlite3.Connection], clock: Callable[[], float], hub: Hub, gate: Admission
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._hub = hub
        self._gate = gate
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.SimpleQueue[tuple[Job[Any], bool] | None] = queue.SimpleQueue()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._group: list[tuple[Job[Any], bool]] = []
        self._closing = False
        self._version: int | None = None  # SQLite's number for what other connections have committed
        # A daemon, so that a process can end even if it does not close the store.
        self._thread = threading.Thread(target=self._main, name="adk-confirm-store", daemon=True)

    async def start(self) -> None:
        self._thread.start()
        try:
            await asyncio.shield(self._opened)
        except asyncio.CancelledError:
            self._waiting.put(None)  # the caller gets no store to close
            raise

    async def run(self, work: Callable[[Tx], R], *, read_only: bool = False) -> R:
        await self._gate.enter()
        if self._closing:
            self._gate.leave()
            raise StoreError("The store is closed.")
        job: Job[R] = Job(work, self._loop.create_future())
        self._waiting.put((job, read_only))
        return await job.future

    async def close(self) -> None:
        """Finishes accepted transactions, then closes the file."""
        if not self._closing:
            self._closing = True
            self._waiting.put(None)
        await asyncio.shield(self._ended)

    # The following runs in the writer's thread.

    def _main(self) -> None:
        try:
            connection = self._connect()
        except BaseException as error:  # noqa: BLE001  (`start` raises it)
            self._tell(self._opened.set_exception, error)
            return
        self._tell(self._opened.set_result, None)
        try:
            self._serve(connection)
            connection.close()
        except BaseException as error:  # noqa: BLE001  (callers must not wait for ever)
            self._tell(self._break_off, error)
        self._tell(self._ended.set_result, None)

    def _serve(self, connection: sqlite3.Connection) -> None:
        while (group := self._next_group()) is not None:
            self._look(connection)
            if not group:
                continue
            self._group = group
            failure = self._run_group(group, connection)
            if failure is not None:
                for job, _ in group:
                    job.fail(StoreError(failure))
            self._group = []
            self._tell(self._settle, [job for job, _ in group])

    def _next_group(self) -> list[tuple[Job[Any], bool]] | None:
        """The transactions that wait. Empty after a while in which none came, and None at the end."""
        try:
            first = self._waiting.get(timeout=LOOK)
        except queue.Empty:
            return []
        if first is None:
            return None
        group = [first]
        while len(group) < GROUP_LIMIT:
            try:
                job = self._waiting.get_nowait()
            except queue.Empty:
                break
            if job is None:
                self._waiting.put(None)  # handled when this group is done
                break
            group.append(job)
        return group

    def _look(self, connection: sqlite3.Connection) -> None:
        """Wakes everybody if another connection has committed since the last look."""
        seen = self._version
        try:
            self._version = connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            return  # the next transaction says what is wrong
        if seen not in (None, self._version):
            self._tell(self._hub.wake_all)

    def _run_group(self, group: list[tuple[Job[Any], bool]], connection: sqlite3.Connection) -> str | None:
        """Runs a group of transactions. Returns None if all are committed, otherwise the error because of which none
        is."""
        try:
            connection.execute("BEGIN IMMEDIATE")
            for number, (job, read_only) in enumerate(group):
                self._run_job(job, read_only, connection, first=number == 0)
            connection.execute("COMMIT")
        except (sqlite3.Error, _GroupLost) as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return _sentence(error)
        return None

    def _run_job(self, job: Job[Any], read_only: bool, connection: sqlite3.Connection, *, first: bool) -> None:
        if not first:
            connection.execute("SAVEPOINT job")
        if read_only:
            connection.execute("PRAGMA query_only=ON")
        job.run(Tx(connection, "sqlite", self._clock))
        if read_only:
            connection.execute("PRAGMA query_only=OFF")
        if not connection.in_transaction:
            raise _GroupLost(str(job.error or "the transaction was ended from inside"))
        if job.error is not None:
            job.error = as_store_error(job.error, writing=not read_only)
            if first:  # there is no other's work to keep yet
                connection.execute("ROLLBACK")
                connection.execute("BEGIN IMMEDIATE")
            else:
                connection.execute("ROLLBACK TO job")
        if not first:
            connection.execute("RELEASE job")

    def _tell(self, callback: Callable[..., object], *args: object) -> None:
        if not self._loop.is_closed():  # otherwise nobody waits any more
            self._loop.call_soon_threadsafe(callback, *args)

    # The following runs on the event loop.

    def _settle(self, jobs: list[Job[Any]]) -> None:
        self._hub.wake({topic_key(topic) for job in jobs for topic in job.topics})
        for job in jobs:
            self._hub.wake_later(job.later)
            self._gate.leave()
            job.settle()
        for job in jobs:
            self._hub.tell(job.facts)

    def _break_off(self, error: BaseException) -> None:
        """Fails all waiting transactions after the thread has ended. What it had not committed did not happen."""
        self._closing = True
        left = [job for job, _ in self._group]
        while not self._waiting.empty():
            if (entry := self._waiting.get_nowait()) is not None:
                left.append(entry[0])
        for job in left:
            job.fail(StoreError(f"SQLite's writer broke ({error}). Nothing of it was stored. Restart this process."))
        self._settle(left)
