"""The manifest asks for what the bot uses, and for nothing else."""

from __future__ import annotations

import re

import pytest

from bot.cli import main
from bot.ops.setup import manifest_text as manifest
from bot.slack.identity import AGENT_EVENTS, AGENT_SCOPES, EVENTS, SCOPES


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
