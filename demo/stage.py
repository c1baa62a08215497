"""The demo: people, policies, the page, and the bot in a process of its own, on a database that ends with the demo."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from adk_confirm.bot.config.settings import Environment, Settings, load_settings
from adk_confirm.demo.controls import DemoBot
from adk_confirm.demo.observing import DatabaseObserver
from adk_confirm.demo.own import OwnGuide, Staff
from adk_confirm.demo.slack_app import our_app
from adk_confirm.demo.tour import FIRST, FOURTH, SECOND, THIRD, Guide, Tour
from adk_confirm.runtime.store.database import Database
from adk_confirm.sandbox.page.page import Sandbox
from adk_confirm.sandbox.page.screen import Stage
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.workspace.records import Channel

PORT = 3030

POLICIES = """
[agent]
target = "adk_confirm.examples.oncall:agent_with_preview"

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
    """The running demo. With its own agent, ana asks, ben and chris are on call, lee leads, olga may not approve.
    `parts` says who stands for whom in somebody else's settings."""

    slack: Sandbox
    bot: DemoBot
    people: Mapping[str, Person]
    channel: Channel
    parts: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return self.slack.base


@asynccontextmanager
async def running_demo(port: int = PORT, store: str | None = None, own: Path | None = None) -> AsyncIterator[Demo]:
    """The demo with its bot running. Without a store, it makes one in a temporary directory. `own`: the settings of
    somebody's own agent, to show that instead."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="adk-confirm-demo-")))
        slack = await stack.enter_async_context(Sandbox(our_app(), port=port))
        file = own or folder / "adk-confirm.toml"
        if own is None:
            file.write_text(POLICIES, encoding="utf-8")
        environment = _environment(slack, store or f"sqlite:///{folder / 'demo.db'}", folder)
        bot = DemoBot(slack, file, environment)
        demo, guide, slack.page.stage = (
            _tour(slack, bot) if own is None else _own(slack, bot, load_settings(own, environment))
        )
        stack.push_async_callback(bot.end)
        await bot.start()
        database = await Database.open(environment["DATABASE_URL"], clock=slack.clock.now, read_only=True)
        stack.push_async_callback(database.close)
        bot.database = database
        observer = DatabaseObserver(database, guide, slack.workspace.changes, slack.page.items.names)
        following = slack.page.watch(observer)
        stack.callback(following.cancel)  # before the store closes under it
        yield demo


def _tour(slack: Sandbox, bot: DemoBot) -> tuple[Demo, Guide, Stage]:
    people = {
        name: slack.person(name, id=f"U0{id_}", email=f"{name}@acme.example")
        for name, id_ in (("ana", "ANA"), ("ben", "BEN"), ("chris", "CHRIS"), ("lee", "LEAD"), ("olga", "OLGA"))
    }
    channel = slack.channel("deploys", *people.values(), id="C0DEPLOYS")
    slack.channel("random", *people.values())
    slack.group("oncall", people["ben"], people["chris"], id="S0ONCALL")
    tour = Tour(people, channel.id, bot)
    return Demo(slack, bot, people, channel), tour, _stage(people, channel, bot, tour)


def _own(slack: Sandbox, bot: DemoBot, settings: Settings) -> tuple[Demo, Guide, Stage]:
    staff = Staff(slack, settings)
    guide = OwnGuide(staff, bot)
    stage = Stage(
        roles=staff.roles,
        commands=_COMMANDS,
        tries={f"@adk-confirm {prompt}": prompt for prompt in settings.slack.prompts},
        welcome=(
            "Your agent is here.",
            "Mention @adk-confirm and say what you want. What needs approval becomes a card, and you play everybody.",
        ),
        start=staff.channel.id,
        controls=bot,
        guide=guide,
    )
    return Demo(slack, bot, staff.people, staff.channel, tuple(staff.parts)), guide, stage


def _environment(slack: Sandbox, store: str, folder: Path) -> dict[str, str]:
    """The bot's environment: this process's own, without the settings of a real Slack app."""
    real = {field.validation_alias for field in Environment.model_fields.values()}
    others = {name: value for name, value in os.environ.items() if name not in real}
    return {
        **others,
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_SIGNING_SECRET": slack.signing_secret,
        "SLACK_API_URL": slack.url,
        "DATABASE_URL": store,
        "ADK_CONFIRM_SECRET": "this-secret-is-the-demo-s",
        # What the agent did. It outlives a crash.
        "ADK_CONFIRM_DEMO_LOG": os.environ.get("ADK_CONFIRM_DEMO_LOG") or str(folder / "effects.jsonl"),
    }


_COMMANDS = {"/approvals": "what waits for you, and for this channel"}


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
        commands=_COMMANDS,
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
