"""What tests do to stores: empty ones, which are copies of one that this process laid out once; rows that are changed;
leases; transactions that form a group."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from adk_confirm.bot.store.open import SCHEMAS
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store import jobs, tables
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.jobs import AtWork, ClaimedJob, JobKind
from adk_confirm.runtime.store.lease import TERM, JobKey, Lease, claim
from adk_confirm.runtime.store.seal import Seal
from tests.support.scratch import SCRATCH

SECRET = "a secret that only tests know, long enough"
KEYS = Seal(SECRET)
"""With these tests open their stores, unless a test has its own."""


async def lay_out(url: str) -> None:
    """Creates the current schemas, and nothing in them: the store belongs to nobody."""
    database = await Database.open(url)
    await tables.lay_out(database, *SCHEMAS)
    await database.close()


def new_store(directory: Path) -> str:
    """The URL of a file in this directory."""
    file = directory / "store.db"
    file.write_bytes(_stock())
    return f"sqlite:///{file}"


@contextmanager
def temporary_store() -> Iterator[str]:
    """The URL of a file in a directory of its own, which is removed at the end."""
    with TemporaryDirectory(prefix="adk-confirm-store-", dir=SCRATCH) as directory:
        yield new_store(Path(directory))


@cache
def _stock() -> bytes:
    with TemporaryDirectory(prefix="adk-confirm-stock-", dir=SCRATCH) as directory:
        file = Path(directory) / "stock.db"
        with ThreadPoolExecutor(1) as thread:  # this thread may have an event loop
            thread.submit(asyncio.run, lay_out(f"sqlite:///{file}")).result()
        return file.read_bytes()


def change(tx: Tx, table: str, /, **values: object) -> None:
    """Sets these columns in every row."""
    tx.run(f"UPDATE {table} SET {', '.join(f'{name} = :{name}' for name in values)}", **values)


def rewrite(tx: Tx, table: str, change: Callable[[JsonObject], object]) -> None:
    """Changes what each row of confirmations or calls says, and its state with it."""
    for row in tx.all(f"SELECT * FROM {table}"):
        body = json.loads(row.body)
        change(body)
        values = {"id": row.id, "body": json.dumps(body), "state": body["state"]}
        tx.run(f"UPDATE {table} SET body = :body, state = :state WHERE id = :id", **values)


def change_job(tx: Tx, kind: str, /, **values: object) -> None:
    """Sets these columns in every job of the kind."""
    tx.run(
        f"UPDATE jobs SET {', '.join(f'{name} = :{name}' for name in values)} WHERE kind = :kind", kind=kind, **values
    )


def unguarded(tx: Tx) -> None:
    """What somebody does first who owns the database and means to change the past."""
    if tx.dialect == "postgresql":
        tx.run("ALTER TABLE bot_ledger DISABLE TRIGGER ALL")
        return
    for name in tx.column("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
        tx.run(f"DROP TRIGGER {name}")


def claim_due(
    tx: Tx, kind: JobKind[Any], room: int, term: float, at_work: Mapping[str, str] | None = None
) -> tuple[list[tuple[str, ClaimedJob]], float | None, bool]:
    """Takes jobs of one kind that have their own leases: by key, the seconds until the next claim, and whether some
    wait for their turn. `at_work`: their keys, and the turns that they take."""
    busy = {JobKey(kind.name, key): turn for key, turn in (at_work or {}).items()}
    at = AtWork([*busy], lambda: nullcontext(busy), elsewhere=[*(at_work or {})])
    claim = jobs.claim_due(tx, [kind], {kind.name: room}, term, at)
    return [(one.job.key, one) for one in claim.jobs], claim.pause, bool(claim.full)


async def a_lease(database: Database, key: str = "a lease") -> Lease:
    """As a worker has it, on a job that nobody else wants."""
    lease = await try_lease(database, JobKey("reply", key), term=3600.0)
    assert lease is not None
    return lease


async def try_lease(database: Database, job: JobKey, *, topic: str | None = None, term: float = TERM) -> Lease | None:
    """The lease, or None if somebody else has it."""
    token = await database.run(claim, job, term=term)
    return None if token is None else Lease(database, job, token, topic=topic, term=term)


async def together(database: Database, *calls: Awaitable[object]) -> list[object]:
    """The results, or exceptions. SQLite's writer is held up until all are queued, so that they form one group."""
    go_on = threading.Event()
    holding = asyncio.create_task(database.run(lambda _: go_on.wait()))
    await asyncio.sleep(0)
    waiting = asyncio.gather(*calls, return_exceptions=True)
    await asyncio.sleep(0)
    go_on.set()
    answers = await waiting
    await asyncio.wait([holding])
    holding.exception()  # it may have been in the same group; its result is of no interest
    return answers


def nothing(tx: Tx, key: str) -> None:
    """What a job's `look` finds where a test does not care."""
