"""Where nothing else is said, one kind of store will do."""

from __future__ import annotations

import pytest


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    return sqlite_url
