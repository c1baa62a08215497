"""Stores as an earlier release left them, killed with calls in every state, and a bot of today that takes one over with
everything that is in Slack. `tests/bot/store/upgrades/make.py` made them, with that release's own code.

    @pytest.mark.parametrize("left", LEFT, indirect=True)
    async def test_…(left: Left, …) -> None:
        async with slack_as_it_was(left, log) as at, at.opens(left): ...
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from adk_confirm.bot.app import Bot, running_bot
from adk_confirm.bot.config.settings import parse_settings
from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.records import Message
from tests.support.office import AT_ONCE, LAB, Staff, config, environment
from tests.support.postgres import PostgresServer

UPGRADES = Path(__file__).parents[1] / "bot" / "store" / "upgrades"
RELEASES = sorted({path.name.partition(".")[0] for path in UPGRADES.glob("*.gz")})
KINDS = ("sqlite", "postgresql")
_CLOCK = """
    CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql
        AS 'SELECT pg_catalog.clock_timestamp() - make_interval(secs => %s)';
    ALTER DATABASE %s SET search_path = public, pg_catalog;
"""
"""The server's clock, as this database reads it, goes on from when the store was left."""


@dataclass(frozen=True)
class Left:
    """The URL of the store, and what is in Slack."""

    url: str
    slack: Mapping[str, Any]


@contextmanager
def laid_down(release: str, kind: str, directory: Path, postgres: PostgresServer | None) -> Iterator[Left]:
    """The store in a database of its own. Without a server only SQLite can be had."""
    slack = json.loads(_kept(release, f"{kind}.json"))
    text = _kept(release, f"{kind}.sql")
    if postgres is None:
        with closing(sqlite3.connect(directory / "store.db")) as file:
            file.executescript(text)
        yield Left(f"sqlite:///{directory / 'store.db'}", slack)
        return
    with postgres.database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(text.encode())
            connection.execute(_CLOCK % (time.time() - slack["now"] - 60, connection.info.dbname))
        yield Left(url, slack)


def _kept(release: str, what: str) -> str:
    return gzip.decompress((UPGRADES / f"{release}.{what}.gz").read_bytes()).decode()


class Successor(Staff):
    """The same people before the same threads, a minute later."""

    bot: Bot

    @asynccontextmanager
    async def opens(self, left: Left, patch: pytest.MonkeyPatch, **env: str) -> AsyncIterator[None]:
        """A bot of today on the store. Commands find its settings in `adk-confirm.toml` beside the log."""
        patch.setenv("ADK_CONFIRM_DEMO_LOG", str(self.log))
        variables = {**environment(self.slack, left.url), **env}
        for name, value in variables.items():
            patch.setenv(name, value)
        settings = config(left.slack["policies"], LAB)
        self.log.with_name("adk-confirm.toml").write_text(settings)
        clock = self.slack.clock.now
        async with running_bot(parse_settings(settings, variables), clock=clock, limits=AT_ONCE) as self.bot:
            self.slack.sends_to(f"{self.bot.url}/slack/events")
            yield

    def card(self, *words: str) -> Seen | None:
        """The newest card with these words, as it is now."""
        found = [card for card in self.cards() if all(word in card for word in words)]
        return found[-1] if found else None

    async def shown(self, *words: str) -> Seen:
        return await self.slack.until(lambda: self.card(*words), what=f"a card with {words}")

    async def have_run(self, count: int) -> None:
        await self.slack.until(lambda: len(self.ran()) == count or None, what=f"{count} effects")


@asynccontextmanager
async def slack_as_it_was(left: Left, log: Path) -> AsyncIterator[Successor]:
    there = left.slack
    async with FakeSlack(our_app()) as slack:
        assert slack.install.bot_user_id == there["bot"]
        slack.clock.advance(there["now"] - slack.clock.now() + 60)
        at = Successor.of(slack, log)
        channels = slack.workspace.directory.channels
        for channel_id, each in there["channels"].items():
            channel = channels.get(channel_id) or slack.workspace.directory.direct("T0ACME", *each["members"])
            assert channel.id == channel_id
            channel.messages |= {message["ts"]: Message(**message) for message in each["messages"]}
        yield at
