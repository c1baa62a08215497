"""The demo's people, its policies, and the bot between them, on a store that ends with it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bot.app import Bot, running
from bot.config.settings import Settings, parse_settings
from bot.demo.observing import Observing
from bot.sandbox.page.page import Sandbox
from bot.sandbox.page.screen import Shortcut, Stage
from bot.sandbox.people.people import Person
from bot.sandbox.workspace.records import Channel
from bot.slack.outbound.calls import Limits

PORT = 3030

POLICIES = """
[agent]
target = "examples.oncall:agent"

[slack]
listen = "127.0.0.1:0"

# Deployments to production want two people of those on call, and the version may be corrected.
[[policy]]
tools = ["deploy"]
when = "args.env == 'prod'"
approvers = ["group:S0ONCALL", "user:U0LEAD"]
quorum = 2
edit = ["version"]
expires_after = "1h"
remind_after = "10m"
escalate_after = "20m"
escalate_to = ["user:U0LEAD"]

# To staging one word is enough, and may hold for the next deployments of the service, too.
[[policy]]
tools = ["deploy"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]
grant = "30m"
grant_on = ["service"]

[[policy]]
tools = ["refund"]
approvers = ["user:U0LEAD"]
deny_reason = "required"
confirm_dialog = true

[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]
"""


@dataclass(frozen=True)
class Demo:
    """ana asks, ben and chris are on call, lee leads, olga is from somewhere else."""

    slack: Sandbox
    bot: Bot
    people: Mapping[str, Person]
    channel: Channel

    @property
    def url(self) -> str:
        return self.slack.base


@asynccontextmanager
async def staged(port: int = PORT, store: str | None = None) -> AsyncIterator[Demo]:
    """Without a store, one in a temporary directory."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="adk-confirm-demo-"))
        slack = await stack.enter_async_context(Sandbox(port=port))
        people = {
            name: slack.person(name, id=f"U0{id_}", email=f"{name}@acme.example")
            for name, id_ in (("ana", "ANA"), ("ben", "BEN"), ("chris", "CHRIS"), ("lee", "LEAD"), ("olga", "OLGA"))
        }
        channel = slack.channel("deploys", *people.values(), id="C0DEPLOYS")
        slack.channel("random", *people.values())
        slack.group("oncall", people["ben"], people["chris"], id="S0ONCALL")
        slack.page.stage = _stage(people, channel)
        bot = await stack.enter_async_context(
            running(_settings(slack, store or f"sqlite:///{Path(folder) / 'demo.db'}"), limits=Limits(posts=100))
        )
        slack.sends_to(f"{bot.url}/slack/events")
        stack.callback(slack.page.watch(Observing(bot.database)).cancel)  # before the store closes under it
        yield Demo(slack, bot, people, channel)


def _settings(slack: Sandbox, store: str) -> Settings:
    environment = {
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_SIGNING_SECRET": slack.signing_secret,
        "SLACK_API_URL": slack.url,
        "DATABASE_URL": store,
        "ADK_CONFIRM_SECRET": "the demo's secret is no secret",
    }
    return parse_settings(POLICIES, environment)


def _stage(people: Mapping[str, Person], channel: Channel) -> Stage:
    roles = {
        "ana": "asks",
        "ben": "on call",
        "chris": "on call",
        "lee": "lead",
        "olga": "may not approve",
    }
    return Stage(
        roles={people[name].id: role for name, role in roles.items()},
        shortcuts=(Shortcut("Approval history", "adk_confirm_history"),),
        commands={"/approvals": "what waits for you, and for this channel"},
        tries=(
            "@adk-confirm deploy checkout 2.4.1 to prod",
            "@adk-confirm reimburse 1500 for the team dinner",
            "@adk-confirm I need 3 days off",
            "@adk-confirm refund Ada 20 for the mug",
            "@adk-confirm what runs as checkout?",
        ),
        start=channel.id,
    )
