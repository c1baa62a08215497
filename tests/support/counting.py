"""Counts that do not depend on the machine, compared with `tests/counts.json`: a count that grows makes us slower.

    with counted_sql() as counted:
        …
    compare("a cycle on SQLite", counted)

A count that has changed fails its test, in both directions. `UPDATE_COUNTS=1` stores what was counted.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from adk_confirm.runtime.store.database import Database

STORED = Path(__file__).parents[1] / "counts.json"


def compare(scenario: str, counted: Mapping[str, int]) -> None:
    stored: dict[str, dict[str, int]] = json.loads(STORED.read_text())
    before = stored.get(scenario, {})
    if os.environ.get("UPDATE_COUNTS"):
        STORED.write_text(json.dumps(stored | {scenario: dict(counted)}, indent=2, sort_keys=True) + "\n")
        return
    changed = {name: (before.get(name), counted.get(name)) for name in {*before, *counted}}
    differences = [f"{name}: {was} before, {now} now" for name, (was, now) in sorted(changed.items()) if was != now]
    if differences:
        pytest.fail(f"{scenario}: {'; '.join(differences)}. If this is meant, store it with UPDATE_COUNTS=1.")


def at_most(scenario: str, counted: float) -> None:
    """For a count that differs between versions of our dependencies: it may be lower."""
    most = json.loads(STORED.read_text())["at most"][scenario]

    assert counted <= most, f"{scenario}: {counted}, and {most} are allowed by {STORED.name}"


@contextmanager
def counted_work() -> Iterator[Counter[str]]:
    """The writing transactions that begin in this block, by the names of their functions."""
    counted = Counter[str]()
    run = Database.run

    async def counting(self: Database, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        counted[fn.__name__] += 1
        return await run(self, fn, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Database, "run", counting)
        yield counted


@contextmanager
def counted_sql() -> Iterator[Counter[str]]:
    """Counts what passes through the connections that are opened in this block: statements, transactions that write and
    that only read, and commits. Each commit costs an fsync, and on PostgreSQL each statement a round trip."""
    counted = Counter[str]()

    def sqlite_statement(text: str) -> None:
        match text.split()[:2]:
            case ["BEGIN"]:
                counted["reads"] += 1
            case ["BEGIN", "IMMEDIATE"] | ["SAVEPOINT", "job"]:  # the first of a group, and each other
                counted["writes"] += 1
            case ["COMMIT"]:
                counted["commits"] += 1
            case [word, *_] if word not in ("BEGIN", "RELEASE", "ROLLBACK", "PRAGMA"):
                counted["statements"] += 1

    connect, transact = sqlite3.connect, psycopg.Connection

    def connected(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **kwargs)
        connection.set_trace_callback(sqlite_statement)
        return connection

    def counts(what: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **kwargs: Any) -> Any:
            counted.update(what.split())
            return method(*args, **kwargs)

        return counting

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sqlite3, "connect", connected)
        patched.setattr(transact, "commit", counts("writes commits", transact.commit))
        patched.setattr(transact, "rollback", counts("reads", transact.rollback))
        patched.setattr(psycopg.Cursor, "execute", counts("statements", psycopg.Cursor.execute))
        yield counted
