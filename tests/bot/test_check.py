"""`adk-confirm check`, as whoever sets the bot up reads it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bot.cli import main
from bot.sandbox.server import FakeSlack

CONFIG = """
[agent]
target = "{target}"
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL", "group:S0GONE", "email:lead@example.com", "python:examples.oncall:over_1000"]
channel = "C0DEPLOYS"
"""


async def check(
    slack: FakeSlack, folder: Path, monkeypatch: pytest.MonkeyPatch, target: str, token: str | None = None
) -> int:
    config = folder / "adk-confirm.toml"
    config.write_text(CONFIG.format(target=target))
    environment = {
        "SLACK_BOT_TOKEN": token or slack.bot_token,
        "SLACK_SIGNING_SECRET": slack.signing_secret,
        "SLACK_API_URL": slack.url,
        "DATABASE_URL": f"sqlite:///{folder / 'x.db'}",
        "ADK_CONFIRM_SECRET": "not a secret, but long enough",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return await asyncio.to_thread(main, ["check", "--config", str(config)])


async def test_each_thing_that_is_wrong_says_how_to_mend_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with FakeSlack() as slack:
        bob = slack.person("bob")
        slack.group("oncall", bob, id="S0ONCALL")
        slack.channel("deploys", bob, id="C0DEPLOYS", with_app=False)

        code = await check(slack, tmp_path, monkeypatch, "examples.oncall:nobody")

    said = capsys.readouterr().out
    assert code == 1
    assert "ok   Slack" in said
    assert "ok   group:S0ONCALL" in said
    assert "MEND group:S0GONE" in said
    assert "MEND email:lead@example.com" in said
    assert "no account has this address" in said
    assert "MEND C0DEPLOYS" in said
    assert "/invite" in said
    assert "MEND agent" in said


async def test_when_all_is_well_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bot.store import open_store

    await (await open_store(f"sqlite:///{tmp_path / 'x.db'}")).close()
    async with FakeSlack() as slack:
        lead = slack.person("lead", email="lead@example.com")
        slack.group("oncall", lead, id="S0ONCALL")
        slack.group("gone", lead, id="S0GONE")
        slack.channel("deploys", lead, id="C0DEPLOYS")

        code = await check(slack, tmp_path, monkeypatch, "examples.oncall:agent")

    said = capsys.readouterr().out
    assert "MEND" not in said
    assert code == 0
    assert "python:examples.oncall:over_1000" in said


async def test_a_wrong_token_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with FakeSlack() as slack:
        code = await check(slack, tmp_path, monkeypatch, "examples.oncall:agent", token="xoxb-wrong")

    assert code == 1
    assert "install the app again" in capsys.readouterr().out
