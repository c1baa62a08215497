"""Commands run in the back office."""

from __future__ import annotations

import pytest

from tests.support.backoffice import Backoffice
from tests.support.office import BOTH_IN_CI, empty_store


@pytest.fixture
def at(back: Backoffice) -> Backoffice:
    return back


@pytest.fixture(params=BOTH_IN_CI)
def database_url(request: pytest.FixtureRequest) -> str:
    return empty_store(request)
