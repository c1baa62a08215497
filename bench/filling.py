"""Fills a store with waiting confirmations, by the product's own transactions, without an agent and without Slack."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

KEY = "not a secret, but long enough"
VOTERS = [f"U0VOTER{number:02}" for number in range(24)]
"""Many people, because the votes of one person take turns."""

CONFIG = f"""
[agent]
target = "adk_confirm.examples.oncall:agent"
[slack]
listen = "127.0.0.1:{{port}}"
[limits]
waiting_per_session = 1000
waiting_per_person = 100000
[[policy]]
tools = ["*"]
approvers = [{", ".join(f'"user:{voter}"' for voter in VOTERS)}]
quorum = 2
"""


async def fill(
    url: str, count: int, *, app: str = "oncall", expires_at: float | None = None, first: int = 0, config: str = CONFIG
) -> list[str]:
    """Stores waiting confirmations, each in a session of its own, and returns what a click on each carries. `first`:
    their numbers begin there."""
    from adk_confirm.bot.config.settings import WaitingLimits, parse_settings
    from adk_confirm.bot.confirmation.confirmation import HostRequest, Place
    from adk_confirm.bot.policy.approvers import Person
    from adk_confirm.bot.policy.policies import CallFacts, GoverningPolicy
    from adk_confirm.bot.store.letters import SlackMessage, store_message
    from adk_confirm.bot.store.open import open_store
    from adk_confirm.bot.store.repository import chain_of, lock_session
    from adk_confirm.bot.store.requests import Opening, asked_call, open_request
    from adk_confirm.runtime.store.database import Tx

    policies = parse_settings(config.format(port=0), {}).policies
    ann = Person("T0ACME", "U0ANN")

    def one(tx: Tx, number: int) -> str:
        ts = f"{number}.0"
        heard = SlackMessage(app=app, team="T0ACME", channel="C0DEPLOYS", thread_ts=ts, ts=ts, person=ann, text="x")
        store_message(tx, heard)
        key = chain_of(heard.session)
        request = HostRequest(
            request_id=f"adk-{number}",
            call_id=f"c{number}",
            tool="deploy",
            arguments={"service": "checkout", "version": "2.4.1"},
            agent="oncall",
            invocation_id=f"e-{number}",
        )
        governs = policies.resolve(CallFacts(tool="deploy", args=request.arguments))
        if expires_at is not None and isinstance(governs, GoverningPolicy):
            left = timedelta(seconds=expires_at - tx.now())
            governs = replace(governs, policy=governs.policy.model_copy(update={"expires_after": left}))
        place = Place(channel="C0DEPLOYS", thread_ts=ts, ts="1.2", drawn_version=99)
        session = lock_session(tx, key)
        asker = Person("T0ACME", f"U0ASKS{number}")  # for one person only so many may wait
        opening = Opening(
            place=session.place, asked=asked_call(session, request, asker), governs=governs, places=(place,)
        )
        many = WaitingLimits(waiting_per_session=10_000_000, waiting_per_person=10_000_000)
        row = open_request(tx, key, opening, many)
        assert row is not None
        tx.run("UPDATE bot_mail SET done_at = :now WHERE session = :key", key=key, now=tx.now())
        tx.run("UPDATE bot_sessions SET told_seq = 99 WHERE key = :key", key=key)
        tx.run("UPDATE jobs SET due_at = NULL WHERE kind IN ('session', 'thread') AND key = :key", key=key)
        return f"{row.id}.1"

    def several(tx: Tx, numbers: range) -> list[str]:
        return [one(tx, number) for number in numbers]

    database = await open_store(url, KEY)
    refs: list[str] = []
    for number in range(first, first + count, 200):
        refs += await database.run(several, range(number, min(number + 200, first + count)))
    await database.close()
    return refs


_TEMPLATE, _FIRST = 7_000_000, 8_000_000
"""The number of the confirmation that is copied, and the number of the first copy. Every name that must differ contains
it."""
_COPIED = {
    "bot_sessions": "key",
    "bot_mail": "session",
    "bot_confirmations": "session",
    "bot_waiting": "confirmation",
    "bot_ledger": "chain",
    "bot_chains": "chain",
    "jobs": "key",
}
_APART = 1e-5  # seconds between two copies, because lists are sorted by time


async def fill_many(file: Path, count: int, *, config: str) -> None:
    """Adds this many waiting confirmations, later than all others. The product writes one, and the rest are copies of
    its rows with ids and names of their own. Their fingerprints do not fit, so they are counted but can't be decided.
    In the end the product's checkpoints are made over all of them, as they would be within the hour."""
    from adk_confirm.bot.store.open import open_store
    from adk_confirm.bot.worker.checkpoint_job import seal_moved
    from adk_confirm.runtime.store.seal import Seal

    url = f"sqlite:///{file}"
    (ref,) = await fill(url, 1, first=_TEMPLATE, config=config)
    await asyncio.to_thread(_copy, file, ref.partition(".")[0], count - 1)
    database = await open_store(url, KEY)
    while (await database.run(seal_moved, Seal(KEY), timedelta(0), at_once=True)).more:
        pass
    await database.close()


def _copy(file: Path, confirmation: str, count: int) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as store:
        store.execute("PRAGMA journal_mode=OFF")  # otherwise everything is written twice
        store.execute("PRAGMA synchronous=OFF")
        store.execute("PRAGMA cache_size=-500000")
        store.execute("BEGIN")
        for table, key in _COPIED.items():
            mine = (confirmation, f"%{_TEMPLATE}.0")
            template = store.execute(f"SELECT * FROM {table} WHERE {key} LIKE ? OR {key} LIKE ?", mine)
            names = [name for name, *_ in template.description]
            for row in template.fetchall():
                values = dict(zip(names, row, strict=True))
                if table == "bot_mail":
                    del values["id"]  # the database counts it
                copies = ", ".join(_column_copy(name, value, confirmation) for name, value in values.items())
                store.execute(
                    f"""
                    WITH RECURSIVE copies(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM copies WHERE i + 1 < {count})
                    INSERT INTO {table} ({", ".join(values)}) SELECT {copies} FROM copies
                    """,
                    values,
                )
        store.execute("COMMIT")


def _column_copy(column: str, value: object, confirmation: str) -> str:
    """The column's value in a copy, as SQL. `value`: that in the template's row, which is a parameter of its name."""
    if column in ("created", "at"):
        return f":{column} + (i + 1) * {_APART}"
    copied = f":{column}"
    if isinstance(value, str) and confirmation in value:
        copied = f"replace({copied}, '{confirmation}', printf('%032x', i))"
    if isinstance(value, str) and f"{_TEMPLATE}" in value:
        copied = f"replace({copied}, '{_TEMPLATE}', {_FIRST} + i)"
    return copied
