"""The demo: people, policies, the page, and the bot in a process of its own, on a database that ends with the demo."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from adk_confirm.demo.controls import DemoBot
from adk_confirm.demo.observing import DatabaseObserver
from adk_confirm.demo.slack_app import our_app
from adk_confirm.demo.tour import FIRST, FOURTH, SECOND, THIRD, Tour
from adk_confirm.runtime.store.database import Database
from adk_confirm.sandbox.page.page import Sandbox
from adk_confirm.sandbox.page.screen import Stage
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.workspace.records import Channel

PORT = 3030

POLICIES = """
[agent]
target = "adk_confirm.examples.oncall:agent_with_preview"

[slack]
listen = "127.0.0.1:0"

# A deployment to production needs two people. They approve the diff that its preview shows.
[[policy]]
tools = ["deploy"]
when = "args.env == 'prod'"
approvers = ["group:S0ONCALL"]
quorum = 2
edit = false
expires_after = "1h"
remind_after = "10m"
escalate_after = "20m"
escalate_to = ["user:U0LEAD"]

# An expense up to 2000 needs one. They may correct the amount, and allow the next such expenses for the same purpose.
[[policy]]
tools = ["reimburse"]
when = "args.amount <= 2000"
approvers = ["group:S0ONCALL", "user:U0LEAD"]
edit = ["amount"]
grant = "30m"
grant_on = ["purpose"]

[[policy]]
tools = ["refund"]
approvers = ["user:U0LEAD"]
deny_reason = "required"
confirm_dialog = true
format = { "lines.amount" = "EUR", total = "EUR" }

[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]
"""


@dataclass(frozen=True)
class Demo:
    """The people of the demo: ana asks, ben and chris are on call, lee leads, olga may not approve."""

    slack: Sandbox
    bot: DemoBot
    people: Mapping[str, Person]
    channel: Channel

    @property
    def url(self) -> str:
        return self.slack.base


@asynccontextmanager
async def running_demo(port: int = PORT, store: str | None = None) -> AsyncIterator[Demo]:
    """The demo with its bot running. Without a store, it makes one in a temporary directory."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="adk-confirm-demo-")))
        slack = await stack.enter_async_context(Sandbox(our_app(), port=port))
        people = {
            name: slack.person(name, id=f"U0{id_}", email=f"{name}@acme.example")
            for name, id_ in (("ana", "ANA"), ("ben", "BEN"), ("chris", "CHRIS"), ("lee", "LEAD"), ("olga", "OLGA"))
        }
        channel = slack.channel("deploys", *people.values(), id="C0DEPLOYS")
        slack.channel("random", *people.values())
        slack.group("oncall", people["ben"], people["chris"], id="S0ONCALL")
        (folder / "adk-confirm.toml").write_text(POLICIES, encoding="utf-8")
        url = store or f"sqlite:///{folder / 'demo.db'}"
        bot = DemoBot(slack, folder / "adk-confirm.toml", _environment(slack, url, folder))
        tour = Tour(people, channel.id, bot)
        slack.page.stage = _stage(people, channel, bot, tour)
        stack.push_async_callback(bot.end)
        await bot.start()
        database = await Database.open(url, clock=slack.clock.now, read_only=True)
        stack.push_async_callback(database.close)
        bot.database = database
        following = slack.page.watch(DatabaseObserver(database, tour, slack.workspace.changes, slack.page.items.names))
        stack.callback(following.cancel)  # before the store closes under it
        yield Demo(slack, bot, people, channel)


def _environment(slack: Sandbox, store: str, folder: Path) -> dict[str, str]:
    """The bot's environment: this process's own, without the settings of a real Slack app."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(("SLACK_", "ADK_CONFIRM_"))}
    return {
        **others,
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_SIGNING_SECRET": slack.signing_secret,
        "SLACK_API_URL": slack.url,
        "DATABASE_URL": store,
        "ADK_CONFIRM_SECRET": "the demo's secret is no secret",
        # What the agent did. It outlives a crash.
        "ADK_CONFIRM_DEMO_LOG": os.environ.get("ADK_CONFIRM_DEMO_LOG") or str(folder / "effects.jsonl"),
    }


def _stage(people: Mapping[str, Person], channel: Channel, bot: DemoBot, tour: Tour) -> Stage:
    roles = {
        "ana": "asks",
        "ben": "on call",
        "chris": "on call",
        "lee": "lead",
        "olga": "outsider",
    }
    return Stage(
        roles={people[name].id: role for name, role in roles.items()},
        commands={"/approvals": "what waits for you, and for this channel"},
        tries={
            FIRST: "Two people approve a deployment",
            SECOND: "An approver corrects an expense",
            THIRD: "Nobody decides in time",
            FOURTH: "The bot crashes in the middle",
        },
        welcome=(
            "Agents ask. People decide.",
            "ana asks an agent for something risky. ben and chris are on call: they approve, change or deny it, and it "
            "runs once. You play all of them, in four short stories.",
        ),
        start=channel.id,
        controls=bot,
        guide=tour,
    )
