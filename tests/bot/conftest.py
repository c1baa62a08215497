"""An office that a test opens with its own policies, on either database."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.support.office import Opens, office

pytest.register_assert_rewrite("tests.support.foreign.scenes")


@pytest.fixture
def open_office(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opens:
    return partial(office, database_url, tmp_path / "tools.log", monkeypatch, time_moves=True)
