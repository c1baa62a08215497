"""Stores that an earlier release left, killed with calls in every state, go on under this one: what people see in
Slack still works, and nothing that was approved is lost or runs twice.

`upgrades/make.py` made them, with that release's own code.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from adk_confirm.blocks import words
from adk_confirm.bot.app import Bot, running_bot
from adk_confirm.bot.cli import main
from adk_confirm.bot.config.settings import parse_settings
from adk_confirm.bot.ops.changes import resume_runs, switch_runs
from adk_confirm.bot.store.open import SCHEMAS, open_store
from adk_confirm.bot.store.rows import letter_is_sealed
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.tables import version
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.records import Message
from tests.support.office import AT_ONCE, LAB, SERVICE_SECRET, Staff, config, environment
from tests.support.postgres import PostgresServer
from tests.support.stores import change

UPGRADES = Path(__file__).with_name("upgrades")
RELEASES = sorted({path.name.partition(".")[0] for path in UPGRADES.glob("*.gz")})


def kept(release: str, what: str) -> str:
    return gzip.decompress((UPGRADES / f"{release}.{what}.gz").read_bytes()).decode()


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["sqlite", "postgresql"])
def left(request: pytest.FixtureRequest, release: str, tmp_path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The URL of a store as the release left it, and what is in Slack."""
    there = json.loads(kept(release, f"{request.param}.json"))
    text = kept(release, f"{request.param}.sql")
    if request.param == "sqlite":
        with closing(sqlite3.connect(tmp_path / "store.db")) as file:
            file.executescript(text)
        yield f"sqlite:///{tmp_path / 'store.db'}", there
        return
    import psycopg

    server: PostgresServer = request.getfixturevalue("postgres")
    with server.database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(text.encode())
        yield url, there


class Successor(Staff):
    """The same people, before the same threads, with this release's bot."""

    bot: Bot


@asynccontextmanager
async def taking_over(
    left: tuple[str, dict[str, Any]], log: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Successor]:
    url, there = left
    monkeypatch.setenv("ADK_CONFIRM_DEMO_LOG", str(log))
    async with FakeSlack(our_app()) as slack:
        assert slack.install.bot_user_id == there["bot"]
        slack.clock.advance(there["now"] - slack.clock.now() + 60)
        at = Successor.of(slack, log)
        channels = slack.workspace.directory.channels
        for channel_id, each in there["channels"].items():
            channel = channels.get(channel_id) or slack.workspace.directory.direct("T0ACME", *each["members"])
            assert channel.id == channel_id
            channel.messages |= {message["ts"]: Message(**message) for message in each["messages"]}
        variables = environment(slack, url)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        settings = config(there["policies"], LAB)
        log.with_name("adk-confirm.toml").write_text(settings)
        async with running_bot(parse_settings(settings, variables), clock=slack.clock.now, limits=AT_ONCE) as at.bot:
            slack.sends_to(f"{at.bot.url}/slack/events")
            yield at


def card_of(at: Staff, *words: str) -> Seen:
    """The newest card with these words, as it is now."""
    found = [card for card in at.cards() if all(word in card for word in words)]
    assert found, (words, [card.text for card in at.cards()])
    return found[-1]


async def shown(at: Staff, *words: str) -> Seen:
    """Waits for the card with these words."""

    def look() -> Seen | None:
        return next((card for card in reversed(at.cards()) if all(word in card for word in words)), None)

    return await at.slack.until(look, what=f"a card with {words}")


def asks_again(at: Staff, thread: Seen) -> Seen | None:
    return next((each for each in at.ann.messages(at.deploys, thread=thread) if "Approve" in each.buttons), None)


