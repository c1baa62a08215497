"""Without a `[door]` nothing of it is there. This file must not import the tests' callers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from adk_confirm.bot.app import running_bot
from adk_confirm.bot.config.settings import load_settings
from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.forked import ROOT
from tests.support.kill import child
from tests.support.office import ONE, config, environment


def test_nothing_of_the_door_is_imported_by_commands() -> None:
    modules = "app, cli, ops.serve, ops.check, ops.explain, ops.audit_report, home.lists"
    code = "; ".join(f"import adk_confirm.bot.{one}" for one in modules.split(", "))
    looks = "sys.exit(any(name.startswith('adk_confirm.bot.door') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", f"import sys; {code}; {looks}"], cwd=ROOT).returncode == 0


async def test_nor_by_a_bot_that_serves(tmp_path: Path) -> None:
    async with FakeSlack(our_app()) as slack:
        file = tmp_path / "adk-confirm.toml"
        file.write_text(config(ONE))
        env = environment(slack, f"sqlite:///{tmp_path}/store.db")
        async with child(serves, str(file), env=env) as process:
            assert await process.finished() == ["serves without it"]


async def serves(file: str) -> None:
    """Runs in the child."""
    async with running_bot(load_settings(Path(file), os.environ)):
        if not any(name.startswith("adk_confirm.bot.door") for name in sys.modules):
            print("serves without it")
