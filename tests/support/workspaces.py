"""Several workspaces in one Slack, and people who install the app in theirs with a browser.

async with office(url, log, monkeypatch, POLICIES, slack=slack, env=several(slack)) as at:
    page = await install(at.bot.url, at.lead)
    assert "is installed in Acme" in page.text
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from cryptography.fernet import Fernet
from sqlalchemy import select

from bot.audit.ledger import SYSTEM
from bot.confirmation.model import State
from bot.sandbox.people.people import Person
from bot.sandbox.people.seen import Seen
from bot.sandbox.server.server import FakeSlack
from bot.sandbox.workspace.records import Channel, Install, Team
from bot.sandbox.workspace.registration import App
from bot.slack.workspaces.removal import DEPARTURES
from bot.store.ledger_lines import content_of, read_lines
from bot.store.repository import SESSIONS
from bot.store.tables import confirmations
from runtime.store.database import Tx
from tests.support.office import Office, office

BACK = "https://confirm.example.com/slack/oauth_redirect"
KEY = Fernet.generate_key().decode()


def distributed() -> App:
    """An app that others may install."""
    return App(redirect_urls=(BACK,))


def several(slack: FakeSlack, key: str = KEY) -> dict[str, str]:
    """The environment of a bot that workspaces install by themselves."""
    app = slack.workspace.app
    return {
        "SLACK_BOT_TOKEN": "",
        "SLACK_CLIENT_ID": app.client_id,
        "SLACK_CLIENT_SECRET": app.client_secret,
        "ADK_CONFIRM_TOKEN_KEY": key,
    }


@dataclass
class Branch:
    """Another workspace: who asks there, who decides, and where."""

    slack: FakeSlack
    team: Team
    asker: Person
    approver: Person
    channel: Channel

    @classmethod
    def of(cls, slack: FakeSlack, name: str, *, enterprise: str = "", shared_with: tuple[Team, ...] = ()) -> Branch:
        team = slack.workspace.directory.add_team(name, id=f"T0{name.upper()}", enterprise=enterprise)
        asker, approver = (
            slack.person(f"{who}.{name.lower()}", team=team, id=f"U0{name.upper()}{who.upper()}")
            for who in ("ask", "boss")
        )
        teams = tuple(each.id for each in shared_with)
        channel = slack.workspace.directory.add_channel(
            team, f"lab-{name.lower()}", members=(asker.id, approver.id), shared_with=teams
        )
        return cls(slack, team, asker, approver, channel)

    @property
    def install(self) -> Install:
        found = self.slack.workspace.directory.installed_in(self.team.id)
        assert found is not None
        return found

    def invites(self) -> None:
        """Invites the app to their channel."""
        self.slack.workspace.directory.set_members(self.channel.id, add=(self.install.bot_user_id,))

    async def ask(self, text: str) -> Seen:
        """Says this, and returns the card that follows."""
        said = await self.asker.says(f"@adk-confirm {text}", self.channel)
        return await self.asker.finds("Approve", self.channel, thread=said, timeout=30)


@dataclass(frozen=True)
class Page:
    status: int
    text: str


@dataclass(frozen=True)
class Begun:
    """Somebody opened `/slack/install`: the page of Slack that asks them, and the cookies of their browser."""

    url: str
    asked_at: str
    cookie: str

    async def goes(self, back: str, *, cookie: str | None = None) -> Page:
        """Opens the address to which Slack sends the browser, without the public host name."""
        headers = {"Cookie": self.cookie if cookie is None else cookie}
        url = f"{self.url}{urlsplit(back).path}?{urlsplit(back).query}"
        async with aiohttp.ClientSession() as browser, browser.get(url, headers=headers) as answer:
            return Page(answer.status, await answer.text())


async def begin(url: str) -> Begun:
    """Opens `/slack/install`. `url`: the bot's address."""
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as browser,
        browser.get(f"{url}/slack/install", allow_redirects=False) as answer,
    ):
        assert answer.status == 302
        return Begun(url, answer.headers["Location"], answer.headers["Set-Cookie"].partition(";")[0])


async def install(url: str, person: Person, *, everywhere: bool = False) -> Page:
    """Installs the app, from "install" to the last page."""
    begun = await begin(url)
    return await begun.goes(person.allows(begun.asked_at, everywhere=everywhere))


PATIENCE = 30.0
POLICIES = """
[[policy]]
team = "T0ACME"
tools = ["*"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]
remind_after = "1h"
shared_channels = true

[[policy]]
team = "T0GLOBEX"
tools = ["*"]
approvers = ["user:U0GLOBEXBOSS", "user:U0BOB"]
shared_channels = true
"""


@asynccontextmanager
async def two(
    url: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    policies: str = POLICIES,
    *,
    socket: bool = False,
    target: str = "examples.oncall:agent",
) -> AsyncIterator[tuple[Office, Branch]]:
    """Acme and Globex, both with the app."""
    async with FakeSlack(distributed()) as slack:
        globex = Branch.of(slack, "Globex", shared_with=(slack.team,))
        options = {"slack": slack, "env": several(slack), "time_moves": True, "socket": socket, "target": target}
        async with office(url, folder / "tools.log", monkeypatch, policies, **options) as at:  # type: ignore[arg-type]
            assert (await install(at.bot.url, at.lead)).status == 200
            assert (await install(at.bot.url, globex.approver)).status == 200
            globex.invites()
            yield at, globex


def read_states(tx: Tx) -> list[str]:
    return list(tx.execute(select(confirmations.c.state).order_by(confirmations.c.created)).scalars())


async def comes_to(at: Office, *wanted: State) -> None:
    """Waits until the confirmations are in these states."""
    with at.bot.database.waiter(DEPARTURES, SESSIONS) as waiter:
        while await at.bot.database.read(read_states) != [str(state) for state in wanted]:
            await waiter.wait(0.2)


async def system_lines(at: Office) -> list[str]:
    lines = await at.bot.database.read(read_lines, SYSTEM)
    contents = [content_of(line) or {} for line in lines if str(line.kind) in ("installed", "uninstalled")]
    return [str(content.get("text")) for content in contents]
