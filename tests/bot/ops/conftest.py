"""Commands run in the back office."""

from __future__ import annotations

import pytest

from tests.support.backoffice import Backoffice


@pytest.fixture
def at(back: Backoffice) -> Backoffice:
    return back
