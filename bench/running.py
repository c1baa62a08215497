"""Approvals while Slack takes no post: how long from a click until the tool begins.

    python -m bench.running [--threads 100] [--each 10] [--rate 100]

Each thread's agent asks for several calls at once. Once all cards stand, Slack fails every post and update, and the
calls are approved at `--rate` clicks a second, thread by thread in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bot.app import running
from bot.config.settings import parse_settings
from bot.sandbox.people.people import Person
from bot.sandbox.people.seen import Seen
from bot.sandbox.server.server import FakeSlack
from bot.slack.outbound.calls import Limits
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

began: dict[str, float] = {}


def pay(order: str) -> JsonObject:
    """Pays an order."""
    began[order] = time.monotonic()
    return {"paid": order}


def reply(request: ModelRequest) -> ScriptLine:
    last = request.contents[-1] if request.contents else Content()
    if any(last.responses()):
        return "Paid."
    return [FunctionCall(name="pay", args={"order": order}) for order in last.text.split()]


agent = Agent(name="many", model=ScriptedModel(reply=reply), tools=[FunctionTool(pay, require_confirmation=True)])


async def main() -> None:
    parser = argparse.ArgumentParser(description="approvals while Slack takes no post")
    parser.add_argument("--threads", type=int, default=100)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--rate", type=float, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        async with FakeSlack() as slack:
            environment = {
                "SLACK_BOT_TOKEN": slack.bot_token,
                "SLACK_SIGNING_SECRET": slack.signing_secret,
                "SLACK_API_URL": slack.url,
                "DATABASE_URL": f"sqlite:///{Path(folder) / 'x.db'}",
                "ADK_CONFIRM_SECRET": "not a secret, but long enough",
            }
            ann, bob = (slack.person(name, id=f"U0{name.upper()}") for name in ("ann", "bob"))
            async with running(parse_settings(CONFIG, environment), limits=Limits(posts=10_000)) as bot:
                slack.sends_to(f"{bot.url}/slack/events")
                await measured(slack, ann, bob, options)


async def measured(slack: FakeSlack, ann: Person, bob: Person, options: argparse.Namespace) -> None:
    channel = slack.channel("orders", ann, bob)
    orders = [[f"o{thread}-{number}" for number in range(options.each)] for thread in range(options.threads)]
    for of_thread in orders:
        await ann.says(f"@adk-confirm {' '.join(of_thread)}", channel)
    count = options.threads * options.each
    cards: Mapping[str, Seen] = {}
    while len(cards) < count:
        cards = {card.message.text: card for card in bob.messages(channel) if "Approve" in card.buttons}
        cards = {order: card for card in cards.values() for order in card.text.split() if order.startswith("o")}
        await asyncio.sleep(0.5)
    slack.faults.fails("chat.*", times=None)
    in_turn = [of_thread[number] for number in range(options.each) for of_thread in orders]
    clicked: dict[str, float] = {}
    tasks = []
    for order in in_turn:
        clicked[order] = time.monotonic()
        tasks.append(asyncio.create_task(bob.clicks(cards[order], "Approve")))
        await asyncio.sleep(1 / options.rate)
    took = time.monotonic() - clicked[in_turn[0]]
    while len(began) < count:
        await asyncio.sleep(0.05)
    waits = sorted(began[order] - clicked[order] for order in in_turn)
    print(f"{count} approvals over {options.threads} threads, clicked within {took:.1f} s, while every post failed")
    print(f"from click to begin: median {waits[count // 2]:.2f} s, the slowest {waits[-1]:.2f} s")
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    from bench.running import main as run  # the agent is loaded as part of this module: there is to be one of it

    asyncio.run(run())
