"""A client of our API, with a session of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.served import browsing
from tests.support.twins.client import Client
from tests.support.twins.ours import our_server


@pytest.fixture
async def ada(database_url: str) -> AsyncIterator[Client]:
    async with our_server(database_url) as url, browsing(url) as http:
        client = Client(http)
        await client.create()
        yield client


@pytest.fixture
async def quick() -> AsyncIterator[Client]:
    """In memory, for what is not about storing."""
    async with our_server() as url, browsing(url) as http:
        client = Client(http)
        await client.create()
        yield client
