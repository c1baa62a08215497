"""Confirmations that wait: what they cost a service that has nothing to do with them, and those who look at them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path
from statistics import median

import aiohttp

from bench.clicks import CONFIG, SECRET, click, fill, free_ports, process, send, usage
from bench.figures import number, table
from bench.start import until_ready
from bot.sandbox.people.people import Person
from bot.sandbox.server.server import FakeSlack
from bot.sandbox.workspace.records import Channel
from bot.sandbox.workspace.registration import App

COUNTS = (0, 10_000, 100_000)
IDS = {"ann": "U0ANN", "bob": "U0BOB", "cyd": "U0CYD"}
CLICKS = 50
HEADS = ("waiting", "CPU until ready", "memory", "CPU while idle", "click → ack, median", "`/approvals`", "Home")


async def measured(folder: Path, postgres: str, *, quick: bool = False) -> str:  # noqa: ARG001  (all parts are called alike)
    rows = [await _with(count, folder, quick=quick) for count in ((0, 500) if quick else COUNTS)]
    return "\n\n".join(
        [
            f"One service on SQLite. {CLICKS} more wait in each, which are clicked one after another. `/approvals` is "
            "shown five times, Home once to each of two people, and the median is told.",
            table(HEADS, rows),
            "A million is not measured: to write a million confirmations with their seals takes 20 minutes. `python -m "
            "bench.clicks --waiting 1000000` does it.",
        ]
    )


async def _with(count: int, folder: Path, *, quick: bool) -> list[str]:
    store = f"sqlite:///{folder / f'{count}.db'}"
    refs = await fill(store, count + CLICKS)
    (port,) = free_ports(1)
    config = folder / "adk-confirm.toml"
    await asyncio.to_thread(config.write_text, CONFIG.format(port=port))
    async with FakeSlack(App(signing_secret=SECRET)) as slack:
        people = {name: slack.person(name, id=id_) for name, id_ in IDS.items()}
        deploys = slack.channel("deploys", *people.values(), id="C0DEPLOYS")
        env = {
            "SLACK_API_URL": slack.url,
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_SIGNING_SECRET": SECRET,
            "ADK_CONFIRM_SECRET": "not a secret, but long enough",
            "DATABASE_URL": store,
        }
        async with process("-m", "bot.cli", "serve", "--config", str(config), env=env) as bot:
            await until_ready(port)
            ready, _ = usage(bot.pid)
            slack.sends_to(f"http://127.0.0.1:{port}/slack/events")
            idle, memory = await _idle(bot.pid, 2.0 if quick else 10.0)
            ack = await _acks(f"http://127.0.0.1:{port}/slack/events", refs[-CLICKS:])
            approvers = [people["bob"], people["cyd"]]
            listed = median([await _took(_lists(slack, people["bob"], deploys)) for _ in range(5)])
            home = median([await _took(person.opens_home(timeout=60.0)) for person in approvers])
    shown = (
        f"{ready:.2f} s",
        f"{memory:.0f} MB",
        f"{idle * 100:.1f} %",
        *(f"{number(s * 1000)} ms" for s in (ack, listed, home)),
    )
    return [f"{count:,}", *shown]


async def _idle(pid: int, seconds: float) -> tuple[float, float]:
    """The part of a core that it uses, and its resident megabytes, once it has settled."""
    await asyncio.sleep(seconds / 3)
    before, _ = usage(pid)
    await asyncio.sleep(seconds)
    after, memory = usage(pid)
    return (after - before) / seconds, memory


async def _acks(url: str, refs: list[str]) -> float:
    async with aiohttp.ClientSession() as session:
        return median([await send(session, url, click(ref, number)) for number, ref in enumerate(refs)])


async def _took(look: Awaitable[object]) -> float:
    began = time.perf_counter()
    await look
    return time.perf_counter() - began


async def _lists(slack: FakeSlack, bob: Person, deploys: Channel) -> None:
    before = len(bob.messages(deploys))
    await bob.commands("/approvals", "", deploys)
    await slack.until(lambda: len(bob.messages(deploys)) > before or None, timeout=60.0)
