"""Each secret but ADK_CONFIRM_SECRET is changed by a restart, as docs/operations.md says: nothing that waits is lost.
(`tests/bot/store/test_new_secret.py` changes that one.)"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.rest.guard import TOKEN_VARIABLE
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.foreign.rig import foreign, google_adk
from tests.support.forked import ROOT, adk_confirm
from tests.support.office import LAB, ONE, PAY, Staff, environment
from tests.support.serving import service, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

OLD, NEW = "the old secret, and nobody else's", "another secret altogether, of many letters"


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Staff]:
    async with FakeSlack(our_app()) as slack:
        yield Staff.of(slack, tmp_path / "tools.log")


async def approves(at: Staff, card: Seen) -> None:
    await at.bob.clicks(card, "Approve")
    await at.slack.until(lambda: "Done" in at.bob.now(card).text, what="the call to run")


async def test_the_tokens_of_slack(at: Staff, sqlite_url: str, tmp_path: Path) -> None:
    async with service(at.slack, sqlite_url, tmp_path, ONE) as bot:
        await bot.starts()
        card = await at.ask(PAY)
        slack = at.slack
        slack.revokes(slack.install)
        slack.install = slack.workspace.directory.install(slack.team)
        slack.workspace.app = replace(slack.workspace.app, signing_secret="another signing secret")
        assert not (await at.bob.clicks(card, "Approve")).acked
        await bot.stops()
    async with service(at.slack, sqlite_url, tmp_path, ONE) as bot:
        await bot.starts()
        await approves(at, card)
        await bot.stops()
    assert [line["tool"] for line in at.ran()] == ["pay"]


async def test_the_secret_of_the_plugin(at: Staff, sqlite_url: str, tmp_path: Path) -> None:
    """The server knows both for a while, so no answer is refused."""
    sessions, plugin = f"sqlite:///{tmp_path / 'adk.db'}", "adk_confirm.ConfirmationPlugin"
    variable, before = "ADK_CONFIRM_PLUGIN_SECRET", "ADK_CONFIRM_PLUGIN_SECRET_BEFORE"
    with foreign(tmp_path / "adk", *google_adk(), SESSIONS=sessions, EXTRA_PLUGINS=plugin, **{variable: OLD}) as server:

        def anew(**env: str) -> None:
            server.kill()
            server.env = {"SESSIONS": sessions, "EXTRA_PLUGINS": plugin, **env}
            server.start()

        agent = f'url = "{server.url}"\napp = "clerk"\nsecret_env = "{variable}"'
        async with serving(at.slack, sqlite_url, tmp_path, ONE, target=agent, env={variable: OLD}) as bot:
            await bot.starts()
            one, two, three = [await at.ask(f"please pay {amount}") for amount in (1501, 1502, 1503)]
            anew(**{variable: NEW, before: OLD})
            await approves(at, one)
            await bot.stops()
        async with serving(at.slack, sqlite_url, tmp_path, ONE, target=agent, env={variable: NEW}) as bot:
            await bot.starts()
            await approves(at, two)
            anew(**{variable: NEW})
            await approves(at, three)
            await bot.stops()
        assert [line["amount"] for line in server.ran()] == [1501, 1502, 1503]


@asynccontextmanager
async def api(at: Staff, tmp_path: Path, token: str, port: str = "0") -> AsyncIterator[str]:
    """The address of `adk-confirm api`."""
    store = f"sqlite:///{tmp_path / 'api.db'}"
    env = {**environment(at.slack, store), TOKEN_VARIABLE: token, "ADK_CONFIRM_DEMO_LOG": str(at.log)}
    async with adk_confirm("api", "--port", port, "--agent", LAB, "--store", store, cwd=ROOT, env=env) as process:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        found = re.search(r"at (http://\S+), with the store", line)
        assert found, line
        yield found[1]


async def test_the_token_of_our_api(at: Staff, sqlite_url: str, tmp_path: Path) -> None:
    """What the server refuses meanwhile is sent again."""
    async with AsyncExitStack() as stack:
        async with api(at, tmp_path, OLD) as url:
            agent = f'url = "{url}"\napp = "lab"\ntoken_env = "ADK_TOKEN"'
            old = serving(at.slack, sqlite_url, tmp_path, ONE, target=agent, env={"ADK_TOKEN": OLD})
            bot = await stack.enter_async_context(old)
            await bot.starts()
            card = await at.ask(PAY)
        await stack.enter_async_context(api(at, tmp_path, NEW, url.rpartition(":")[2]))
        await at.bob.clicks(card, "Approve")
        await at.sees(card, "Whoever runs this app has to mend that. We keep trying")
        await bot.stops()
        new = serving(at.slack, sqlite_url, tmp_path, ONE, target=agent, env={"ADK_TOKEN": NEW})
        bot = await stack.enter_async_context(new)
        await bot.starts()
        await at.slack.until(lambda: "Done" in at.bob.now(card).text, what="the call to run")
        await bot.stops()
    assert [line["tool"] for line in at.ran()] == ["pay"]
