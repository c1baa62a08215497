"""What the runner's tests share: a store that several runners may open, and logs that begin empty."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.tables import open_store


@pytest.fixture
async def database(store: str) -> AsyncIterator[Database]:
    """A store that several runners share, as several processes would."""
    opened = await open_store(store)
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def _empty_log(request: pytest.FixtureRequest) -> None:
    """`log`, where a module's tools write down what they did."""
    log = getattr(request.module, "log", None)
    if isinstance(log, list):
        log.clear()
