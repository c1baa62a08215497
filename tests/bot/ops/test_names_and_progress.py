"""What commands show while they work, and the names that they know from the service."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from pathlib import Path

import pytest

from bot.cli import main
from bot.ops import command
from bot.store.known_names import MOST, keep_names, read_names
from tests.support.backoffice import Backoffice
from tests.support.office import POLICY, Opens, config, environment
from tests.support.waiting import until


async def test_commands_name_whom_the_service_saw(
    open_office: Opens,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "operator.toml"
    file.write_text(config(POLICY))
    async with open_office() as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("Done: Reimburse", at.deploys, thread=card)

        async def listed() -> bool:
            capsys.readouterr()
            assert await asyncio.to_thread(main, ["audit", "list", "--config", str(file)]) == 0
            return "asked for by ann (U0ANN) in #deploys (" in capsys.readouterr().out

        for name, value in environment(at.slack, database_url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("SLACK_API_URL", "http://127.0.0.1:9/")  # nobody is asked
        await until(listed)


async def test_the_names_that_were_seen_last_are_kept(at: Backoffice) -> None:
    await at.database.run(keep_names, {f"U{number}": "old" for number in range(3)})
    at.clock.passes(days=1)
    await at.database.run(keep_names, {f"W{number}": "new" for number in range(MOST - 1)})
    known = (await at.database.read(read_names)).known
    assert (len(known), known["W0"], sum(one.startswith("U") for one in known)) == (MOST, "new", 1)
    await at.database.run(keep_names, {"W0": "newer"})
    assert (await at.database.read(read_names)).of("user:W0") == "newer (user:W0)"


@pytest.mark.parametrize("after", [-1.0, 3600.0])
async def test_a_terminal_is_told_how_far_long_work_is_and_a_pipe_is_not(
    at: Backoffice, monkeypatch: pytest.MonkeyPatch, after: float
) -> None:
    await at.asks()
    at.clock.passes(days=1)
    monkeypatch.setattr(command, "UNSHOWN", after)
    for line, label in (
        ("audit verify", "Verifying"),
        ("audit export --output x.jsonl", "Exporting"),
        ("audit purge --before 1h", "Purging"),
    ):
        said = await at.command(*line.split())
        assert (said.code, label in said.out + said.err) == (0, False)
        read, write = pty.openpty()
        with os.fdopen(write, "w") as terminal, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", terminal)
            patch.setattr(sys, "stderr", terminal)
            assert await asyncio.to_thread(main, line.split(), at.clock) == 0
            terminal.flush()
            shown = os.read(read, 65_536).decode()
        os.close(read)
        assert (f"{label}  [####" in shown, "100%" in shown) == ((True, True) if after < 0 else (False, False))
