"""Accounts that change and an app that is removed: the bot reacts at once, and operators can see it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.audit.ledger import SYSTEM
from bot.sandbox.server.server import FakeSlack
from bot.store.ledger_lines import content_of, read_lines
from tests.support.office import Office, office

TWO = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL", "user:U0LEAD"]\n'


@pytest.fixture
async def at(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    async with office(database_url, tmp_path / "tools.log", monkeypatch, TWO) as opened:
        yield opened


async def test_somebody_who_became_a_guest_decides_nothing_from_then_on(at: Office) -> None:
    first = await at.ask("reimburse 1500 for the team dinner")
    await at.bob.clicks(first, "Approve")
    await at.ann.finds("Done: Reimburse", at.deploys, thread=first)
    second = await at.ask("reimburse 1700 for the offsite")

    at.slack.workspace.directory.change_user(at.bob.id, is_restricted=True)
    await at.slack.settled()
    await at.bob.clicks(second, "Approve")

    await at.bob.gets_modal("Guest accounts can't decide")
    assert len(at.ran()) == 1


async def test_a_removed_app_says_so_in_ledger_and_log(at: Office, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "bot.inbound.lifecycle"):
        app, client = at.slack.workspace.app, AsyncWebClient(at.slack.bot_token, base_url=at.slack.url)
        await client.apps_uninstall(client_id=app.client_id, client_secret=app.client_secret)
        await at.slack.until(lambda: len(at.slack.deliveries) >= 2 or None)
        await at.slack.settled()

    lines = [content_of(line) or {} for line in await at.bot.database.read(read_lines, SYSTEM)]
    sentences = [str(content["text"]) for content in lines if "text" in content]
    assert any("uninstalled" in sentence for sentence in sentences)
    assert any("revoked" in sentence for sentence in sentences)
    assert "set its new SLACK_BOT_TOKEN" in caplog.text
    for delivery in list(at.slack.deliveries):
        await at.slack.repeats(delivery)
    assert len(await at.bot.database.read(read_lines, SYSTEM)) == len(lines)


async def test_an_organisations_token_that_loses_a_workspace_says_so_in_ledger_and_log(
    sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeSlack() as slack:
        north = slack.workspace.directory.add_team("North", id="T0NORTH", enterprise="E0CORP")
        everywhere = slack.workspace.directory.install(north, enterprise_wide=True)
        options = {"slack": slack, "env": {"SLACK_BOT_TOKEN": everywhere.token}}
        async with office(sqlite_stocked, tmp_path / "tools.log", monkeypatch, TWO, **options) as at:  # type: ignore[arg-type]
            slack.withholds(everywhere, north)
            await slack.settled()
            await slack.repeats(slack.deliveries[-1])
            lines = [content_of(line) or {} for line in await at.bot.database.read(read_lines, SYSTEM)]
    assert [one["text"] for one in lines if "text" in one] == ["The app may not be used in T0NORTH any more."]
    assert "Nobody there can be asked until it may be again." in caplog.text
