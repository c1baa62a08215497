"""A store belongs to one workspace, one agent and one secret. Who is another is refused, and writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from adk_confirm.bot.app import running_bot
from adk_confirm.bot.cli import main
from adk_confirm.bot.ops.api import serving_at
from adk_confirm.bot.store.audit_log import verify_ledger
from adk_confirm.demo.slack_app import our_app
from adk_confirm.examples.oncall import agent as oncall
from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.rest.guard import Guard
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.runtime.store.tables import tables
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.office import AT_ONCE, LAB, POLICY, SERVICE_SECRET, Staff, config, configured, environment

ONCALL = "adk_confirm.examples.oncall:agent"
OTHER_SECRET = {"ADK_CONFIRM_SECRET": "another secret, and long enough"}
ANOTHERS = {
    "secret": "The store belongs to another secret: set ADK_CONFIRM_SECRET (or what seals in its place) to what it "
    "was, or use another store. To change the secret, set the old one as ADK_CONFIRM_SECRET_ACCEPTED. Nothing "
    "was done.",
    "workspace": "The store belongs to workspace T0ACME, and SLACK_BOT_TOKEN to T0GLOBEX: name this workspace's own "
    "store in DATABASE_URL or [store] url. Nothing was done.",
    "agent": "The store belongs to agent lab, and [agent] is oncall: name this agent's own store in DATABASE_URL or "
    "[store] url. If the agent was renamed, start once with `adk-confirm serve --renamed-from lab`. Nothing was done.",
}


@dataclass
class Shop:
    """A store with a call that waits in it, and whoever starts a bot on it."""

    at: Staff
    url: str

    async def serves(
        self,
        *,
        target: str = LAB,
        slack: FakeSlack | None = None,
        env: Mapping[str, str] | None = None,
        renamed_from: str | None = None,
    ) -> None:
        """A bot starts, and stops again."""
        settings = configured(slack or self.at.slack, self.url, target=target, env=env)
        async with running_bot(settings, limits=AT_ONCE, renamed_from=renamed_from):
            pass

    async def serves_as(self, another: str) -> None:
        match another:
            case "secret":
                await self.serves(env=OTHER_SECRET)
            case "workspace":
                async with FakeSlack(our_app(), team="Globex") as slack:
                    await self.serves(slack=slack)
            case _:
                await self.serves(target=ONCALL)

    async def rows(self) -> dict[str, list[object]]:
        database = await Database.open(self.url, read_only=True)
        try:
            return await database.read(lambda tx: {one: tx.all(f"SELECT * FROM {one}") for one in sorted(tables(tx))})
        finally:
            await database.close()

    async def forgets(self) -> None:
        """It is as it was before stores said whose they are."""
        database = await Database.open(self.url)
        await database.run(forget)
        await database.close()


def forget(tx: Tx) -> None:
    tx.run("DELETE FROM adk_confirm_store WHERE name NOT LIKE 'desk %'")


@pytest.fixture
async def shop(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shop]:
    monkeypatch.setenv("ADK_CONFIRM_DEMO_LOG", str(tmp_path / "tools.log"))
    async with FakeSlack(our_app()) as slack:
        at = Staff.of(slack, tmp_path / "tools.log")
        async with running_bot(configured(slack, database_url, target=LAB), limits=AT_ONCE) as bot:
            slack.sends_to(f"{bot.url}/slack/events")
            await at.ask('pay {"to": "Ada", "amount": 20}')
            await slack.settled()
        yield Shop(at, database_url)


@pytest.mark.parametrize("before", [False, True], ids=["it says whose it is", "a store from before"])
@pytest.mark.parametrize("another", ANOTHERS)
async def test_another_does_not_start_and_writes_nothing(shop: Shop, another: str, before: bool) -> None:
    if before:
        await shop.forgets()
    rows = await shop.rows()
    with pytest.raises(StoreError) as refused:
        await shop.serves_as(another)
    assert str(refused.value) == ANOTHERS[another]
    after = await shop.rows()
    if before:  # it may say by now which secret it has
        after["adk_confirm_store"] = rows["adk_confirm_store"]
    assert after == rows
    await shop.serves()
    database = await Database.open(shop.url, read_only=True)
    assert (await database.read(verify_ledger, Seal(SERVICE_SECRET))).broken is None
    await database.close()
    with pytest.raises(StoreError):
        await shop.serves_as(another)


async def test_an_agent_that_was_renamed_takes_its_store_over_once(shop: Shop) -> None:
    with pytest.raises(StoreError, match="belongs to agent lab"):
        await shop.serves(target=ONCALL, renamed_from="somebody")
    for _ in range(2):  # the option may stay where it was written
        await shop.serves(target=ONCALL, renamed_from="lab")
    await shop.serves(target=ONCALL)
    with pytest.raises(StoreError, match="belongs to agent oncall, and"):
        await shop.serves()


async def test_an_api_without_the_secret_is_refused(shop: Shop) -> None:
    rows = await shop.rows()
    for seal in (None, Seal("another secret, and long enough")):
        with pytest.raises(StoreError, match="belongs to another secret"):
            async with serving_at([oncall], Guard.of("127.0.0.1", None), 0, shop.url, seal=seal):
                pass
    assert await shop.rows() == rows
    async with serving_at([oncall], Guard.of("127.0.0.1", None), 0, shop.url, seal=Seal(SERVICE_SECRET)):
        pass


@pytest.mark.parametrize(
    ("agent", "env", "why"),
    [
        (LAB, OTHER_SECRET, "The store belongs to another secret"),
        (LAB, {"SLACK_BOT_TOKEN": "xoxb-of-another-workspace"}, "SLACK_BOT_TOKEN is not that of the service"),
        (ONCALL, {}, "[agent] target is not that of the service"),
        ('url = "http://127.0.0.1:9"\napp = "clerk"', {}, "The store belongs to agent lab, and [agent] is clerk"),
        (LAB, {}, None),
    ],
)
async def test_a_command_with_the_settings_of_another_changes_nothing(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    agent: str, env: dict[str, str], why: str | None,
) -> None:  # fmt: skip
    file = tmp_path / "adk-confirm.toml"
    file.write_text(config(POLICY, agent))
    for name, value in environment(shop.at.slack, shop.url, env=env).items():
        monkeypatch.setenv(name, value)
    rows = await shop.rows()
    code = await asyncio.to_thread(main, ["pause", "--config", str(file)])
    assert (code, why or "", await shop.rows() == rows) == (2 if why else 0, why or "", why is not None)
    assert (why or "") in capsys.readouterr().err
