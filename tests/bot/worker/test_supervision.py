"""Background tasks that fail are restarted, logs and probes say so, and other tasks go on."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from adk_confirm.bot.store.open import open_store
from adk_confirm.bot.telemetry.metrics import Metrics
from adk_confirm.bot.telemetry.readiness import Readiness
from adk_confirm.bot.worker.supervision import RestartPauses, Supervisor, end_now
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.store.database import Database, Tx
from tests.support.kill import child
from tests.support.office import POLICY, SERVICE_SECRET, Office, Opens, wake
from tests.support.scraping import Scraped, get, scrape
from tests.support.stores import SECRET, temporary_store
from tests.support.waiting import until

SHORT = RestartPauses(first=0.1, longest=1.0, steady=3.0)
SEALS_OFTEN = f'{POLICY}\n[audit]\ncheckpoint_every = "1s"\n'


@asynccontextmanager
async def without(database: Database, table: str) -> AsyncIterator[None]:
    """A table is gone for a while. Who reads it for the worker notices at once."""
    await database.run(lambda tx: tx.run(f"ALTER TABLE {table} RENAME TO gone"))
    await database.run(wake)
    try:
        yield
    finally:
        await database.run(lambda tx: tx.run(f"ALTER TABLE gone RENAME TO {table}"))


async def restarted(at: Office, task: str, times: int) -> Scraped:
    """The metrics, once the task was started again so often."""

    async def look() -> Scraped | None:
        page = await scrape(at.bot.url)
        return page if page.value("adk_confirm_task_restarts_total", task=task) >= times else None

    return await until(look)


async def ready(at: Office) -> None:
    async def look() -> bool:
        return (await get(f"{at.bot.url}/readyz"))[0] == 200

    await until(look)


def sealed(tx: Tx) -> int:
    return int(tx.value("SELECT count(*) FROM bot_checkpoints"))


def unsealed(tx: Tx) -> int:
    return int(tx.value("SELECT count(*) FROM bot_chains WHERE hash <> sealed_hash"))


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_one_that_fails_is_named_and_the_others_go_on(
    open_office: Opens, caplog: pytest.LogCaptureFixture
) -> None:
    """One task reads the table of checkpoints, and no decision does."""
    caplog.set_level(logging.INFO, "adk_confirm.bot.worker.supervision")
    async with open_office(SEALS_OFTEN, pauses=SHORT) as at:
        async with without(at.bot.database, "bot_checkpoints"):
            page = await restarted(at, "checkpoints", 1)
            assert page.value("adk_confirm_task_down", task="checkpoints") == 1
            assert page.value("adk_confirm_task_down", task="worker") == 0
            status, said = await get(f"{at.bot.url}/readyz")
            assert status == 503
            lines = dict(line.split(": ", 1) for line in said.splitlines())
            assert lines["checkpoints"].startswith("it failed and is started again: "), said
            assert [lines[task] for task in ("store", "worker")] == ["ok"] * 2

            card = await at.ask("reimburse 1500 for the team dinner")
            await at.bob.clicks(card, "Approve")
            await at.ann.finds("Done: Reimburse", at.deploys, thread=card)
        await ready(at)
        assert (await scrape(at.bot.url)).value("adk_confirm_task_down") == 0
        await at.bob.clicks(card, "Approve", stale=True)
        await at.bob.gets_modal("You already approved")
        before = await at.bot.database.read(sealed)
        await at.ask("reimburse 1500 for the team dinner")
        await until(lambda: at.bot.database.read(lambda tx: sealed(tx) > before))

    failures = [record for record in caplog.records if "the background task checkpoints failed (" in record.message]
    assert [record.message.rpartition(" in ")[2] for record in failures[:2]] == ["0.1 s", "0.2 s"]
    assert all(record.levelno == logging.ERROR and record.exc_info for record in failures)
    assert "the background task checkpoints works again" in caplog.messages


async def test_a_task_that_waits_to_be_restarted_still_ends_in_its_own_way(
    open_office: Opens, database_url: str
) -> None:
    """The last checkpoint covers everything, also where the ones before could not be made."""
    async with open_office(SEALS_OFTEN, pauses=RestartPauses(first=0.4)) as at:  # and 1.6 seconds at the end
        await at.ask("reimburse 1500 for the team dinner")
        await at.rests()
        async with without(at.bot.database, "bot_checkpoints"):
            await restarted(at, "checkpoints", 2)
    store = await open_store(database_url, SERVICE_SECRET)
    assert await store.read(unsealed) == 0
    await store.close()


@asynccontextmanager
async def supervising() -> AsyncIterator[tuple[Supervisor, Readiness]]:
    readiness = Readiness()
    readiness.started()
    with temporary_store() as url:
        store = await open_store(url, SECRET)
        yield Supervisor(readiness, Metrics(store), SHORT), readiness
        await store.close()


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("ends", "it ended unexpectedly"),
        ("is cancelled", "something inside it was cancelled"),
        ("refuses", "This one can't be done"),
        ("fails", "KeyError from ValueError"),
    ],
)
async def test_whatever_way_it_ends_it_is_started_again(how: str, reason: str) -> None:
    """Of an exception that is not ours only the kinds are told: its words may quote arguments."""
    runs = 0
    again, done = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        nonlocal runs
        runs += 1
        if runs > 1:
            again.set()
            await done.wait()
        elif how == "is cancelled":
            raise asyncio.CancelledError
        elif how == "refuses":
            raise Invalid("This one can't be done.")
        elif how == "fails":
            try:
                int("Z0RA")
            except ValueError as error:
                raise KeyError("Z0RA") from error

    async with supervising() as (supervisor, readiness):
        task = supervisor.begin("counting", run)
        async with asyncio.timeout(20):
            await again.wait()
        assert await readiness.look() == {"counting": f"it failed and is started again: {reason}. See the log."}
        supervisor.stop()
        done.set()
        await task


def test_the_pauses_grow_and_stay_bounded() -> None:
    assert [RestartPauses().after(failures) for failures in (1, 2, 3, 6, 7, 100_000)] == [1, 2, 4, 32, 60, 60]


async def ends_in_the_middle_of_a_print() -> None:
    """In the child."""

    class Busy:
        def flush(self) -> None:
            raise RuntimeError("reentrant call")

    sys.stdout = Busy()
    end_now(143)


async def test_a_process_ends_at_once_although_a_signal_came_in_the_middle_of_a_print() -> None:
    async with child(ends_in_the_middle_of_a_print) as process:
        assert await process.gone() == 143
