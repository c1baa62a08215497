"""The parts of a run: PostgreSQL, the local Slack, the replicas with a wire each, and the door in front of them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.rows import dict_row

from adk_confirm.bot.store.marks import SLACK_IS_LATE
from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.server.server import FakeSlack
from bench.chaos.agent import LOG
from bench.chaos.people import People, everywhere
from bench.chaos.plan import APPROVERS, ASKERS, OUTSIDER, REPLICAS, TOOLS, Tool
from bench.chaos.replicas import ROOT, Replica
from bench.chaos.wires import Wire, door
from bench.processes import free_ports
from tests.support.postgres import PostgresServer, postgres_server

REDELIVERED_AFTER = (1.0, 4.0, 15.0)
"""Slack's retry intervals, shortened so that retries come while the run lasts."""

_OWED = f"""
WITH now AS (SELECT extract(epoch FROM clock_timestamp())::float8 AS at)
SELECT kind, key, failures, trouble,
       CASE WHEN parked_at IS NOT NULL THEN 'parked' WHEN lease_until > now.at THEN 'attended'
            WHEN due_at <= now.at THEN 'due' ELSE 'put off' END AS how
  FROM jobs, now
 WHERE due_at <= now.at OR lease_until > now.at OR parked_at IS NOT NULL OR owed_since IS NOT NULL
    OR due_at <= now.at + {SLACK_IS_LATE} AND kind IN ('confirmation', 'thread')  -- looks at Slack once more
"""
_READY_WITHIN = 60.0
_LOOKS_AGAIN = 0.5
_QUIET_FOR = 3.0


@dataclass
class Office:
    folder: Path
    slack: FakeSlack
    postgres: PostgresServer
    url: str
    replicas: list[Replica]
    wires: list[Wire]
    people: People
    names: dict[str, str]

    @property
    def tool_log(self) -> Path:
        return self.folder / "tools.log"

    async def command(self, *arguments: str) -> tuple[int, str]:
        """Runs `adk-confirm` as an operator does. Returns its exit code and its output."""
        config = self.folder / "operator.toml"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "adk_confirm.bot.cli", *arguments, "--config", str(config)),
            cwd=ROOT,
            env=_environment(self.slack, self.url, self.folder),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return process.returncode or 0, (out or err).decode()

    async def verified(self) -> tuple[int, str]:
        """The output of `audit verify`, with the replicas' logs as the anchor."""
        anchor = self.folder / "anchor.txt"
        logs = [replica.log.read_text(encoding="utf-8", errors="replace") for replica in self.replicas]
        anchor.write_text("".join(logs), encoding="utf-8")
        return await self.command("audit", "verify", "--anchor", str(anchor))

    async def all_ready(self) -> None:
        await asyncio.gather(*(replica.ready(_READY_WITHIN) for replica in self.replicas))

    async def owed(self) -> list[str]:
        """Rows that are due, leased, put off or parked, each with the reason."""
        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True, row_factory=dict_row) as connection:
            found: list[str] = []
            for row in await (await connection.execute(_OWED)).fetchall():
                trouble = f", failed {row['failures']} times: {row['trouble']}" if row["trouble"] else ""
                found.append(f"{row['kind']} {row['key']} is {row['how']}{trouble}")
            return found

    async def quiet(self, within: float) -> list[str]:
        """Waits until no row has been due for a while. Returns the rows that still are, if that takes too long."""
        until, since = time.monotonic() + within, time.monotonic()
        owed: list[str] = []
        while time.monotonic() < until:
            await self.slack.settled()
            owed = await self.owed()
            if any(" is parked" not in one for one in owed):
                since = time.monotonic()
            elif time.monotonic() - since > _QUIET_FOR:
                break
            await asyncio.sleep(_LOOKS_AGAIN)
        return owed


@contextlib.asynccontextmanager
async def office(folder: Path, *, lease: float | None = None) -> AsyncIterator[Office]:
    """Starts all parts, and ends them with the block."""
    async with contextlib.AsyncExitStack() as stack:
        postgres = await asyncio.to_thread(stack.enter_context, postgres_server())
        url = await asyncio.to_thread(stack.enter_context, postgres.database())
        slack = await stack.enter_async_context(FakeSlack(our_app()))
        slack.outbox.retries_after = REDELIVERED_AFTER
        slack.rates.methods = slack.rates.posts = True
        people, names = _people(slack)
        _configure(folder / "operator.toml", "127.0.0.1:0", lease)
        wires, replicas = [], []
        ports = free_ports(REPLICAS)
        for number, port in enumerate(ports):
            wire = Wire(postgres.socket)
            await wire.open()
            stack.push_async_callback(wire.close)
            wires.append(wire)
            config = folder / f"replica{number}.toml"
            _configure(config, f"127.0.0.1:{port}", lease)
            through = url.replace("@/", f"@127.0.0.1:{wire.port}/").partition("?")[0]
            replica = Replica(number, port, config, _environment(slack, through, folder))
            replicas.append(replica)
            await _kept_running(stack, replica)
            await replica.ready(_READY_WITHIN)
        slack.sends_to(f"{await stack.enter_async_context(door(ports))}/slack/events")
        yield Office(folder, slack, postgres, url, replicas, wires, people, names)


async def _kept_running(stack: contextlib.AsyncExitStack, replica: Replica) -> None:
    running = asyncio.create_task(replica.run(), name=f"replica {replica.number}")

    async def ends() -> None:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    stack.push_async_callback(ends)


def _people(slack: FakeSlack) -> tuple[People, dict[str, str]]:
    cast = {name: slack.person(name, id=f"U0{name.upper()}") for name in (*ASKERS, *APPROVERS, OUTSIDER)}
    slack.group("oncall", *(cast[name] for name in APPROVERS), id="S0ONCALL")
    return People(slack, cast, everywhere(slack, cast)), {person.id: name for name, person in cast.items()}


def _configure(file: Path, listen: str, lease: float | None) -> None:
    policies = "\n".join(policy(tool) for tool in TOOLS)
    store = "" if lease is None else f'[store]\nlease = "{lease:g}s"\n'
    agent = '[agent]\ntarget = "bench.chaos.agent:agent"\n[audit]\ncheckpoint_every = "10s"\n'
    file.write_text(f'{agent}{store}[slack]\nlisten = "{listen}"\n{policies}', encoding="utf-8")


def policy(tool: Tool) -> str:
    lines = [
        "[[policy]]",
        f'tools = ["{tool.name}"]',
        f"approvers = {list(tool.approvers)}".replace("'", '"'),
        f"quorum = {tool.quorum}",
        f'expires_after = "{tool.expires}"',
        'edit = ["amount"]',
    ]
    lines += [f'remind_after = "{tool.remind}"'] if tool.remind else []
    lines += [f'channel = "{tool.channel}"'] if tool.channel else []
    return "\n".join(lines) + "\n"


def _environment(slack: FakeSlack, url: str, folder: Path) -> dict[str, str]:
    return {
        "PYTHONPATH": f"{ROOT}:{ROOT}/src",
        "PATH": "/usr/bin:/bin",
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_SIGNING_SECRET": slack.signing_secret,
        "SLACK_API_URL": slack.url,
        "DATABASE_URL": url,
        "ADK_CONFIRM_SECRET": "not a secret, but long enough",
        LOG: str(folder / "tools.log"),
    }
