"""What is leased, claimed and released is SQL."""

from __future__ import annotations

import pytest

from tests.support.office import BOTH_IN_CI, empty_store


@pytest.fixture(params=BOTH_IN_CI)
def database_url(request: pytest.FixtureRequest) -> str:
    return empty_store(request)
