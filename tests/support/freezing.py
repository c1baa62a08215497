"""A connection to PostgreSQL whose process seems to be frozen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from runtime.store.postgres import SESSION


@asynccontextmanager
async def frozen_while_preparing(url: str, locks: str) -> AsyncIterator[None]:
    """Holds what the statement `locks`. asyncpg prepares a statement in two steps. Between them PostgreSQL waits, and
    does not call that idle."""
    connection = await asyncpg.connect(url, server_settings=SESSION)
    try:
        await connection.execute(f"BEGIN; {locks}")
        connection._transport.pause_reading()
        parse = b"\0SELECT 1\0\0\0"
        connection._transport.write(b"P" + (len(parse) + 4).to_bytes(4, "big") + parse + b"H\0\0\0\4")
        yield
    finally:
        connection.terminate()
