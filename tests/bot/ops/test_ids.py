"""`adk-confirm ids` finds the ids that the settings need."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bot.cli import main
from bot.demo.slack_app import our_app
from bot.sandbox.server.server import FakeSlack


async def test_ids_are_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    async def said(*arguments: str) -> list[str]:
        assert await asyncio.to_thread(main, ["ids", *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    async with FakeSlack(our_app()) as slack:
        lee = slack.person("lee", id="U0LEE", email="lee@example.com")
        slack.group("oncall", lee, id="S0ONCALL")
        slack.channel("deploys", lee, id="C0DEPLOYS")
        slack.channel("elsewhere", lee, id="C0OTHER", with_app=False)
        guest = slack.person("leeway", id="U0GUEST")
        slack.workspace.directory.change_user(guest.id, is_restricted=True)
        monkeypatch.setenv("SLACK_API_URL", slack.url)
        monkeypatch.setenv("SLACK_BOT_TOKEN", slack.bot_token)
        assert await said("Lee") == ["user:U0LEE  lee  (lee@example.com)"]
        assert await said("@onc") == ["group:S0ONCALL  @oncall  (oncall)"]
        assert await said("example.com") == ["user:U0LEE  lee  (lee@example.com)"]
        everything = await said()
        assert "C0DEPLOYS       #deploys" in everything
        assert "C0OTHER         #elsewhere  (the app is not in it: invite it with /invite)" in everything
        found = json.loads("\n".join(await said("S0ONCALL", "--json")))["found"]
        assert found == [{"entry": "group:S0ONCALL", "name": "@oncall", "note": "oncall"}]
        assert await said("nobody") == ["Nobody, no group and no channel that the app sees has “nobody” in its name."]
        slack.faults.limits("users.list", retry_after=0)
        assert await said("Lee") == ["user:U0LEE  lee  (lee@example.com)"]
        slack.install.scopes = slack.install.scopes - {"usergroups:read"}
        assert await asyncio.to_thread(main, ["ids"]) == 2
        assert "Slack refused (missing_scope). `adk-confirm check` says" in capsys.readouterr().err
