"""What becomes of an agent's request for which nobody is asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from adk_confirm.bot.config.settings import Rules, WaitingLimits
from adk_confirm.bot.store.ledger_lines import read_lines
from adk_confirm.runtime.store.database import Tx
from tests.support.backoffice import backoffice


async def test_a_tool_whose_name_no_database_takes_is_refused(
    either_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with backoffice(either_url, tmp_path, monkeypatch, capsys) as at:
        for name in ("deploy" * 50, "deploy\0", "deploy\ud800"):
            assert "can't be shown to anybody" in await at.refuses(name, {})
        lines = await at.database.read(read_lines, at.key)
        assert [line.kind for line in lines] == ["call refused"] * 3


@pytest.mark.parametrize("here", [2, 3], ids=["in one session", "for one person"])
async def test_no_more_calls_wait_than_may_however_many_replicas_open_them(
    either_url: str, here: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def waiting(tx: Tx) -> list[int]:
        return sorted(tx.column("SELECT count(*) FROM bot_confirmations WHERE state = 'waiting' GROUP BY session"))

    async with backoffice(either_url, tmp_path, monkeypatch, capsys) as at:
        at.rules = Rules(at.rules.policies, WaitingLimits(waiting_per_session=here, waiting_per_person=4))
        opened = []
        for thread in ("1.1", "2.2"):
            await at.hears("please deploy", thread=thread)
            opened += [asyncio.create_task(at.opens(at.key)) for _ in range(5)]
        rows = [row for row in await asyncio.gather(*opened) if row is not None]
        assert len(rows) == 4
        assert sum(await at.database.read(waiting)) == 4
        assert max(await at.database.read(waiting)) <= here
