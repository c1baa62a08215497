"""A store is copied while the service works, and put back: what was decided since then does not run again by itself."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import psycopg
import pytest

from adk_confirm.bot.cards import older_copy
from adk_confirm.bot.cli import main
from adk_confirm.bot.hosts.adk_in_process import artifact_service, session_service
from adk_confirm.bot.ops.check import readable_by_others
from adk_confirm.bot.store.letters import read_pause
from adk_confirm.bot.store.pause import pause_runs, resume_runs, switch_runs
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.store.database import Tx
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.office import LAB, ONE, PAY, Office, config, environment, office
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

AUDITED = f'[audit]\nchannel = "C0AUDIT"\n{ONE}'


def settings(at: Office, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, policies: str = ONE) -> str:
    """For commands, as the service has them."""
    for name, value in environment(at.slack, url).items():
        monkeypatch.setenv(name, value)
    (folder / "adk-confirm.toml").write_text(config(policies, LAB))
    return str(folder / "adk-confirm.toml")


async def command(*line: str) -> int:
    return await asyncio.to_thread(main, line)


async def decided_after_the_copy(
    url: str, tmp_path: Path, patch: pytest.MonkeyPatch, copies: Callable[[str], Awaitable[None]]
) -> FakeSlack:
    """A call waits when the store is copied, and is approved and runs after that."""
    slack = FakeSlack(our_app())
    await slack.__aenter__()
    async with office(url, tmp_path / "log", patch, ONE, slack=slack, target=LAB) as at:
        card = await at.ask(PAY)
        await at.rests()
        await copies(settings(at, url, tmp_path, patch))
        await at.bob.clicks(card, "Approve")
        await at.sees(card, 'pay: {"did"')
        await at.rests()
        assert len(at.ran()) == 1
    return slack


async def goes_on(slack: FakeSlack, url: str, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    """With the copy: nothing runs, whoever presses, until somebody has looked."""
    async with office(url, tmp_path / "log", patch, ONE, slack=slack, target=LAB) as at:
        paused = await at.bot.database.read(read_pause)
        assert paused is not None
        assert paused.by == "operator adk-confirm"
        channel = slack.workspace.directory.channel_named("deploys", "T0ACME")
        assert channel is not None
        assert len(at.ran()) == 1
        await switch_runs(at.bot.database, resume_runs)
        await at.rests()
        assert len(at.ran()) == 1
    async with office(url, tmp_path / "log", patch, ONE, slack=slack, target=LAB) as at:  # it is noticed once
        assert await at.bot.database.read(read_pause) is None
    await slack.__aexit__(None, None, None)


async def test_an_older_sqlite_file_that_is_put_back_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, copy = f"sqlite:///{tmp_path / 'x.db'}", tmp_path / "copy"

    async def copies(file: str) -> None:
        assert await command("backup", str(copy), "--config", file) == 0

    slack = await decided_after_the_copy(url, tmp_path, monkeypatch, copies)
    for old in tmp_path.glob("x.db*"):
        old.unlink()
    shutil.copy(copy / "x.db", tmp_path / "x.db")
    (tmp_path / "x.db").chmod(0o644)
    await goes_on(slack, url, tmp_path, monkeypatch)
    assert [*readable_by_others(url)] == []


async def test_an_older_dump_of_postgresql_is_noticed(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, dump = postgres.programs, tmp_path / "store.dump"
    with postgres.database() as url, postgres.database() as other:

        async def copies(_: str) -> None:
            subprocess.run([programs / "pg_dump", "--format=custom", f"--file={dump}", url], check=True)

        slack = await decided_after_the_copy(url, tmp_path, monkeypatch, copies)
        subprocess.run([programs / "pg_restore", "--no-owner", f"--dbname={other}", dump], check=True)
        await goes_on(slack, other, tmp_path, monkeypatch)
        with psycopg.connect(other) as there:
            assert there.execute("SELECT count(*) FROM bot_confirmations").fetchone() == (1,)


async def test_a_restart_of_the_current_store_is_no_older_copy(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeSlack(our_app()) as slack:
        for _ in range(3):
            async with office(database_url, tmp_path / "log", monkeypatch, ONE, slack=slack, target=LAB) as at:
                assert await at.bot.database.read(read_pause) is None
                await at.ask(PAY)
                await at.rests()


async def test_a_slack_that_does_not_answer_does_not_hold_up_the_start(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(older_copy, "PATIENCE", 0.2)
    async with FakeSlack(our_app()) as slack:
        async with office(database_url, tmp_path / "log", monkeypatch, ONE, slack=slack, target=LAB) as at:
            await at.ask(PAY)
            await at.rests()
        slack.faults.hangs("conversations.replies", times=None)
        async with office(database_url, tmp_path / "log", monkeypatch, ONE, slack=slack, target=LAB) as at:
            assert await at.bot.database.read(read_pause) is None
        assert "Slack did not say in time whether the store is an older copy" in caplog.text


async def test_the_audit_channel_knows_a_later_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    async with FakeSlack(our_app()) as slack:
        slack.channel("audit", id="C0AUDIT")

        async def session(asks: bool) -> bool:
            """Whether runs are paused at its start."""
            async with office(url, tmp_path / "log", monkeypatch, AUDITED, slack=slack, target=LAB) as at:
                paused = await at.bot.database.read(read_pause) is not None
                if paused:
                    await switch_runs(at.bot.database, resume_runs)
                if asks:
                    card = await at.ask(PAY)
                    await at.denies(at.bob, card, "no")
                    await at.rests()
                return paused

        assert not await session(asks=True)  # at its end it makes a checkpoint
        shutil.copy(tmp_path / "x.db", tmp_path / "older")
        assert not await session(asks=True)
        shutil.copy(tmp_path / "older", tmp_path / "x.db")
        for beside in ("x.db-wal", "x.db-shm"):
            (tmp_path / beside).unlink(missing_ok=True)
        assert await session(asks=False)
        assert not await session(asks=False)


def both_wait(tx: Tx) -> bool:
    return int(tx.value("SELECT count(*) FROM jobs WHERE kind = 'session' AND trouble = 'Runs are paused.'")) == 2


async def test_what_ran_when_the_copy_was_made_is_asked_about_though_runs_are_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that may run again waits until somebody has said `resume`."""
    url, copy, gate = f"sqlite:///{tmp_path / 'x.db'}", tmp_path / "copy", tmp_path / "gate"
    monkeypatch.setenv("LAB_GATE", str(gate))
    soon = f'{ONE}[store]\nlease = "1s"\n'
    async with FakeSlack(our_app()) as slack:
        async with office(url, tmp_path / "log", monkeypatch, soon, slack=slack, target=LAB) as at:
            cards = [await at.ask('work {"on": "the roof"}'), await at.ask('redo {"on": "the floor"}')]
            for card in cards:
                await at.bob.clicks(card, "Approve")
                await at.sees(card, "Running: ")
            assert await command("backup", str(copy), "--config", settings(at, url, tmp_path, monkeypatch)) == 0
            gate.touch()
            for card in cards:
                await at.sees(card, "did")
            await at.rests()
        for old in tmp_path.glob("x.db*"):
            old.unlink()
        shutil.copy(copy / "x.db", tmp_path / "x.db")
        async with office(url, tmp_path / "log", monkeypatch, soon, slack=slack, target=LAB) as later:
            assert await later.bot.database.read(read_pause) is not None
            await at.sees(cards[0], "Did this take effect? Work the roof")
            await until(lambda: later.bot.database.read(both_wait))
            assert len(at.ran()) == 4
            await switch_runs(later.bot.database, resume_runs)
            await until(lambda: len(at.ran()) == 6)
            assert [line["tool"] for line in at.ran()][4:] == ["begins", "redo"]


