"""Approvals while Slack takes few posts or none: how long from a click until the tool begins, and what one costs.

    python -m bench.running [--threads 100] [--each 10] [--rate 100] [--slack failing|slow|archived|well]

Each thread's agent asks for several calls at once. Once all cards stand, Slack gets into trouble: every post and update
fails, or a channel takes one post a second, or the channel is archived. Then the calls are approved at `--rate` clicks
a second, one of each thread in turn. The bot runs in a process of its own, so that its CPU time is known.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bench.clicks import process, usage
from bot.sandbox.people.people import Person
from bot.sandbox.people.seen import Seen
from bot.sandbox.server.server import FakeSlack
from bot.sandbox.workspace.records import Channel
from runtime import Agent, Content, FunctionCall, FunctionTool, ModelRequest, ScriptedModel
from runtime.jsontypes import JsonObject
from runtime.models.scripted import ScriptLine

CONFIG = """
[agent]
target = "bench.running:agent"
[slack]
listen = "127.0.0.1:0"
[[policy]]
tools = ["*"]
approvers = ["user:U0BOB"]
"""
TROUBLES = ("failing", "slow", "archived", "well")
ALL_BEGUN_WITHIN = 300.0
_LOG = "RUNNING_BENCH_LOG"


def pay(order: str) -> JsonObject:
    """Pays an order."""
    with Path(os.environ[_LOG]).open("a", encoding="utf-8") as log:
        log.write(f"{order} {time.time()}\n")
    return {"paid": order}


def reply(request: ModelRequest) -> ScriptLine:
    last = request.contents[-1] if request.contents else Content()
    if any(last.responses()):
        return "Paid."
    return [FunctionCall(name="pay", args={"order": order}) for order in last.text.split() if order.startswith("o-")]


agent = Agent(name="many", model=ScriptedModel(reply=reply), tools=[FunctionTool(pay, require_confirmation=True)])


async def serve() -> None:
    """The bot, until it is ended. Its own limits on posts are lifted, so that the cards stand soon."""
    from bot.app import running
    from bot.commands.serve import tune_the_interpreter
    from bot.config.settings import parse_settings
    from bot.slack.outbound import client, methods
    from bot.slack.outbound.calls import CallLimits

    vars(client)["POST"] = replace(methods.POST, per_minute=100_000)
    async with running(parse_settings(CONFIG, os.environ), limits=CallLimits(posts=10_000)) as bot:
        tune_the_interpreter()
        print(bot.url, flush=True)
        await asyncio.Event().wait()


async def main() -> None:
    parser = argparse.ArgumentParser(description="approvals while Slack takes few posts or none")
    parser.add_argument("--threads", type=int, default=100)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--slack", choices=TROUBLES, default=TROUBLES[0])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        async with FakeSlack() as slack:
            log = Path(folder) / "begun.log"
            await asyncio.to_thread(log.touch)
            environment = {
                "SLACK_BOT_TOKEN": slack.bot_token,
                "SLACK_SIGNING_SECRET": slack.signing_secret,
                "SLACK_API_URL": slack.url,
                "DATABASE_URL": f"sqlite:///{Path(folder) / 'x.db'}",
                "ADK_CONFIRM_SECRET": "not a secret, but long enough",
                _LOG: str(log),
            }
            async with process("-m", "bench.running", "serve", env=environment) as bot:
                assert bot.stdout is not None
                url = (await asyncio.to_thread(bot.stdout.readline)).strip()
                slack.sends_to(f"{url}/slack/events")
                await measured(slack, bot.pid, log, options)


async def measured(slack: FakeSlack, pid: int, log: Path, options: argparse.Namespace) -> None:
    ann, bob = (slack.person(name, id=f"U0{name.upper()}") for name in ("ann", "bob"))
    channel = slack.channel("orders", ann, bob)
    orders = [[f"o-{thread}-{number}" for number in range(options.each)] for thread in range(options.threads)]
    began = time.monotonic()
    for of_thread in orders:
        await ann.says(f"@adk-confirm {' '.join(of_thread)}", channel)
    cards = await all_cards(channel, bob, options.threads * options.each)
    cpu, _ = usage(pid)
    print(f"{len(cards)} cards stood after {time.monotonic() - began:.1f} s, with {cpu:.1f} s of CPU", flush=True)

    in_turn = [of_thread[number] for number in range(options.each) for of_thread in orders]
    trouble(slack, channel, options.slack)
    clicked: dict[str, float] = {}
    tasks = []
    start = time.time()
    for number, order in enumerate(in_turn):
        await asyncio.sleep(max(0.0, start + number / options.rate - time.time()))
        clicked[order] = time.time()
        tasks.append(asyncio.create_task(bob.clicks(cards[order], "Approve")))
    took = time.time() - start
    begun = await all_begun(log, len(in_turn))
    after, _ = usage(pid)
    waits = sorted(begun[order] - clicked[order] for order in in_turn)
    print(
        f"{len(in_turn)} approvals over {options.threads} threads, clicked within {took:.1f} s (Slack: {options.slack})"
    )
    print(f"from click to begin: median {waits[len(waits) // 2]:.2f} s, the slowest {waits[-1]:.2f} s")
    print(f"{(after - cpu) / len(in_turn) * 1000:.1f} ms of the bot's CPU for each")
    slack.faults.clear()
    await asyncio.gather(*tasks)


def trouble(slack: FakeSlack, channel: Channel, kind: str) -> None:
    if kind == "failing":
        slack.faults.fails("chat.*", times=None)
    elif kind == "slow":
        slack.rates.posts = True
    elif kind == "archived":
        channel.is_archived = True


async def all_cards(channel: Channel, bob: Person, count: int) -> Mapping[str, Seen]:
    """Each order's card, once there is one for all."""
    while sum("adk_confirm_approve" in str(message.blocks) for message in channel.messages.values()) < count:
        await asyncio.sleep(1)
    found = [card for card in bob.messages(channel) if "Approve" in card.buttons]
    return {order: card for card in found for order in re.findall(r"\bo-\d+-\d+\b", card.text)}


async def all_begun(log: Path, count: int) -> Mapping[str, float]:
    async with asyncio.timeout(ALL_BEGUN_WITHIN):
        while len(lines := (await asyncio.to_thread(log.read_text, encoding="utf-8")).splitlines()) < count:
            await asyncio.sleep(0.2)
    return {order: float(at) for order, at in (line.split() for line in lines)}


if __name__ == "__main__":
    asyncio.run(serve() if sys.argv[1:] == ["serve"] else main())
