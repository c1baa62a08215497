"""A migrated store has exactly the tables that the code expects."""

from __future__ import annotations

import pytest

import bot.slack.workspaces.installations
import bot.store.attempts
import bot.store.tables
import runtime.store.tables
from bot.store.open import open_store
from tests.support.schema import drift
from tests.support.secret import SECRET


@pytest.fixture
def database_url(either_url: str) -> str:
    return either_url


async def test_both_packages_tables(database_url: str) -> None:
    assert bot.store.attempts.attempts.metadata is bot.store.tables.metadata
    assert bot.slack.workspaces.installations.bots.metadata is bot.store.tables.metadata
    database = await open_store(database_url, SECRET)
    try:
        assert await database.read(drift, runtime.store.tables.metadata) == []
        assert await database.read(drift, bot.store.tables.metadata) == []
    finally:
        await database.close()