async def test_it_goes_on_where_the_release_was_killed(
    left: tuple[str, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with taking_over(left, tmp_path / "log", monkeypatch) as at:
        told = ["--config", str(tmp_path / "adk-confirm.toml")]
        for schema in SCHEMAS:
            assert await at.bot.database.read(version, schema) == schema.version
        # What was approved runs once people resume, once.
        await switch_runs(at.bot.database, resume_runs)
        await at.slack.until(lambda: at.ran() or None)
        # What was running when it was killed does not run again: people look.
        await at.bob.clicks(await shown(at, "Did this take effect?", "Work"), words.HAPPENED, sure=True)
        # Cards that the release drew can be pressed.
        half = card_of(at, "1,200")
        await at.cyd.clicks(half, "Approve")
        await at.slack.until(lambda: len(at.ran()) == 2 or None)
        await at.bob.clicks(card_of(at, "rope"), "It did not", sure=True)  # as the release called it
        # What was said during the pause is heard now.
        await at.bob.clicks(await shown(at, "amount 7"), "Approve")
        await at.slack.until(lambda: len(at.ran()) == 3 or None)
        # A thread of then goes on. A grant of then names no agent, so it covers nothing.
        granted = card_of(at, "amount 1 ·")
        said = '@adk-confirm pay {"to": "Ada", "amount": 1, "token": "s3cret"}'
        await at.ann.says(said, at.deploys, thread=granted)
        again = await at.slack.until(lambda: asks_again(at, granted), what="the card")
        await at.bob.clicks(again, "Approve")
        await at.slack.until(lambda: len(at.ran()) == 4 or None)
        ran = [("pay", 6), ("pay", 1200), ("pay", 7), ("pay", 1)]
        assert [(line["tool"], line["amount"]) for line in at.ran()] == ran
        for seen in at.cards():
            assert "Somebody changed" not in seen
        capsys.readouterr()
        assert await asyncio.to_thread(main, ["audit", "verify", *told]) == 0
        assert await asyncio.to_thread(main, ["grants", *told]) == 0
        assert "pay" in capsys.readouterr().out
        assert await asyncio.to_thread(main, ["audit", "list", *told, "--json"]) == 0
        states = {one["state"] for one in json.loads(capsys.readouterr().out)["calls"]}
        assert states >= {"waiting", "denied", "expired", "withdrawn", "lapsed", "approved"}, states
        assert await asyncio.to_thread(main, ["pending", *told, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["parked"] == []


async def test_its_tables_become_those_of_a_new_store(
    left: tuple[str, dict[str, Any]], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url, _ = left
    with ExitStack() as stack:
        new = f"sqlite:///{tmp_path / 'new.db'}"
        if not url.startswith("sqlite"):
            new = stack.enter_context(request.getfixturevalue("postgres").database())
        assert await laid_out_at(url) == await laid_out_at(new)


async def laid_out_at(url: str) -> set[tuple[str, ...]]:
    database = await open_store(url, SERVICE_SECRET)
    try:
        return await database.read(laid_out)
    finally:
        await database.close()


def laid_out(tx: Tx) -> set[tuple[str, ...]]:
    """The columns and indexes; on PostgreSQL the columns' types, too, which SQLite does not look at."""
    if tx.dialect == "postgresql":
        kinds = "format_type(a.atttypid, a.atttypmod)"
        found = tx.all(
            f"SELECT c.relname AS t, a.attname AS n, {kinds} AS k FROM pg_attribute a JOIN pg_class c "
            "ON a.attrelid = c.oid WHERE a.attnum > 0 AND c.relnamespace = 'public'::regnamespace"
        )
    else:
        found = tx.all(
            "SELECT m.name AS t, c.name AS n, '' AS k FROM sqlite_master m, pragma_table_info(m.name) c "
            "UNION SELECT name, coalesce(tbl_name, ''), type FROM sqlite_master"
        )
    return {(row.t, row.n, row.k) for row in found}


async def test_an_upgrade_seals_nothing_that_somebody_changed_before(left: tuple[str, dict[str, Any]]) -> None:
    url, _ = left
    database = await Database.open(url)
    await database.run(change, "bot_mail", person="U0MALLORY")
    await database.close()
    upgraded = await open_store(url, SERVICE_SECRET)
    try:
        letters = await upgraded.read(lambda tx: tx.all("SELECT * FROM bot_mail"))
        assert letters
        assert not any([await upgraded.read(letter_is_sealed, letter) for letter in letters])
    finally:
        await upgraded.close()
