"""A coding agent's PreToolUse hook: allow, deny with the reason, or wait; and an approval that comes late is good for
one such call."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from string import Template
from typing import Any

import aiohttp
import pytest

from adk_confirm.runtime.jsontypes import JsonObject, as_object
from tests.support.door import TOKENS, AtTheDoor, door
from tests.support.forked import ROOT
from tests.support.office import ON_EITHER, ONE

PUSH = "git push --force"


@pytest.fixture
async def at(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AtTheDoor]:
    async with door(database_url, tmp_path / "log", monkeypatch) as opened:
        yield opened


async def hooked(at: AtTheDoor, command: str = PUSH, wait: str = "20s", **other: Any) -> JsonObject:
    """What the hook answers to the coding agent."""
    body = {
        "session_id": "abc",
        "transcript_path": "/home/ann/.claude/x.jsonl",
        "cwd": "/work/shop",
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": "toolu_1",
    }
    answer = await at.nightly.sends("POST", f"/v1/hooks/claude-code?wait={wait}", {**body, **other})
    assert answer.status == 200, answer.body
    said = as_object(answer.body["hookSpecificOutput"])
    assert said["hookEventName"] == "PreToolUse"
    return said


def documented(at: AtTheDoor) -> list[dict[str, Any]]:
    """The hooks that docs/door.md has users write, at this door: over HTTP, and as a command."""
    text = (ROOT / "docs/door.md").read_text().partition("## From a coding agent")[2].partition("\n## ")[0]
    (settings, command) = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.S))
    (group,) = settings["hooks"]["PreToolUse"]
    assert re.fullmatch(group["matcher"], "Bash")
    assert not re.fullmatch(group["matcher"], "Read")
    hooks: list[dict[str, Any]] = json.loads(
        json.dumps([*group["hooks"], command]).replace("http://127.0.0.1:3001", at.nightly.url)
    )
    return hooks


def as_documented(command: str = PUSH, description: str = "Push the branch") -> JsonObject:
    """What Claude Code sends."""
    return {
        "session_id": "abc",
        "transcript_path": "/home/ann/.claude/projects/shop/abc.jsonl",
        "cwd": "/work/shop",
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command, "description": description, "timeout": 120000, "run_in_background": False},
        "tool_use_id": "toolu_01ABC123",
    }


async def runs(hook: dict[str, Any], body: JsonObject, token: str = TOKENS["NIGHTLY_TOKEN"]) -> JsonObject | str:
    """Runs a hook as Claude Code does. Returns what it decides, or why the call is blocked."""
    if hook["type"] == "command":
        env, pipe = {"PATH": os.environ["PATH"], "ADK_CONFIRM_DOOR_TOKEN": token}, asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_shell(hook["command"], stdin=pipe, stdout=pipe, stderr=pipe, env=env)
        out, errors = await process.communicate(json.dumps(body).encode())
        if process.returncode == 2:
            return errors.decode()
        assert process.returncode == 0
        return as_object(json.loads(out)["hookSpecificOutput"])
    known = {"ADK_CONFIRM_DOOR_TOKEN": token}
    allowed = {name: known.get(name, "") for name in hook["allowedEnvVars"]}
    headers = {name: Template(value).substitute(allowed) for name, value in hook["headers"].items()}
    timeout = aiohttp.ClientTimeout(total=hook["timeout"])
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as http,
            http.post(hook["url"], json=body, headers=headers) as answer,
        ):
            said = await answer.json()
    except aiohttp.ClientError as error:
        return str(error) if hook["onFailure"] == "block" else {}
    if answer.status >= 300:
        return str(answer.status) if hook["onFailure"] == "block" else {}
    return as_object(said["hookSpecificOutput"])


@pytest.mark.parametrize("which", [0, 1], ids=["http", "command"])
async def test_the_documented_settings_of_claude_code(at: AtTheDoor, which: int) -> None:
    hook = documented(at)[which]
    asked = asyncio.create_task(runs(hook, as_documented()))
    card = await at.card()
    assert PUSH in card.text
    assert "Asked by nightly" in card.text
    await at.bob.clicks(card, "Approve")
    said = as_object(await asked)
    assert said["hookEventName"] == "PreToolUse"
    assert (said["permissionDecision"], said["updatedInput"]) == ("allow", as_documented()["tool_input"])
    await at.rests()
    asked = asyncio.create_task(runs(hook, as_documented("rm -rf /")))
    await at.denies(at.bob, await at.card(), "Not that")
    said = as_object(await asked)
    assert (said["permissionDecision"], "Not that" in str(said["permissionDecisionReason"])) == ("deny", True)
    await at.rests()
    impatient = {
        name: value.replace("wait=45s", "wait=1s") if isinstance(value, str) else value for name, value in hook.items()
    }
    assert as_object(await runs(impatient, as_documented("git tag v2")))["permissionDecision"] == "deny"
    await at.bob.clicks(await at.card(), "Approve")
    await at.rests()
    late = as_object(await runs(impatient, as_documented("git tag v2", "Tag it, now that it is approved")))
    assert late["permissionDecision"] == "allow"
    assert late["updatedInput"] == as_documented("git tag v2")["tool_input"]  # what was approved, to the letter
    assert isinstance(await runs(hook, as_documented("ls"), token="nobody's token, but long"), str)
    await at.stops()
    assert isinstance(await runs(hook, as_documented("ls")), str)  # without a door nothing runs


async def test_an_approval_lets_the_call_run_once(at: AtTheDoor) -> None:
    asked = asyncio.create_task(hooked(at))
    card = await at.card()
    assert PUSH in card.text
    await at.bob.clicks(card, "Approve")
    said = await asked
    assert (said["permissionDecision"], said["updatedInput"]) == ("allow", {"command": PUSH})
    await at.ann.finds("handed by", at.deploys)
    again = await hooked(at, wait="1s")  # the next one is another call
    assert again["permissionDecision"] == "deny"
    assert "People are asked about this call" in str(again["permissionDecisionReason"])


async def test_a_denial_is_final_for_this_call_in_this_session(at: AtTheDoor) -> None:
    asked = asyncio.create_task(hooked(at))
    await at.denies(at.bob, await at.card(), "Not with force")
    said = await asked
    assert (said["permissionDecision"], "Not with force" in str(said["permissionDecisionReason"])) == ("deny", True)
    assert "Not with force" in str((await hooked(at))["permissionDecisionReason"])
    assert len(at.cards()) == 1
    assert (await hooked(at, wait="1s", session_id="another"))["permissionDecision"] == "deny"
    await at.slack.until(lambda: len(at.cards()) == 2 or None, what="a card for another session")


@ON_EITHER
async def test_a_late_approval_is_good_for_one_such_call(at: AtTheDoor) -> None:
    assert (await hooked(at, wait="1s"))["permissionDecision"] == "deny"
    card = await at.card()
    await at.edits(at.bob, card, command="git push")
    await at.bob.clicks(await at.card(), "Approve")
    await at.rests()
    assert (await hooked(at, "git push --force --all", wait="1s"))["permissionDecision"] == "deny"  # not this one
    said = await asyncio.gather(*(hooked(at, wait="1s") for _ in range(3)))
    allowed = [one for one in said if one["permissionDecision"] == "allow"]
    assert [one["updatedInput"] for one in allowed] == [{"command": "git push"}]


async def test_what_the_caller_may_not_ask_for_is_the_coding_agents_own_matter(at: AtTheDoor) -> None:
    body = {"session_id": "abc", "hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {"file_path": "x"}}
    answer = await at.ci.sends("POST", "/v1/hooks/claude-code", body)
    assert (answer.status, answer.body) == (200, {})
    for broken in ({}, {**body, "hook_event_name": "PostToolUse"}, {**body, "tool_input": "x"}):
        assert (await at.ci.sends("POST", "/v1/hooks/claude-code", broken)).status == 400
    assert at.cards() == []


async def test_nobody_may_decide_is_a_denial_with_the_reason(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door(database_url, tmp_path / "log", monkeypatch, ONE.replace('"*"', '"pay"')) as at:
        said = await hooked(at)
        assert (said["permissionDecision"], "polic" in str(said["permissionDecisionReason"])) == ("deny", True)
