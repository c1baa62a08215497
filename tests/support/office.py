"""An office for dialogues: the local Slack with its people, and the real bot in front of the on-call agent.

async with office(database_url, log) as at:
    await at.ann.says("@adk-confirm deploy checkout 2.4.1", at.deploys)
    card = await at.ann.finds("deploy", at.deploys)
    await at.bob.clicks(card, "Approve")
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import pytest

from adk_confirm.bot.app import Bot, running_bot
from adk_confirm.bot.cli import main
from adk_confirm.bot.config.settings import Settings, parse_settings
from adk_confirm.bot.slack.calls import CallLimits
from adk_confirm.bot.store.marks import SOON
from adk_confirm.bot.store.repository import JOBS
from adk_confirm.bot.worker.supervision import RestartPauses
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.jsontypes import JsonObject, as_object
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.lease import topic_of
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.records import Channel
from tests.support.kill import child
from tests.support.stores import change_job

POLICY = """
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]
"""

ONE = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL"]\n'
"""One approval by whoever is on call."""

LAB = "tests.support.lab:agent"
"""An agent that calls what it is told to."""

TALKER = "tests.support.talking:agent"
"""An agent that says what the test's `mouth` says."""

PAY = 'pay {"to": "Ada", "amount": 20}'

BOTH_IN_CI = ("sqlite", pytest.param("postgresql", marks=pytest.mark.slow))

IN_CI_ON_BOTH = pytest.mark.parametrize("database_url", BOTH_IN_CI, indirect=True)
"""A newcomer looks at SQLite alone."""

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""What a test promises does not depend on the database."""

_POSTGRES = pytest.param("postgresql", marks=pytest.mark.every_case)

ON_EITHER = pytest.mark.parametrize("database_url", ["sqlite", _POSTGRES], indirect=True)
"""It is about the database: a newcomer looks at both, with all cases."""

ON_POSTGRES = pytest.mark.parametrize("database_url", [_POSTGRES], indirect=True)

BOTH_WAYS = pytest.mark.parametrize("socket", [False, True], ids=["http", "socket mode"])
"""Slack reaches the bot over HTTP, or through Socket Mode."""


def empty_store(request: pytest.FixtureRequest) -> str:
    """Of the kind that the fixture's parameter names."""
    url: str = request.getfixturevalue("sqlite_stocked" if request.param == "sqlite" else "postgres_stocked")
    return url


TOPICS = [*map(topic_of, JOBS)]

AT_ONCE = CallLimits(posts=1000)
"""Seconds between two messages: tests do not wait for them."""

IMPATIENT = replace(AT_ONCE, lookups=0.5)
"""Seconds until the bot gives up asking who somebody is: tests do not wait for these either."""

LOOK_AGAIN = 0.05
"""Seconds between two looks at a row that is being worked on: nobody is told that its lease ends."""

SERVICE_SECRET = "not a secret, but long enough"


