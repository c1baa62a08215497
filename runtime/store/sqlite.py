"""The engine without set-up: one SQLite file that one process serves, and readers that never wait for it.

A command may write beside that process. SQLite lets one of them write at a time, and the other waits. The process that
serves notices within a second that somebody else has written.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from adk_confirm.runtime.errors import StoreError, read_error
from adk_confirm.runtime.store.private_files import make_private_file, open_private
from adk_confirm.runtime.store.transaction import Admission, Job, Known, Limits, R, SqlDialect, Tx
from adk_confirm.runtime.store.wakeups import Hub, topic_key

GROUP_LIMIT = 256
MOST_KNOWN = 4000
"""How many rows are kept in memory, those of about a thousand threads. If there are more, all are read anew."""
_FIRST, _OTHER, _END = range(3)  # the order in which waiting jobs are done
LOOK = 0.5
"""Seconds between two looks at whether another process has written, while this one has nothing to write."""


# Errors of which the file or the disk is the cause, and not the function that happened to fail.
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
"""With a read-only file system's error, which a reading transaction gets only if its function tries to write."""


_READ_ONLY = (
    "The store can't be written to. Nothing of it was stored. Run this as the user that runs the service: its files, "
    "their folder and the disk must be writable for that user."
)


def as_store_error(error: BaseException, *, writing: bool = False) -> BaseException:
    """The store's own errors as a sentence; other errors unchanged."""
    trouble_codes = _CAN_NOT_WRITE if writing else _TROUBLE
    if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in trouble_codes:
        trouble = StoreError(_sentence(error))
        trouble.__cause__ = error
        return trouble
    return error


