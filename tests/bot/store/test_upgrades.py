"""Stores that an earlier release left, killed with calls in every state, go on under this one: what people see in
Slack still works, and nothing that was approved is lost or runs twice."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from adk_confirm.blocks import words
from adk_confirm.bot.cli import main
from adk_confirm.bot.store.open import SCHEMAS, open_store
from adk_confirm.bot.store.pause import resume_runs, switch_runs
from adk_confirm.bot.store.sealed_rows import letter_is_sealed
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.tables import version
from tests.support.left import Left, slack_as_it_was
from tests.support.office import SERVICE_SECRET
from tests.support.stores import change


async def test_it_goes_on_where_the_release_was_killed(
    left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--config", str(tmp_path / "adk-confirm.toml")]
    async with slack_as_it_was(left, tmp_path / "log") as at, at.opens(left, monkeypatch):
        for schema in SCHEMAS:
            assert await at.bot.database.read(version, schema) == schema.version
        running = await at.shown("Did this take effect?", "Work")
        capsys.readouterr()
        assert await asyncio.to_thread(main, ["pending", *told]) == 0
        assert "(did it take effect?)" in capsys.readouterr().out
        # What was approved runs once people resume, once.
        assert await switch_runs(at.bot.database, resume_runs), "it was still paused"
        await at.have_run(1)
        # What was running when it was killed does not run again: people look.
        await at.bob.clicks(running, words.HAPPENED, sure=True)
        # Cards that the release drew can be pressed.
        await at.cyd.clicks(await at.shown("1,200"), "Approve")
        await at.have_run(2)
        await at.bob.clicks(await at.shown("rope"), "It did not", sure=True)  # as the release called it
        # What was said during the pause is heard now.
        await at.bob.clicks(await at.shown("amount 7"), "Approve")
        await at.have_run(3)
        # A thread of then goes on. A grant of then names no agent, so it covers nothing.
        granted = await at.shown("amount 1 ·")
        await at.ann.says('@adk-confirm pay {"to": "Ada", "amount": 1, "token": "s3cret"}', at.deploys, thread=granted)
        again = await at.slack.until(lambda: [one for one in at.offers(granted) if "Approve" in one.buttons])
        await at.bob.clicks(again[0], "Approve")
        await at.have_run(4)
        ran = [("pay", 6), ("pay", 1200), ("pay", 7), ("pay", 1)]
        assert [(line["tool"], line["amount"]) for line in at.ran()] == ran
        assert "Somebody changed" not in at.ann.sees(at.deploys)
        capsys.readouterr()
        assert await asyncio.to_thread(main, ["audit", "verify", *told]) == 0
        with pytest.MonkeyPatch.context() as then:  # no grant is in force by today's clock
            ahead, real = at.slack.clock.now() - time.time(), time.time
            then.setattr(time, "time", lambda: real() + ahead)
            at.slack.clock.advance(-ahead)
            assert await asyncio.to_thread(main, ["grants", *told]) == 0
            at.slack.clock.advance(ahead)
        assert "pay" in capsys.readouterr().out
        assert await asyncio.to_thread(main, ["audit", "list", *told, "--json"]) == 0
        states = {one["state"] for one in json.loads(capsys.readouterr().out)["calls"]}
        assert states >= {"waiting", "denied", "expired", "withdrawn", "lapsed", "approved"}, states
        assert await asyncio.to_thread(main, ["pending", *told, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["parked"], said["running"]) == ([], 0)


@pytest.mark.parametrize("knows_whose", [False, True])
async def test_its_tables_become_those_of_a_new_store(
    left: Left, tmp_path: Path, request: pytest.FixtureRequest, knows_whose: bool
) -> None:
    if knows_whose:  # as between two releases
        database = await Database.open(left.url)
        await database.run(lambda tx: tx.run(SHORT))
        await database.close()
    with ExitStack() as stack:
        new = f"sqlite:///{tmp_path / 'new.db'}"
        if not left.url.startswith("sqlite"):
            new = stack.enter_context(request.getfixturevalue("postgres").database())
        assert await laid_out_at(left.url) == await laid_out_at(new)


SHORT = "CREATE TABLE adk_confirm_store (name VARCHAR(32) PRIMARY KEY, value VARCHAR(512) NOT NULL)"


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
            "ON a.attrelid = c.oid AND NOT a.attisdropped "
            "WHERE a.attnum > 0 AND c.relnamespace = 'public'::regnamespace"
        )
    else:
        found = tx.all(
            "SELECT m.name AS t, c.name AS n, '' AS k FROM sqlite_master m, pragma_table_info(m.name) c "
            "UNION SELECT name, coalesce(tbl_name, ''), type FROM sqlite_master"
        )
    return {(row.t, row.n, row.k) for row in found}


async def test_an_upgrade_seals_nothing_that_somebody_changed_before(left: Left) -> None:
    database = await Database.open(left.url)
    await database.run(change, "bot_mail", person="U0MALLORY")
    await database.close()
    upgraded = await open_store(left.url, SERVICE_SECRET)
    try:
        letters = await upgraded.read(lambda tx: tx.all("SELECT * FROM bot_mail"))
        assert letters
        assert not any([await upgraded.read(letter_is_sealed, letter) for letter in letters])
    finally:
        await upgraded.close()


async def test_what_should_be_shown_is_so_after_an_upgrade(left: Left) -> None:
    """In its order; and what was shown stays so."""
    database = await Database.open(left.url)
    await database.run(owe_words_and_answers)
    said, told = await database.read(lambda tx: (tx.all(SAID), tx.all(TOLD)))
    await database.close()
    assert {row.waits for row in said} == {True, False}
    told = [row for row in told if row.matter != "purged"]
    upgraded = await open_store(left.url, SERVICE_SECRET)
    try:
        assert await upgraded.read(lambda tx: (tx.all(SAID_NOW), tx.all(TOLD_NOW))) == (said, told)
        assert await upgraded.read(lambda tx: tx.column("SELECT key FROM jobs WHERE kind = 'reply'")) == ["v1"]
    finally:
        await upgraded.close()


def owe_words_and_answers(tx: Tx) -> None:
    """One answer is about a call that was purged."""
    session, number = tx.all("SELECT session, number FROM bot_spoken ORDER BY session, number")[0]
    for event, at in (("z first", number + 1), ("a second", number + 2)):
        row = {"session": session, "event": event, "body": "{}", "ts": "", "after_seq": 1, "number": at}
        tx.insert("bot_spoken", row)
    about = tx.column("SELECT id FROM bot_confirmations")
    for vote, matter, told_at in (("v1", about[0], None), ("gone", "purged", None), ("told", about[0], 2.0)):
        told = {"vote": vote, "seat": "{}", "body": "{}", "person": "T/U", "matter": matter, "told_at": told_at}
        tx.insert("bot_replies", told)
        if told_at is None:
            tx.insert("jobs", {"kind": "reply", "key": vote, "due_at": 1.0})


SAID = """
    SELECT session, event AS mark, body, body IS NOT NULL AS waits, after_seq FROM bot_spoken ORDER BY session, number
"""
SAID_NOW = """
    SELECT session, mark, body, shown_at IS NULL AS waits, after_seq FROM bot_outbox WHERE kind = 'words'
    ORDER BY session, id
"""
TOLD = "SELECT vote AS mark, seat, body, told_at AS shown_at, person, matter FROM bot_replies ORDER BY id"
TOLD_NOW = "SELECT mark, seat, body, shown_at, person, matter FROM bot_outbox WHERE kind = 'answer' ORDER BY id"