@dataclass
class Staff:
    """ann asks, bob and cyd are on call, lead leads, oscar has no role."""

    slack: FakeSlack
    log: Path
    ann: Person
    bob: Person
    cyd: Person
    lead: Person
    oscar: Person
    deploys: Channel
    target: str = LAB  # the bot's agent

    @classmethod
    def of(cls, slack: FakeSlack, log: Path) -> Self:
        """Adds them to a Slack without people."""
        ann, bob, cyd, lead, oscar = people = [
            slack.person(name, id=f"U0{name.upper()}") for name in ("ann", "bob", "cyd", "lead", "oscar")
        ]
        slack.group("oncall", bob, cyd, id="S0ONCALL")
        return cls(slack, log, ann, bob, cyd, lead, oscar, slack.channel("deploys", *people))

    def ran(self) -> list[JsonObject]:
        """What the tools did, according to their log."""
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    async def ask(self, text: str, person: Person | None = None) -> Seen:
        """Says this, and returns the card that follows."""
        asker = person or self.ann
        said = await asker.says(f"@adk-confirm {text}", self.deploys)

        def card() -> Seen | None:
            there = asker.messages(self.deploys, thread=said)
            return next((one for one in reversed(there) if {"Approve", "Approve…", "Review…"} & {*one.buttons}), None)

        return await self.slack.until(card, what=f"a card to approve “{text}” on")

    def cards(self) -> list[Seen]:
        """The cards in #deploys, decided or not."""
        seen = self.bob.messages(self.deploys)
        return [one for one in seen if (one.message.metadata or {}).get("event_type") == "adk_confirmation_card"]

    def offers(self, thread: Seen) -> list[Seen]:
        """What of a thread ann could press."""
        return [one for one in self.ann.messages(self.deploys, thread=thread) if one.buttons]

    async def sees(self, thread: Seen, *words: str) -> Seen:
        """Waits until all of these are in the thread, and returns the message with the last of them."""
        found = [await self.ann.finds(each, self.deploys, thread=thread) for each in words]
        return found[-1]

    async def edits(self, person: Person, card: Seen, **fields: str) -> None:
        """Enters these, and approves what comes of it."""
        await person.clicks(card, "Edit…")
        await (await person.gets_modal("Edit")).submits({**fields})

    async def denies(self, person: Person, card: Seen, reason: str) -> None:
        await person.clicks(card, "Deny…")
        await (await person.gets_modal("Deny")).submits({"Reason": reason})

    async def refuses(self, person: Person, card: Seen, button: str, why: str) -> None:
        """The click gets through, and a window says why it does not count."""
        assert (await person.clicks(card, button)).acked
        (await person.gets_modal(why)).closes()


async def withdraws(person: Person, card: Seen) -> None:
    """Withdraws through the form that the card's menu opens."""
    await person.clicks(card, "Withdraw…")
    await (await person.gets_modal("Withdraw")).submits()


class Office(Staff):
    """A workspace with the bot, which works in this process."""

    bot: Bot
    policies: str
    time_moves: bool = False
    limits: CallLimits

    def works_with(self, opens: Callable[[str], AbstractAsyncContextManager[Bot]]) -> None:
        """Lets `opens` start a bot with these policies."""
        self._opens, self._running = opens, AsyncExitStack()

    async def starts(self, policies: str) -> None:
        self.policies = policies
        self.bot = await self._running.enter_async_context(self._opens(policies))

    async def stops(self) -> None:
        """Stops the bot."""
        await self._running.aclose()

    async def later(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, meanwhile: bool = False) -> None:
        """Lets time pass for Slack and, in an office whose time moves, for the bot.

        First it waits until nothing is on its way, because the jump would take the leases of current work. With
        `meanwhile` it does not wait.
        """
        if not meanwhile:
            await self.rests()
        self.slack.clock.advance(seconds + 60 * minutes + 3600 * hours)
        await self.bot.database.run(wake)

    async def rests(self, *, reading: Database | None = None) -> None:
        """Waits until nothing is being delivered and the bot has nothing left to do. In an office whose time moves, it
        passes until what is due in a second. `reading`: looks through this, if what the bot's own reads is counted."""
        await self.slack.settled()
        with self.bot.database.waiter(*TOPICS) as waiter:
            while (seconds := await (reading or self.bot.database).read(seconds_until_less_busy)) is not None:
                if self.time_moves and seconds > LOOK_AGAIN:  # nothing is being worked on
                    self.slack.clock.advance(seconds)
                    await self.bot.database.run(wake)
                else:
                    await waiter.wait(seconds)


def opening(
    module: str, policies: str, url: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., AbstractAsyncContextManager[Office]]:
    """Opens an office for one of the agents of a module."""
    monkeypatch.setenv("TOOL_LOG", str(directory / "tools.log"))

    def opened(
        agent: str, policies: str = policies, *, time_moves: bool = False
    ) -> AbstractAsyncContextManager[Office]:
        target = f"{module}:{agent}"
        return office(url, directory / "log", monkeypatch, policies, target=target, time_moves=time_moves)

    return opened


Opens = Callable[..., AbstractAsyncContextManager[Office]]
"""`office`, with the database, the log and the environment filled in."""