async def test_what_google_adk_keeps_is_copied_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, copy = f"sqlite:///{tmp_path / 'x.db'}", tmp_path / "copy"
    async with office(url, tmp_path / "log", monkeypatch, ONE, target=LAB) as at:
        await session_service(url).create_session(app_name="clerk", user_id="ann", session_id="s")
        artifact_service({}, url)
        (tmp_path / "x-adk-artifacts" / "one").write_text("a picture")
        file = settings(at, url, tmp_path, monkeypatch)
        assert await command("backup", str(copy), "--config", file) == 0
        assert await command("backup", str(copy), "--config", file) == 2
    assert sorted(one.name for one in copy.iterdir()) == ["x-adk-artifacts", "x-adk.db", "x.db"]
    assert (copy / "x-adk-artifacts" / "one").read_text() == "a picture"
    assert {one.stat().st_mode & 0o077 for one in (copy, *copy.iterdir())} == {0}
    kept = session_service(f"sqlite:///{copy / 'x.db'}")
    assert await kept.get_session(app_name="clerk", user_id="ann", session_id="s") is not None


async def test_nobody_takes_half_a_copy_for_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x-adk.db").touch()
    (tmp_path / "x.db").write_text("no database at all")
    (tmp_path / "adk-confirm.toml").write_text(f'[store]\nurl = "sqlite:///{tmp_path}/x.db"\n{ONE}')
    copy = tmp_path / "copy"
    assert await command("backup", str(copy), "--config", str(tmp_path / "adk-confirm.toml")) == 2
    assert f"The copy in {copy} failed, and was removed: file is not a database." in capsys.readouterr().err
    assert not copy.exists()


async def test_a_card_that_is_newer_than_its_row_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, copy = f"sqlite:///{tmp_path / 'x.db'}", tmp_path / "copy"
    async with FakeSlack(our_app()) as slack:
        async with office(url, tmp_path / "log", monkeypatch, ONE, slack=slack, target=LAB) as at:
            card = await at.ask(PAY)
            await at.rests()
            assert await command("backup", str(copy), "--config", settings(at, url, tmp_path, monkeypatch)) == 0
            for switch in (pause_runs, resume_runs):  # no thread has a line about these
                await switch_runs(at.bot.database, switch)
                await at.rests()
            assert "paused" not in at.ann.now(card)
        for old in tmp_path.glob("x.db*"):
            old.unlink()
        shutil.copy(copy / "x.db", tmp_path / "x.db")
        async with office(url, tmp_path / "log", monkeypatch, ONE, slack=slack, target=LAB) as at:
            assert await at.bot.database.read(read_pause) is not None
