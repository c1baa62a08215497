"""A store with a team's work in it, and the command line beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.backoffice import Backoffice, backoffice


@pytest.fixture
async def at(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Backoffice]:
    async with backoffice(database_url, tmp_path, monkeypatch, capsys) as made:
        yield made
