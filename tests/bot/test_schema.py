"""A migrated store has exactly the tables that the code believes in."""

from __future__ import annotations

import pytest

import bot.attempts
import bot.installations
import bot.tables
import runtime.tables
from bot.store import open_store
from tests.support.schema import drift
from tests.support.secret import SECRET


@pytest.fixture
def database_url(either_url: str) -> str:
    return either_url


async def test_both_packages_tables(database_url: str) -> None:
    assert bot.attempts.attempts.metadata is bot.tables.metadata
    assert bot.installations.bots.metadata is bot.tables.metadata
    database = await open_store(database_url, SECRET)
    try:
        assert await database.read(drift, runtime.tables.metadata) == []
        assert await database.read(drift, bot.tables.metadata) == []
    finally:
        await database.close()
