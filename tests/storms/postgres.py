"""The store of a storm on a real PostgreSQL. Each transaction has a connection and a thread of its own, and stops
before each statement: the loop says when it goes on. So their statements are mixed as the seed wants it, and they wait
for each other's locks. Only one thread ever runs."""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from adk_confirm.bot.store.open import open_store
from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.postgres import ATTEMPTS, SESSION, _Again, _nothing_stored, _roll_back
from adk_confirm.runtime.store.transaction import Job, SqlDialect, Tx
from tests.storms.loop import Process
from tests.storms.office import SECRET
from tests.storms.store import StormEngine, StormStore
from tests.support.postgres import PREFIX, PostgresServer

_numbers = itertools.count()
_GLANCE = 0.001
_SETTINGS = " ".join(f"-c {name}={value}" for name, value in SESSION.items() if not name.endswith("_timeout"))
"""The server's own time-outs are in real time, which nobody here has."""


class _Over(BaseException):
    """Ends the thread of a transaction whose process died."""


class PostgresStore(StormStore):
    dialect: SqlDialect = "postgresql"

    def __init__(self, server: PostgresServer, *given: Any) -> None:
        super().__init__(b"", *given)
        self._server, self._name = server, f"storm_{os.getpid()}_{next(_numbers)}"
        server._run(f"CREATE DATABASE {self._name} TEMPLATE empty STRATEGY FILE_COPY")
        self._idle: dict[bool, list[psycopg.Connection[Any]]] = {True: [], False: []}
        self._all: list[psycopg.Connection[Any]] = []
        self.open: list[_Transaction] = []
        self._observer = self.connect(read_only=False)
        self._observer.autocommit = True

    def connect(self, *, read_only: bool) -> psycopg.Connection[Any]:
        if self._idle[read_only]:
            return self._idle[read_only].pop()
        made = psycopg.connect(self._server.url(self._name), options=_SETTINGS)
        if read_only:
            made.isolation_level, made.read_only = psycopg.IsolationLevel.REPEATABLE_READ, True
        self._all.append(made)
        return made

    def gives_back(self, connection: psycopg.Connection[Any], *, read_only: bool) -> None:
        if not connection.closed:
            self._idle[read_only].append(connection)

    def tx(self, *, whole: bool = False) -> Tx:
        return Tx(self.connect(read_only=True) if whole else self._observer, "postgresql", self.now)

    def perform(self, engine: StormEngine, job: Job[Any], at: float | None, then: Callable[[], None]) -> None:
        made = _Transaction(self, engine.replica.process, job, at, then)
        self.open.append(made)
        made.goes_on()

    def is_blocked(self, connection: psycopg.Connection[Any]) -> bool:
        return bool(self.tx().value("SELECT cardinality(pg_blocking_pids(:pid))", pid=connection.info.backend_pid))

    def ends(self, process: Process) -> None:
        for one in [one for one in self.open if one.process is process]:
            one.ends()

    def close(self) -> None:
        for one in [*self.open]:
            one.ends()
        for connection in self._all:
            connection.close()
        self._server._run(f"DROP DATABASE {self._name} WITH (FORCE)")


class _Transaction:
    """`Error`, `execute` and `cursor` are what the product has of a connection."""

    Error = psycopg.Error

    def __init__(
        self, store: PostgresStore, process: Process, job: Job[Any], at: float | None, then: Callable[[], None]
    ) -> None:
        self._store, self.process, self._job, self._at, self._then = store, process, job, at, then
        self._go, self._stopped = allocate_lock(), allocate_lock()
        self._go.acquire()
        self._stopped.acquire()
        self._is_over = False
        self._dies = False
        self._connection = store.connect(read_only=job.read_only)
        start_new_thread(self._run, ())

    # On the loop

    def goes_on(self) -> None:
        self._go.release()
        self._look()

    def _look(self) -> None:
        """Waits for its next statement, or for its end. If somebody else has what it wants, looks again later."""
        loop = self._store.loop
        while not self._stopped.acquire(timeout=_GLANCE):
            if self._store.is_blocked(self._connection):
                loop.call_later(0.01, self._look_again, context=self.process.context)
                return
        if not self._is_over:
            loop.call_later(self._store.dice.uniform(0, 0.002), self._if_alive, context=self.process.context)
            return
        self._store.open.remove(self)
        self._store.gives_back(self._connection, read_only=self._job.read_only)
        self._then()

    def _if_alive(self) -> None:
        if self._lives():
            self.goes_on()

    def _look_again(self) -> None:
        if self._lives():
            self._look()

    def ends(self) -> None:
        """What is left of a process that died: PostgreSQL undoes it."""
        self._dies = True
        with suppress(psycopg.Error):
            self._connection.cancel()
        if self._go.locked():
            self._go.release()
        while not self._is_over:
            self._stopped.acquire(timeout=_GLANCE)
        self._store.open.remove(self)
        self._store.gives_back(self._connection, read_only=self._job.read_only)

    # On its thread

    def execute(self, sql: str, values: Any) -> Any:
        self._stopped.release()
        self._go.acquire()
        if not self._lives():
            raise _Over
        return self._connection.execute(sql.encode(), values)

    def _lives(self) -> bool:
        return not self._dies

    def _runs(self, tx: Tx) -> None:
        self._job.error = None
        self._job.run(tx)

    def _now(self) -> float:
        return self._store.now() if self._at is None else self._at

    def cursor(self, name: str) -> Any:
        return self._connection.cursor(name)

    def _run(self) -> None:
        self._go.acquire()
        job = self._job
        for attempt in range(1, ATTEMPTS + 1):
            tx = Tx(self, "postgresql", self._now)
            self._runs(tx)
            try:
                tx.end()
                if job.error is None and self._lives():
                    self._connection.commit()
                    break
            except psycopg.Error as error:
                job.fail(error)
            if not isinstance(job.error, psycopg.Error) or not self._lives():
                _roll_back(self._connection)
                break
            job.fail(_nothing_stored(job.error, self._connection))
            if not isinstance(job.error, _Again):
                break
            if attempt == ATTEMPTS:
                job.fail(StoreError("Others were in the way."))
        self._is_over = True
        with suppress(RuntimeError):
            self._stopped.release()


@contextmanager
def served() -> Iterator[PostgresServer]:
    """A server with an empty store, which each storm copies."""
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-") as folder:
        os.chmod(folder, 0o755)  # the server's user looks into it
        server = PostgresServer(Path(folder))
        try:
            server._run("CREATE DATABASE empty TEMPLATE template0 STRATEGY FILE_COPY")

            async def lay_out() -> None:
                await (await open_store(server.url("empty"), SECRET)).close()

            asyncio.run(lay_out())
            yield server
        finally:
            server.stop()
