"""What is kept of rows that were read before."""

from __future__ import annotations

import sqlite3
import time
import tracemalloc
from types import SimpleNamespace

from adk_confirm.bot.confirmation.stored_json import to_json
from adk_confirm.bot.store.sealed_rows import load
from adk_confirm.runtime.store.database import Tx
from tests.support.deciding import Desk, make_asked, make_policy

ROWS, LARGE = 200, 150_000


def test_rows_of_large_calls_are_not_kept_in_memory() -> None:
    """Each may have as many letters as a call may have arguments, and a thread has many."""
    row = Desk(make_policy(), make_asked(arguments={"note": "x" * LARGE})).row
    body, tx = to_json(row), Tx(sqlite3.connect(":memory:"), "sqlite", time.time)
    rest = {"session": "s", "request_id": "r", "sealed": "", "last_line": 1, "places": None, "places_sealed": None}
    tracemalloc.start()
    try:
        for number in range(ROWS):
            assert load(tx, SimpleNamespace(id=f"k{number}", body=f"{body}{' ' * number}", **rest)) == row
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 4 * 2**20
