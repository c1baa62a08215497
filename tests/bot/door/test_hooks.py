"""A coding agent's PreToolUse hook: allow, deny with the reason, or wait; and an approval that comes late is good for
one such call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adk_confirm.runtime.jsontypes import JsonObject, as_object
from tests.support.door import AtTheDoor, door
from tests.support.office import ON_EITHER, ON_SQLITE, ONE

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


@ON_EITHER
async def test_an_approval_lets_the_call_run_once(at: AtTheDoor) -> None:
    asked = asyncio.create_task(hooked(at))
    card = await at.card()
    assert PUSH in card.text
    await at.bob.clicks(card, "Approve")
    said = await asked
    assert (said["permissionDecision"], said["updatedInput"]) == ("allow", {"command": PUSH})
    await at.ann.finds("handed to", at.deploys)
    again = await hooked(at, wait="1s")  # the next one is another call
    assert again["permissionDecision"] == "deny"
    assert "People are asked about this call" in str(again["permissionDecisionReason"])


@ON_SQLITE
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


@ON_SQLITE
async def test_what_the_caller_may_not_ask_for_is_the_coding_agents_own_matter(at: AtTheDoor) -> None:
    body = {"session_id": "abc", "hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {"file_path": "x"}}
    answer = await at.ci.sends("POST", "/v1/hooks/claude-code", body)
    assert (answer.status, answer.body) == (200, {})
    for broken in ({}, {**body, "hook_event_name": "PostToolUse"}, {**body, "tool_input": "x"}):
        assert (await at.ci.sends("POST", "/v1/hooks/claude-code", broken)).status == 400
    assert at.cards() == []


@ON_SQLITE
async def test_nobody_may_decide_is_a_denial_with_the_reason(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door(database_url, tmp_path / "log", monkeypatch, ONE.replace('"*"', '"pay"')) as at:
        said = await hooked(at)
        assert (said["permissionDecision"], "polic" in str(said["permissionDecisionReason"])) == ("deny", True)
