"""Two PostgreSQL servers, one of which follows the other and can take its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

import psycopg

from tests.support.postgres import PostgresServer, postgres_server
from tests.support.scratch import SCRATCH

NAME = "postgres"


@dataclass(frozen=True)
class Pair:
    primary: PostgresServer
    standby: PostgresServer

    @property
    def url(self) -> str:
        """A URL with both, the standby first: a client that takes the first server that answers can't write."""
        hosts = [one.socket_directory for one in (self.standby, self.primary)]
        return f"postgresql://postgres:@/{NAME}?host={quote(','.join(hosts))}"

    async def follows(self, how: str) -> None:
        """Waits until the standby follows as `sync` or `async`."""
        query = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = %s"
        with psycopg.connect(self.primary.url(NAME), autocommit=True) as connection:
            async with asyncio.timeout(30):
                while connection.execute(query, [how]).fetchone() != (1,):
                    await asyncio.sleep(0.05)

    async def becomes_synchronous(self) -> None:
        """Makes every commit wait for the standby from now on."""
        self.primary.psql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.psql("SELECT pg_reload_conf()")
        await self.follows("sync")

    def fails_over(self) -> None:
        self.primary.goes_away(crashes=True)
        self.standby.takes_over()


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    with postgres_server(SCRATCH) as primary:
        standby = primary.followed(primary.directory / "standby")
        try:
            both = Pair(primary, standby)
            await both.follows("async")
            yield both
        finally:
            standby.stop()
