"""The secret is changed: nothing that waits is lost, the ledger verifies before, during and after, and in the end the
old secret is good for nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from adk_confirm.blocks import words
from adk_confirm.bot.cli import main
from adk_confirm.bot.store import reseal as resealing
from adk_confirm.bot.store.open import open_store
from adk_confirm.bot.store.pause import resume_runs, switch_runs
from adk_confirm.bot.store.reseal import SEALED, count_sealed, reseal_page
from adk_confirm.bot.store.sealed_rows import letter_is_sealed
from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.database import Database, Tx
from tests.support.kill import child, here
from tests.support.left import RELEASES, Left, Successor, slack_as_it_was
from tests.support.office import SERVICE_SECRET
from tests.support.stores import change, unguarded

NEW = "a new secret of more than thirty-two characters"
BOTH = {"ADK_CONFIRM_SECRET": NEW, "ADK_CONFIRM_SECRET_ACCEPTED": SERVICE_SECRET}


async def command(capsys: pytest.CaptureFixture[str], at: Successor, *line: str) -> tuple[int, str]:
    """Its exit code, and what it says."""
    capsys.readouterr()
    code = await asyncio.to_thread(main, [*line, "--config", str(at.log.with_name("adk-confirm.toml"))])
    said = capsys.readouterr()
    return code, said.out + said.err


@pytest.mark.parametrize("left", [(RELEASES[-1], "sqlite")], indirect=True)
async def test_the_secret_is_changed_while_calls_wait(
    left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with slack_as_it_was(left, tmp_path / "log") as at:
        async with at.opens(left, monkeypatch):
            code, line = await command(capsys, at, "audit", "verify")
            assert code == 0, line
            monkeypatch.setenv("ADK_CONFIRM_SECRET", NEW)
            assert "belongs to another secret" in (await command(capsys, at, "pause"))[1]
            code, said = await command(capsys, at, "audit", "verify")  # the ledger is whole: this is a typing mistake
            assert (code, said.partition(":")[0]) == (1, "Not checked")
            assert said.startswith("Not checked: this is not the store's secret, or the store was changed\n  ")
            assert "\n  Set ADK_CONFIRM_SECRET to what it was " in said
            assert "broken" not in said
            monkeypatch.setenv("ADK_CONFIRM_SECRET_ACCEPTED", SERVICE_SECRET)
            assert "has not started with this secret yet" in (await command(capsys, at, "pause"))[1]
            assert (await command(capsys, at, "pending"))[0] == 0
        async with at.opens(left, monkeypatch, **BOTH):  # what waits goes on under both
            await switch_runs(at.bot.database, resume_runs)
            await at.have_run(1)
            await at.bob.clicks(await at.shown("Did this take effect?", "Work"), words.HAPPENED, sure=True)
            assert (await command(capsys, at, "audit", "verify"))[0] == 0
            assert "ADK_CONFIRM_SECRET_ACCEPTED  is accepted too" in (await command(capsys, at, "check"))[1]
            code, said = await command(capsys, at, "reseal")
            assert code == 0, said
        monkeypatch.delenv("ADK_CONFIRM_SECRET_ACCEPTED")
        anchor = tmp_path / "anchor"
        anchor.write_text(said)
        async with at.opens(left, monkeypatch, ADK_CONFIRM_SECRET=NEW):  # the old one is gone
            code, said = await command(capsys, at, "audit", "verify", "--anchor", str(anchor))
            assert code == 0, said
            assert "untampered up to checkpoint" in said
            await at.cyd.clicks(await at.shown("1,200"), "Approve")
            await at.have_run(2)
            await at.bob.clicks(await at.shown("amount 7"), "Approve")
            await at.have_run(3)
            assert "Somebody changed" not in at.ann.sees(at.deploys)
            assert "A line of the ledger was changed" not in at.ann.sees(at.deploys)
            code, said = await command(capsys, at, "audit", "show", "system")
            assert "sealed anew: From here on, what is stored is sealed with a new secret." in said
            assert "sealed anew: All that is stored is sealed with the new secret." in said
            monkeypatch.setenv("ADK_CONFIRM_SECRET", SERVICE_SECRET)
            monkeypatch.setenv("ADK_CONFIRM_SECRET_ACCEPTED", NEW)
            assert "has not started with this secret yet" in (await command(capsys, at, "pause"))[1]
        for secret in (SERVICE_SECRET, "a secret that nobody ever had at all"):
            with pytest.raises(StoreError, match="belongs to another secret"):
                await open_store(left.url, secret)


async def test_it_may_be_killed_anywhere_and_goes_on(
    left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with slack_as_it_was(left, tmp_path / "log") as at:
        async with at.opens(left, monkeypatch, **BOTH):
            await switch_runs(at.bot.database, resume_runs)
            await at.have_run(1)
        file = str(tmp_path / "adk-confirm.toml")
        async with child(reseals_in_small_steps, file) as process:
            for table in SEALED:  # it is killed after a page of each table
                await process.reached(table.write)
                process.go_on()
            process.kill()
            await process.gone()
        async with at.opens(left, monkeypatch, **BOTH):
            code, said = await command(capsys, at, "audit", "verify")
            assert code == 0, said
            code, said = await command(capsys, at, "reseal", "--json")
            assert code == 0, said
            assert 0 < json.loads(said)["sealed_anew"] < await at.bot.database.read(count_sealed)
            assert json.loads((await command(capsys, at, "reseal", "--json"))[1])["sealed_anew"] == 0
        monkeypatch.delenv("ADK_CONFIRM_SECRET_ACCEPTED")
        async with at.opens(left, monkeypatch, ADK_CONFIRM_SECRET=NEW):
            assert (await command(capsys, at, "audit", "verify"))[0] == 0
            await at.cyd.clicks(await at.shown("1,200"), "Approve")
            await at.have_run(2)


async def reseals_in_small_steps(file: str) -> None:
    """Runs in the child: each page has two rows, and somebody may kill it after each."""
    resealing.PAGE = 2
    run = Database.run

    async def run_and_tell(self: Database, work: object, *given: object, **named: object) -> object:
        done: object = await run(self, work, *given, **named)  # type: ignore[arg-type]
        if work is reseal_page:
            here(given[0].write)  # type: ignore[attr-defined]
        return done

    Database.run = run_and_tell  # type: ignore[method-assign, assignment]
    await asyncio.to_thread(main, ["reseal", "--config", file])


async def test_what_somebody_changed_is_not_sealed_anew(
    left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = await open_store(left.url, NEW, accepted=SERVICE_SECRET)
    await store.run(change, "bot_mail", person="U0MALLORY")
    for table in SEALED:
        await store.run(reseal_page, table, None)
    letters = await store.read(lambda tx: tx.all("SELECT * FROM bot_mail"))
    assert letters
    assert not any([await store.read(letter_is_sealed, letter) for letter in letters])
    await store.close()


async def test_a_ledger_that_was_cut_off_is_not_sealed_anew(
    left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with slack_as_it_was(left, tmp_path / "log") as at:
        async with at.opens(left, monkeypatch, **BOTH):
            pass
        store = await open_store(left.url, NEW, accepted=SERVICE_SECRET)
        await store.run(cut_off)
        await store.close()
        code, said = await command(capsys, at, "reseal")
        assert code == 2, said
        assert "Find out why first; nothing was done." in said


def cut_off(tx: Tx) -> None:
    """Removes the last line of a chain together with what says that it was there, but for the checkpoint."""
    unguarded(tx)
    chain = tx.value("SELECT chain FROM bot_chains WHERE seq > 3 ORDER BY chain LIMIT 1")
    last = tx.first("SELECT * FROM bot_ledger WHERE chain = :chain ORDER BY seq DESC LIMIT 1", chain=chain)
    tx.run("DELETE FROM bot_ledger WHERE chain = :chain AND seq = :seq", chain=chain, seq=last.seq)
    at = {"chain": chain, "seq": last.seq - 1, "hash": last.previous}
    tx.run("UPDATE bot_chains SET seq = :seq, hash = :hash, sealed_hash = :hash WHERE chain = :chain", **at)