@asynccontextmanager
async def office(
    database_url: str,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    policies: str = POLICY,
    *,
    slack: FakeSlack | None = None,
    socket: bool = False,
    target: str = "adk_confirm.examples.oncall:agent",
    env: Mapping[str, str] | None = None,
    time_moves: bool = False,
    limits: CallLimits = AT_ONCE,
    pauses: RestartPauses = RestartPauses(),  # noqa: B008  (it can't be changed)
) -> AsyncIterator[Office]:
    """`time_moves`: the bot uses Slack's clock, which `later` moves."""
    monkeypatch.setenv("ADK_CONFIRM_DEMO_LOG", str(log))
    async with AsyncExitStack() as stack:
        workspace = slack if slack is not None else await stack.enter_async_context(FakeSlack(our_app()))

        @asynccontextmanager
        async def opens(policies: str) -> AsyncIterator[Bot]:
            settings = configured(workspace, database_url, policies, target=target, socket=socket, env=env)
            clock = workspace.clock.now if time_moves else None
            async with running_bot(settings, clock=clock, limits=at.limits, pauses=pauses) as bot:
                if not socket:
                    workspace.sends_to(f"{bot.url}/slack/events")
                yield bot

        at = Office.of(workspace, log)
        at.time_moves, at.limits, at.target = time_moves, limits, target
        at.works_with(opens)
        stack.push_async_callback(at.stops)
        await at.starts(policies)
        yield at


def configured(
    slack: FakeSlack,
    database_url: str,
    policies: str = POLICY,
    *,
    target: str = "adk_confirm.examples.oncall:agent",
    socket: bool = False,
    env: Mapping[str, str] | None = None,
) -> Settings:
    """What `serve` would read, for this Slack and this database."""
    return parse_settings(config(policies, target), environment(slack, database_url, socket=socket, env=env))


def config(policies: str, target: str = "adk_confirm.examples.oncall:agent") -> str:
    agent = target if "=" in target else f'target = "{target}"'  # the test may give a whole [agent] table, or none
    return f'{target and "[agent]"}\n{target and agent}\n[slack]\nlisten = "127.0.0.1:0"\n{policies}'


def environment(
    slack: FakeSlack, database_url: str, *, socket: bool = False, env: Mapping[str, str] | None = None
) -> dict[str, str]:
    return {
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_SIGNING_SECRET": slack.signing_secret,
        "SLACK_API_URL": slack.url,
        "DATABASE_URL": database_url,
        "ADK_CONFIRM_SECRET": SERVICE_SECRET,
        **({"SLACK_APP_TOKEN": slack.app_token} if socket else {}),
        **(env or {}),
    }


async def operates(at: Staff, database_url: str, *line: str, refused: bool = False) -> JsonObject:
    """What a command prints with `--json`, run as an operator runs it: in a process of its own, beside the bot."""
    file = at.log.with_name("operator.toml")
    file.write_text(config(POLICY, at.target))
    async with child(command, "--config", str(file), *line, env=environment(at.slack, database_url)) as process:
        said = as_object(json.loads("".join(await process.finished())))
    assert ("error" in said) is refused, said
    return said


async def command(*line: str) -> None:
    """Runs in the child."""
    _, file, name, *rest = line
    await asyncio.to_thread(main, [name, *rest, "--json", "--config", file])


def wake(tx: Tx, *kinds: str) -> None:
    """Makes jobs of these kinds due, and the worker look at the clock again."""
    for kind in kinds:
        change_job(tx, kind, due_at=0.0)
    for topic in TOPICS:
        tx.notify(topic)


def seconds_until_less_busy(tx: Tx) -> float | None:
    """When to look again at what is leased or due, or None if nothing is. Cards and threads may wait a second for the
    end of a call. Whoever waits is woken when a row is due at once, but not when its lease ends and nothing is due."""
    now = tx.now()
    waits = list[float]()
    for kind in JOBS:
        busy = "SELECT due_at, lease_until FROM jobs WHERE kind = :kind AND parked_at IS NULL"
        soon = now + SOON if kind in ("card", "thread") else now
        found = tx.all(f"{busy} AND (due_at <= :soon OR lease_until > :now)", kind=kind, soon=soon, now=now)
        for due_at, lease_until in found:
            leased = lease_until is not None and lease_until > now
            waits.append(LOOK_AGAIN if leased else max(LOOK_AGAIN, due_at - now))
    return min(waits, default=None)
