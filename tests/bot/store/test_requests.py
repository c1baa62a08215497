"""What becomes of an agent's request for which nobody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.store.ledger_lines import read_lines
from tests.support.backoffice import backoffice


async def test_a_tool_whose_name_no_database_takes_is_refused(
    either_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with backoffice(either_url, tmp_path, monkeypatch, capsys) as at:
        for name in ("deploy" * 50, "deploy\0", "deploy\ud800"):
            assert "can't be shown to anybody" in await at.refuses(name, {})
        lines = await at.database.read(read_lines, at.key)
        assert [line.kind for line in lines] == ["call refused"] * 3
