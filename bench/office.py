"""The bot in a process of its own, with the local Slack and its people in this one, to measure from a mention on.

An agent gets messages such as "o-1 o-2", and asks to pay each of these orders. Its tool records when it starts.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from adk_confirm import Agent, Content, FunctionCall, FunctionTool, ModelRequest, ModelResponse, Part
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.delivery import Delivery
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.messages import Happening
from adk_confirm.sandbox.workspace.records import Channel
from bench.filling import CONFIG, VOTERS
from bench.processes import first_line, process, usage

_LOG, _NO_LIMITS = "BENCH_TOOL_LOG", "BENCH_NO_LIMITS"
_ORDER = re.compile(r"\bo-\d+\b")
_LOOKS_AGAIN = 0.1
REPLY = "Paid."


def pay(order: str) -> JsonObject:
    """Pays an order."""
    with Path(os.environ[_LOG]).open("a", encoding="utf-8") as log:
        log.write(f"{order} {time.time()}\n")
    return {"paid": order}


class Payer:
    """Not a `ScriptedModel`, which keeps a copy of each request."""

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        last = request.contents[-1] if request.contents else Content()
        orders = [] if any(last.responses()) else _ORDER.findall(last.text)
        parts = [Part(function_call=FunctionCall(name="pay", args={"order": order})) for order in orders]
        yield ModelResponse(Content(role="model", parts=parts or [Part(text=REPLY)]))


agent = Agent(name="payer", model=Payer(), tools=[FunctionTool(pay, require_confirmation=True)])


@dataclass
class Watched:
    """What people saw in Slack, and when."""

    cards: dict[str, Seen] = field(default_factory=dict)  # by order
    posted: dict[str, float] = field(default_factory=dict)
    final: dict[str, float] = field(default_factory=dict)  # when its card showed that the call ran
    replies: int = 0

    def see(self, happening: Happening) -> None:
        message = happening.message
        written = json.dumps([message.text, *message.blocks], ensure_ascii=False)
        if "adk_confirm_approve" in written:
            for order in _ORDER.findall(written):
                self.posted.setdefault(order, time.time())
                self.cards[order] = Seen("adk-confirm", "", message)
        elif "✅ Done" in written:
            for order in _ORDER.findall(written):
                self.final.setdefault(order, time.time())
        elif happening.kind == "posted" and REPLY in written:
            self.replies += 1


@dataclass
class Office:
    slack: FakeSlack
    channels: list[Channel]
    ann: Person
    voters: list[Person]
    pid: int
    log: Path
    watched: Watched

    async def ask(self, orders: Iterable[str], channel: Channel) -> None:
        await self.ann.says(f"@adk-confirm {' '.join(orders)}", channel)

    async def approve(self, order: str, number: int = 0) -> Delivery:
        return await self.voters[number % len(self.voters)].clicks(self.watched.cards[order], "Approve")

    async def cards(self, orders: Collection[str], within: float) -> None:
        """Waits until each of these orders has a card."""
        await self._until(lambda: self.watched.posted.keys() >= {*orders}, within, "all cards")

    async def finals(self, orders: Collection[str], within: float) -> None:
        """Waits until the card of each order shows that its call ran."""
        await self._until(lambda: self.watched.final.keys() >= {*orders}, within, "all cards to show the end")

    async def replies(self, count: int, within: float) -> None:
        """Waits until the agent has replied this often since the start."""
        await self._until(lambda: self.watched.replies >= count, within, "all replies")

    async def started(self, orders: Collection[str], within: float) -> dict[str, float]:
        """Waits until the tool has started for each order. Returns when it did."""
        await self._until(lambda: self.begun().keys() >= {*orders}, within, "all tools to start")
        return self.begun()

    def begun(self) -> dict[str, float]:
        lines = [line.split() for line in self.log.read_text(encoding="utf-8").splitlines() if line.count(" ") == 1]
        twice = [order for order, times in Counter(order for order, _ in lines).items() if times > 1]
        assert not twice, f"ran twice: {twice}"
        return {order: float(at) for order, at in lines}

    def cpu(self) -> float:
        return usage(self.pid)[0]

    def memory(self) -> float:
        return usage(self.pid)[1]

    async def _until(self, look: Callable[[], bool], within: float, what: str) -> None:
        until = time.monotonic() + within
        while not look():
            assert time.monotonic() < until, f"waited {within:g} s in vain for {what}"
            await asyncio.sleep(_LOOKS_AGAIN)


@asynccontextmanager
async def office(
    folder: Path, *, channels: int = 1, limits: bool = True, agent: str = 'target = "bench.office:agent"'
) -> AsyncIterator[Office]:
    """Starts the bot and its people. `limits`: both sides keep Slack's rates. Without them cards appear faster."""
    config, log = folder / "adk-confirm.toml", folder / "tools.log"
    await asyncio.to_thread(_make, config, log, agent)
    async with FakeSlack(our_app()) as slack:
        slack.rates.methods = slack.rates.posts = limits
        ann, *voters = (slack.person(id_.lower(), id=id_) for id_ in ("U0ANN", *VOTERS))
        places = [slack.channel(f"orders-{number}", ann, *voters) for number in range(channels)]
        watched = Watched()
        slack.workspace.messages.listeners.append(watched.see)
        env = {
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_SIGNING_SECRET": slack.signing_secret,
            "SLACK_API_URL": slack.url,
            "DATABASE_URL": f"sqlite:///{folder / 'x.db'}",
            "ADK_CONFIRM_SECRET": "not a secret, but long enough",
            _LOG: str(log),
            **({} if limits else {_NO_LIMITS: "1"}),
        }
        async with process("-m", "bench.office", str(config), env=env) as bot:
            slack.sends_to(f"{await first_line(bot)}/slack/events")
            yield Office(slack, places, ann, voters, bot.pid, log, watched)


def _make(config: Path, log: Path, agent: str) -> None:
    settings = (
        CONFIG.format(port=0).replace('target = "adk_confirm.examples.oncall:agent"', agent).replace("quorum = 2", "")
    )
    config.parent.mkdir()
    config.write_text(settings, encoding="utf-8")
    log.touch()


def serve(config: Path) -> None:
    """Runs the bot until it is ended, as `adk-confirm serve` does."""
    from adk_confirm.bot.app import running_bot
    from adk_confirm.bot.config.settings import load_settings
    from adk_confirm.bot.ops.stopping import run_until_stopped
    from adk_confirm.bot.slack import calls, directory, rate_limits
    from adk_confirm.bot.slack.calls import CallLimits

    call_limits = None
    if _NO_LIMITS in os.environ:
        vars(calls)["POST"] = replace(rate_limits.POST, per_minute=100_000)
        vars(calls)["UPDATE"] = replace(rate_limits.UPDATE, per_minute=100_000)
        vars(directory)["CHANNEL_INFO"] = replace(rate_limits.CHANNEL_INFO, per_minute=100_000)
        call_limits = CallLimits(posts=10_000)
    run_until_stopped(running_bot(load_settings(config, os.environ), limits=call_limits), lambda bot: bot.url)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