def _sentence(error: Exception) -> str:
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY:
            return _LOCKED
        case sqlite3.SQLITE_READONLY:
            return _READ_ONLY
        case _:
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
        self._waiting: queue.PriorityQueue[tuple[int, int, Job[Any] | None]] = queue.PriorityQueue()
        self._numbers = count()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._opened.add_done_callback(read_error)
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._group: list[Job[Any]] = []
        self._closing = False
        self._version: int | None = None  # SQLite's number for what other connections have committed
        self._known: Known = defaultdict(dict)  # rows as its transactions have left them
        # A daemon, so that a process can end even if it does not close the store.
        self._thread = threading.Thread(target=self._main, name="adk-confirm-store", daemon=True)

    async def start(self) -> None:
        self._thread.start()
        try:
            await asyncio.shield(self._opened)
        except asyncio.CancelledError:
            self._put(_END)  # `start` fails, so nobody will close this store
            raise

    async def run(self, work: Callable[[Tx], R], *, read_only: bool = False) -> R:
        await self._gate.enter()
        if self._closing:
            self._gate.leave()
            raise StoreError("The store is closed.")
        job: Job[R] = Job(work, self._loop.create_future(), read_only=read_only)
        self._put(_FIRST if job.goes_first else _OTHER, job)
        return await job.future

    async def close(self) -> None:
        """Finishes accepted transactions, then closes the file."""
        if not self._closing:
            self._closing = True
            self._put(_END)
        await asyncio.shield(self._ended)

    def _put(self, order: int, job: Job[Any] | None = None) -> None:
        self._waiting.put((order, next(self._numbers), job))

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
        while True:
            try:
                _, _, job = self._waiting.get(timeout=LOOK)
            except queue.Empty:
                self._look(connection)
                continue
            if job is None:
                return
            self._group = [job]
            failure = self._run_group(connection)
            if failure is not None:
                for job in self._group:
                    job.fail(StoreError(failure))
            done, self._group = self._group, []
            self._tell(self._settle, done)

    def _next_of_group(self) -> Job[Any] | None:
        """The next job for this group, or None. After a job that goes first, no other is added: its caller should not
        wait longer for the commit."""
        try:
            waiting = self._waiting.get_nowait()
        except queue.Empty:
            return None
        order, _, job = waiting
        if job is None or (order == _OTHER and any(done.goes_first for done in self._group)):
            self._waiting.put(waiting)
            return None
        return job

    def _look(self, connection: sqlite3.Connection) -> None:
        """Wakes everybody if another connection has committed since the last look, and forgets what is known."""
        seen = self._version
        try:
            self._version = connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            self._known.clear()
            return  # the next transaction says what is wrong
        if seen not in (None, self._version):
            self._known.clear()
            self._tell(self._hub.wake_all)

    def _run_group(self, connection: sqlite3.Connection) -> str | None:
        """Runs a transaction, and those that wait when it begins. Returns None if all are committed. Otherwise none is,
        and it returns the error."""
        most = min(1 + self._waiting.qsize(), GROUP_LIMIT)
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._look(connection)  # nobody else can write from here on
            if sum(map(len, self._known.values())) > MOST_KNOWN:
                self._known.clear()
            self._run_job(self._group[0], connection, opens_group=True)
            while len(self._group) < most and (job := self._next_of_group()) is not None:
                self._group.append(job)
                self._run_job(job, connection, opens_group=False)
            connection.execute("COMMIT")
        except (sqlite3.Error, _GroupLost) as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._known.clear()
            return _sentence(error)
        return None

    def _run_job(self, job: Job[Any], connection: sqlite3.Connection, *, opens_group: bool) -> None:
        if not opens_group:
            connection.execute("SAVEPOINT job")
        if job.read_only:
            connection.execute("PRAGMA query_only=ON")
        job.run(Tx(connection, "sqlite", self._clock, self._known))
        if job.read_only:
            connection.execute("PRAGMA query_only=OFF")
        if not connection.in_transaction:
            raise _GroupLost(str(job.error or "the transaction was ended from inside"))
        if job.error is not None:
            self._known.clear()
            job.error = as_store_error(job.error, writing=not job.read_only)
            if opens_group:  # nothing of this group is written yet, so all of it can be undone
                connection.execute("ROLLBACK")
                connection.execute("BEGIN IMMEDIATE")
            else:
                connection.execute("ROLLBACK TO job")
        if not opens_group:
            connection.execute("RELEASE job")

    def _tell(self, callback: Callable[..., object], *args: object) -> None:
        if not self._loop.is_closed():  # otherwise nobody waits any more
            self._loop.call_soon_threadsafe(callback, *args)

    # The following runs on the event loop.

    def _settle(self, jobs: list[Job[Any]]) -> None:
        self._hub.wake({topic_key(topic) for job in jobs for topic in job.topics})
        for job in jobs:
            self._gate.leave()
            job.settle()
        for job in jobs:
            self._hub.tell(job.facts)

    def _break_off(self, error: BaseException) -> None:
        """Fails all waiting transactions after the thread has ended. What it had not committed did not happen."""
        self._closing = True
        left = [*self._group]
        while not self._waiting.empty():
            if (job := self._waiting.get_nowait()[2]) is not None:
                left.append(job)
        for job in left:
            job.fail(StoreError(f"SQLite's writer broke ({error}). Nothing of it was stored. Restart this process."))
        self._settle(left)


READERS = 4
BUSY_SECONDS, BUSY_SECONDS_BESIDE = 5.0, 30.0
"""How long a transaction waits for another process that writes: in the process that serves, and beside it. A process
that serves writes nearly all the time when it has much to do."""


class SqliteEngine:
    dialect: SqlDialect = "sqlite"

    def __init__(self, readers: _Readers | None, writer: SqliteWriter | None, lock: LockFile | None) -> None:
        self._readers = readers
        self._writer = writer
        self._lock = lock

    @classmethod
    async def open(
        cls, path: Path | None, clock: Callable[[], float], hub: Hub, limits: Limits, *, read_only: bool, beside: bool
    ) -> SqliteEngine:
        """Opens a store. Without a path the store is in memory: it belongs to its writer's connection, and ends with
        it."""
        if path is None:
            return cls(None, await _start_writer(None, clock, hub, limits), None)
        if beside:
            return cls(_Readers(path, clock), await _start_writer(path, clock, hub, limits, beside=True), None)
        if read_only:
            engine = cls(_Readers(path, clock), None, None)
            await engine.read(lambda _: None)  # fails now, not at the first use
            return engine
        lock = LockFile(path)
        try:
            writer = await _start_writer(path, clock, hub, limits)
        except BaseException:
            lock.release()
            raise
        return cls(_Readers(path, clock), writer, lock)

    async def write(self, work: Callable[[Tx], R]) -> R:
        if self._writer is None:
            raise StoreError("The store was opened for reading only.")
        return await self._writer.run(work)

    async def read(self, work: Callable[[Tx], R]) -> R:
        if self._readers is not None:
            return await self._readers.run(work)
        assert self._writer is not None
        return await self._writer.run(work, read_only=True)

    async def close(self) -> None:
        if self._readers is not None:
            await self._readers.close()
        if self._writer is not None:
            await self._writer.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None


