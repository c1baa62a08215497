"""A connection to PostgreSQL whose process is frozen in the middle of a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from adk_confirm.runtime.store.postgres import SESSION


@contextmanager
def frozen(url: str, locks: str) -> Iterator[None]:
    """Holds what the statement `locks`, until PostgreSQL ends it."""
    options = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
    with psycopg.connect(url, options=options) as connection:
        connection.execute(locks)
        yield
        connection.close()
