"""The commands to begin with. The manifest asks for what the bot uses, and for nothing else."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from adk_confirm.bot.cli import main
from adk_confirm.bot.ops.setup import manifest_text as manifest
from adk_confirm.bot.slack.own_identity import AGENT_EVENTS, AGENT_SCOPES, EVENTS, SCOPES
from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.server.server import FakeSlack


def listed(text: str, under: str) -> set[str]:
    """The entries of a list in the manifest, comments aside."""
    body = re.split(rf"^\s+{under}:\n", text, maxsplit=1, flags=re.MULTILINE)[1]
    entries: set[str] = set()
    for line in body.splitlines():
        found = re.match(r"\s+- ([\w.:]+)", line)
        if found is None:
            break
        entries.add(found[1])
    return entries


def test_it_has_just_the_scopes_and_events_that_the_local_slack_is_strict_about() -> None:
    assert listed(manifest(), "bot") == SCOPES | AGENT_SCOPES
    assert listed(manifest(), "bot_events") == EVENTS | AGENT_EVENTS


def test_it_declares_an_agent() -> None:
    described = re.search(r"agent_description: (.*)", manifest())
    assert described is not None
    assert len(described[1]) <= 300
    assert manifest().count("- title:") <= 4


def test_over_http_the_manifest_says_where_the_bot_is() -> None:
    text = manifest("https://confirm.example.com/")
    assert text.count("https://confirm.example.com/slack/events") == 4  # the comment, events, clicks, the command
    assert "socket_mode_enabled: false" in text
    assert "socket_mode_enabled: true" in manifest()


def test_an_address_that_slack_cannot_reach_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifest", "--http", "localhost:3000"]) == 2
    assert "is not an address that Slack can reach" in capsys.readouterr().err


# Ids


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
        slack.faults.fails("users.list", status=502)
        assert await asyncio.to_thread(main, ["ids"]) == 2
        assert "Slack can't be reached: the answer is not Slack's (status 502)." in capsys.readouterr().err
        slack.faults.garbles("users.list", "text/plain")
        assert await asyncio.to_thread(main, ["ids"]) == 2
        assert "Slack can't be reached: the answer is not Slack's. Check" in capsys.readouterr().err
        slack.install.scopes = slack.install.scopes - {"usergroups:read"}
        assert await asyncio.to_thread(main, ["ids"]) == 2
        assert "The app lacks a scope for usergroups.list (usergroups:read). Add it" in capsys.readouterr().err
        monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-wrong")
        assert await asyncio.to_thread(main, ["ids"]) == 2
        assert "Slack does not accept the app's token (invalid_auth). Install the app again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("agent", "about"),
    [
        ("tests.support.foreign.pausing:trip", "the agent is a workflow, so its tools can't be listed here."),
        ("tests.support.talking:agent", "No tool of the agent does so now."),
    ],
)
def test_a_policy_for_every_call_says_why_it_names_no_tool(tmp_path: Path, agent: str, about: str) -> None:
    file = tmp_path / "adk-confirm.toml"
    assert main(["init", "--config", str(file), "--agent", agent]) == 0
    (line,) = [one for one in file.read_text().splitlines() if one.startswith("# Every call that asks")]
    assert line.endswith(about)
