"""What waiting confirmations cost a service that has nothing to do with them, and the people who look at them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import aiohttp

from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.records import Channel
from bench.clicks import SECRET, click, send
from bench.figures import Goal, goals, number, table
from bench.filling import KEY, fill, fill_many
from bench.processes import free_ports, process, until_idle, until_ready, usage

COUNTS = (0, 100_000)
IDS = {"ann": "U0ANN", "bob": "U0BOB", "cyd": "U0CYD"}
APPROVERS = [IDS["bob"], IDS["cyd"]]
CONFIG = f"""
[agent]
target = "adk_confirm.examples.oncall:agent"
[slack]
listen = "127.0.0.1:{{port}}"
[[policy]]
tools = ["*"]
approvers = [{", ".join(f'"user:{approver}"' for approver in APPROVERS)}]
quorum = 2
"""
CLICKS, LISTED = 50, 150
SETTLES_WITHIN = 120.0
HEADS = (
    "waiting",
    "CPU until ready",
    "CPU after that, until idle",
    "memory",
    "CPU while idle",
    "click → ack",
    "`/approvals`",
    "Home",
)
_LARGE = (
    "the file no longer fits into SQLite's own cache. It is milliseconds of the three seconds that Slack waits. Going "
    "on would cost as much memory as the file has"
)
_TRUTH = (
    "once an hour every chain is held against the checkpoints; for that it is read once, and its last hash kept. Going "
    "on would cost a longer time until a chain that somebody hid is found"
)


@dataclass(frozen=True)
class Cost:
    ready: float
    settling: float
    memory: float
    idle: float
    ack: float
    listed: float
    home: float

    def row(self, waiting: int) -> list[str]:
        seconds = [f"{number(one * 1000)} ms" for one in (self.ack, self.listed, self.home)]
        cpu = [f"{self.ready:.2f} s", f"{self.settling:.1f} s"]
        return [f"{waiting:,}", *cpu, f"{self.memory:.0f} MB", f"{self.idle * 100:.1f} %", *seconds]


async def measured(folder: Path, postgres: str, *, quick: bool = False) -> str:  # noqa: ARG001  (all parts are called alike)
    counts = (0, 5_000) if quick else COUNTS
    found = {count: await _measure(count, folder, quick=quick) for count in counts}
    return "\n\n".join(
        [
            f"One service on SQLite. {LISTED} more wait in each store, and {CLICKS} of these are clicked one after "
            "another. `/approvals` is shown six times, Home once to each of two people. The cells are medians. Most "
            "of the waiting confirmations are copies that were written directly into the store; the product's "
            "checkpoints are made over them.",
            table(HEADS, [cost.row(count) for count, cost in found.items()]),
            _goals(found[0], found[counts[-1]], counts[-1]),
        ]
    )


def _goals(none: Cost, many: Cost, count: int) -> str:
    def flat(what: str, before: float, after: float) -> Goal:
        return Goal(
            f"{count:,} waiting: {what} within 1.2 times", f"{after / before:.2f}×", after <= 1.2 * before, _LARGE
        )

    more = many.memory - none.memory
    return goals(
        flat("the start", none.ready, many.ready),
        flat("an ack", none.ack, many.ack),
        flat("`/approvals`", none.listed, many.listed),
        flat("Home", none.home, many.home),
        Goal(f"{count:,} waiting: the same CPU while idle", f"{many.idle * 100:.1f} %", many.idle <= 0.01, _TRUTH),
        Goal(f"{count:,} waiting: 20 MB more memory", f"{more:+.0f} MB", more <= 20, _TRUTH),
    )


async def _measure(count: int, folder: Path, *, quick: bool) -> Cost:
    file = folder / f"{count}.db"
    refs = await fill(f"sqlite:///{file}", LISTED, config=CONFIG)
    if count:
        await fill_many(file, count, config=CONFIG)
    (port,) = free_ports(1)
    config, url = folder / "adk-confirm.toml", f"http://127.0.0.1:{port}/slack/events"
    await asyncio.to_thread(config.write_text, CONFIG.format(port=port))
    async with FakeSlack(replace(our_app(), signing_secret=SECRET)) as slack:
        people = {name: slack.person(name, id=id_) for name, id_ in IDS.items()}
        deploys = slack.channel("deploys", *people.values(), id="C0DEPLOYS")
        env = {
            "SLACK_API_URL": slack.url,
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_SIGNING_SECRET": SECRET,
            "ADK_CONFIRM_SECRET": KEY,
            "DATABASE_URL": f"sqlite:///{file}",
        }
        async with process("-m", "adk_confirm.bot.cli", "serve", "--config", str(config), env=env) as bot:
            await until_ready(port)
            ready, _ = usage(bot.pid)
            slack.sends_to(url)
            settling = await until_idle(bot.pid, SETTLES_WITHIN)
            idle, memory = await _idle(bot.pid, 2.0 if quick else 10.0)
            async with aiohttp.ClientSession() as session:
                bodies = [click(ref, each, APPROVERS) for each, ref in enumerate(refs[-CLICKS:])]
                acks = [await send(session, url, body) for body in bodies]
            approvers = [people["bob"], people["cyd"]] * 3
            listed = [await _seconds_of(_lists(slack, person, deploys)) for person in approvers]
            homes = [await _seconds_of(person.opens_home(timeout=60.0)) for person in approvers[:2]]
    await asyncio.to_thread(file.unlink)
    return Cost(ready, settling, memory, idle, median(acks), median(listed), median(homes))


async def _idle(pid: int, seconds: float) -> tuple[float, float]:
    """The part of a core that the process uses, and its resident megabytes."""
    before, _ = usage(pid)
    await asyncio.sleep(seconds)
    after, memory = usage(pid)
    return (after - before) / seconds, memory


async def _seconds_of(look: Awaitable[object]) -> float:
    began = time.perf_counter()
    await look
    return time.perf_counter() - began


async def _lists(slack: FakeSlack, person: Person, deploys: Channel) -> None:
    before = len(person.messages(deploys))
    await person.commands("/approvals", "", deploys)
    await slack.until(lambda: len(person.messages(deploys)) > before or None, timeout=60.0)