class _Readers:
    """A few read-only connections, used from a few threads and the event loop. In WAL mode readers never wait."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="adk-confirm-read")
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._closed = False

    async def run(self, work: Callable[[Tx], R]) -> R:
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, work)

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("The store is closed.")

    def _read(self, work: Callable[[Tx], R]) -> R:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = _connect_reader(self._path)
        try:
            connection.execute("BEGIN")
            return work(Tx(connection, "sqlite", self._clock))
        except sqlite3.Error as error:
            raise as_store_error(error) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._idle.put(connection)


async def _start_writer(
    path: Path | None, clock: Callable[[], float], hub: Hub, limits: Limits, *, beside: bool = False
) -> SqliteWriter:
    writer = SqliteWriter(lambda: _connect(path, beside), clock, hub, Admission(limits))
    await writer.start()
    return writer


def _connect(path: Path | None, beside: bool) -> sqlite3.Connection:
    if path is not None:
        make_private_file(path)
    patience = BUSY_SECONDS_BESIDE if beside else BUSY_SECONDS
    try:
        raw = sqlite3.connect(path if path is not None else ":memory:", timeout=patience, isolation_level=None)
        with _closed_unless_ready(raw):
            (mode,) = raw.execute("PRAGMA journal_mode=WAL").fetchone()
            if path is not None and mode != "wal":
                raise StoreError(
                    f"{path} is on a file system where SQLite can't keep a write-ahead log. Put it on a local disk."
                )
            raw.execute("PRAGMA synchronous=FULL")
            raw.execute("PRAGMA fullfsync=ON")  # macOS: fsync alone leaves data in the disk's own cache
            raw.execute("PRAGMA foreign_keys=ON")
            if beside:
                # Only one process makes checkpoints: SQLite before 3.51.3 may lose what is written during two of them.
                raw.execute("PRAGMA wal_autocheckpoint=0")
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
            raise StoreError(_READ_ONLY) from error
        raise StoreError(
            f"{path} can't be opened as a SQLite store: {error}. Is it another kind of file, or not writable?"
        ) from error
    return raw


def _connect_reader(path: Path) -> sqlite3.Connection:
    if not path.exists():
        raise StoreError(f"There is no store at {path} yet: nothing was written there so far.")
    try:
        raw = sqlite3.connect(
            f"file:{quote(str(path))}?mode=ro",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,  # `_Readers` gives each connection to one thread at a time
        )
        with _closed_unless_ready(raw):
            raw.execute("PRAGMA query_only=ON")
            raw.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise StoreError(f"{path} can't be read as a SQLite store: {error}. Is it another kind of file?") from error
    return raw


@contextmanager
def _closed_unless_ready(raw: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        raw.close()
        raise


if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        # Others can't read the locked byte, so it is far behind the note that says who holds the lock.
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(descriptor: int) -> None:
        # flock, not lockf: POSIX record locks are silently dropped when any descriptor of the file is closed,
        # and don't keep two stores in one process apart.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class LockFile:
    """The file `x.db.lock` next to `x.db`. It stays when the lock is released: if it were removed, two processes could
    hold the lock."""

    def __init__(self, database: Path) -> None:
        path = database.with_name(database.name + ".lock")
        try:
            self._descriptor = open_private(path)
        except OSError as error:
            raise StoreError(
                f"{path} can't be written ({error.strerror}). The store needs a directory that exists and "
                "that this process may write to."
            ) from error
        try:
            _take(self._descriptor)
        except OSError as error:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            holder = os.read(self._descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StoreError(
                f"{database} is already served by process {holder}. One process serves a SQLite store: stop that one "
                "first, or use PostgreSQL to run several."
            ) from error
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        os.close(self._descriptor)
