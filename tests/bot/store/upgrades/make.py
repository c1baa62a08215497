"""Makes the fixtures of this folder: stores as a release leaves them, killed with calls in every state, and what is in
Slack then. It runs with that release's code, in a checkout of it:

    git worktree add /tmp/old COMMIT && cd /tmp/old
    PYTHONPATH=/tmp/old/src:/tmp/old python …/tests/bot/store/upgrades/make.py …/tests/bot/store/upgrades/NAME
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from adk_confirm.bot.store.pause import pause_runs, resume_runs, switch_runs
from adk_confirm.bot.store.repository import note_turn
from tests.support.office import LAB, Office, office, withdraws
from tests.support.postgres import PostgresServer, postgres_server

POLICIES = """
[[policy]]
tools = ["pay"]
when = "args.amount >= 1000"
approvers = ["group:S0ONCALL"]
quorum = 2

[[policy]]
tools = ["delete_project"]
approvers = ["group:S0ONCALL"]
expires_after = "10m"

[[policy]]
tools = ["redo"]
approvers = ["group:S0ONCALL"]
start_within = "1m"

[[policy]]
tools = ["pay"]
approvers = ["group:S0ONCALL"]
grant = "session"
redact = ["token"]

[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]

[[policy]]
inputs = ["*"]
approvers = ["group:S0ONCALL"]
"""


def pay(amount: int) -> str:
    return f'pay {{"to": "Ada", "amount": {amount}, "token": "s3cret"}}'


async def live(at: Office) -> None:
    """Brings a call into every state. The last one is running when the release is killed."""
    granted = await at.ask(pay(1))
    await at.bob.clicks(granted, next(one for one in granted.buttons if "allow" in one.lower()))
    await (await at.bob.gets_modal("Also allow")).submits()
    await at.sees(granted, 'pay: {"did"')
    await at.denies(at.bob, await at.ask(pay(2)), "too much")
    await withdraws(at.ann, await at.ask(pay(3)))
    failed = await at.ask('breaks {"why": "no disk"}')
    await at.bob.clicks(failed, "Approve")
    await at.sees(failed, "no disk")
    for what in ("wire", "rope"):
        lost = await at.ask(f'loses {{"what": "{what}"}}')
        await at.bob.clicks(lost, "Approve")
        await at.sees(lost, "Did this take effect?")
        if what == "wire":
            await at.bob.clicks(at.bob.now(lost), "It took effect", sure=True)
    await at.ask('delete_project {"project": "old"}')
    await at.later(minutes=11)
    late = await at.ask('redo {"on": "x"}')
    await switch_runs(at.bot.database, pause_runs)
    await at.bob.clicks(late, "Approve")
    await at.later(minutes=2)
    await switch_runs(at.bot.database, resume_runs)
    await at.rests()
    await at.ask(pay(5))
    half = await at.ask(pay(1000))
    await at.edits(at.bob, half, amount="1200")
    await at.sees(half, "1 more")
    await at.ann.says("@adk-confirm name_it {}", at.deploys)
    await at.bob.finds("What shall it be called?", at.deploys)
    running = await at.ask('work {"on": "it"}')
    await at.bob.clicks(running, "Approve")
    await at.slack.until(lambda: any(line["tool"] == "begins" for line in at.ran()) or None)
    held = await at.ask(pay(6))
    await switch_runs(at.bot.database, pause_runs)
    await at.bob.clicks(held, "Approve")
    await at.sees(held, "paused")
    await at.ann.says(f"@adk-confirm {pay(7)}", at.deploys)
    await at.slack.settled()
    # What a release notes of sessions on other hosts, which this agent's are not.
    for letter in await at.bot.database.read(lambda tx: tx.column("SELECT id FROM bot_mail WHERE kind = 'words'")):
        await at.bot.database.run(note_turn, letter, f"e-{letter}")


def in_slack(at: Office) -> dict[str, object]:
    return {
        "now": at.slack.clock.now(),
        "bot": at.slack.install.bot_user_id,
        "policies": POLICIES,
        "channels": {
            channel.id: {
                "kind": channel.kind,
                "members": sorted(channel.members),
                "messages": [asdict(message) for message in channel.messages.values()],
            }
            for channel in at.slack.workspace.directory.channels.values()
        },
    }


async def make(url: str, folder: Path, patch: pytest.MonkeyPatch, dump: Callable[[], None]) -> dict[str, object]:
    patch.setenv("LAB_GATE", str(folder / "never"))
    async with office(url, folder / "log", patch, POLICIES, target=LAB, time_moves=True) as at:
        await live(at)
        dump()
        (folder / "never").touch()
        return in_slack(at)


def keep(to: Path, what: str, text: str) -> None:
    """With no time in it, so that the same text is the same file."""
    to.with_name(f"{to.name}.{what}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def sqlite(patch: pytest.MonkeyPatch, to: Path) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "store.db"

        def dump() -> None:
            with closing(sqlite3.connect(file)) as there:
                keep(to, "sqlite.sql", "\n".join(there.iterdump()))

        said = asyncio.run(make(f"sqlite:///{file}", Path(folder), patch, dump))
    keep(to, "sqlite.json", json.dumps(said))


def postgresql(patch: pytest.MonkeyPatch, to: Path, server: PostgresServer) -> None:
    with TemporaryDirectory() as folder, server.database() as url:

        def dump() -> None:
            program = server._server.bin_path / "pg_dump"
            made = subprocess.run([program, "--inserts", "--no-owner", url], capture_output=True, text=True, check=True)
            lines = [line for line in made.stdout.splitlines() if line and not line.startswith(("--", "\\"))]
            keep(to, "postgresql.sql", "\n".join(lines))

        said = asyncio.run(make(url, Path(folder), patch, dump))
    keep(to, "postgresql.json", json.dumps(said))


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch, postgres_server() as server:
        sqlite(patch, Path(sys.argv[1]))
        postgresql(patch, Path(sys.argv[1]), server)
