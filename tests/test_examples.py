"""The commented configuration is complete, and works as it stands."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import BaseModel

from adk_confirm.bot.config import settings
from adk_confirm.bot.config.settings import Environment, parse_settings
from adk_confirm.bot.policy.policies import CallFacts, GoverningPolicy
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.target import load_agent

TEXT = (Path(__file__).parent.parent / "examples" / "adk-confirm.toml").read_text(encoding="utf-8")
_OFF = re.compile(r"^#(?=\w+ = |\[)", re.MULTILINE)
_HEADER = re.compile(r"^#?\[+([\w.]+)\]+$", re.MULTILINE)


def written(text: str) -> dict[str, list[str]]:
    """Table → the keys that stand in it, on or off; every policy counts for all of them."""
    _, *rest = _HEADER.split(text)
    keys = dict[str, list[str]]()
    for table, body in zip(rest[::2], rest[1::2], strict=True):
        keys.setdefault(table, []).extend(re.findall(r"^#?(\w+) = ", body, re.MULTILINE))
    return keys


def test_no_key_is_missing_and_none_is_made_up() -> None:
    tables = {**settings.tables_in(settings.File)}
    lists: dict[str, type[BaseModel]] = {
        "door.caller": settings.CallerSettings,
        "door.server": settings.McpServerSettings,
    }
    assert {name: set(keys) for name, keys in written(TEXT).items()} == {
        name: {key for key in table.model_fields if f"{name}.{key}" not in lists}
        for name, table in (tables | lists).items()
    }


def test_each_key_is_explained() -> None:
    """By a comment above it; the ones of the later policies were explained in the first."""
    first = TEXT.partition('[[policy]]\ntools = ["refund"]')[0]
    lines = [line for line in first.splitlines() if line]
    bare = [line for before, line in pairwise(lines) if re.match(r"#?\w+ = ", line) and not before.startswith("# ")]
    assert bare == ['checkpoint_every = "1h"', 'escalate_to = ["user:U0HEAD"]']  # said with the line before


def test_every_variable_of_the_environment_is_named() -> None:
    wanted = {str(field.validation_alias) for field in Environment.model_fields.values()}
    assert len(wanted) >= 6
    assert {name for name in wanted if not re.search(rf"^#   .*\b{name}\b", TEXT, re.MULTILINE)} == set()


def test_as_it_stands_it_governs_the_example_agent() -> None:
    read = parse_settings(TEXT, {"ADK_CONFIRM_SECRET": "x" * 32})
    assert read.warnings == ()
    assert read.agent is not None
    assert read.agent.target is not None
    assert load_agent(read.agent.target).name == "oncall"

    def governing(tool: str, args: JsonObject) -> int | None:
        found = read.policies.resolve(CallFacts(tool=tool, args=args))
        assert isinstance(found, GoverningPolicy)
        return found.index

    assert governing("deploy", {"env": "prod"}) == 0
    assert governing("refund", {}) == 1
    assert governing("deploy", {"env": "staging"}) == governing("reimburse", {}) == 2


@pytest.mark.parametrize("without", ["target", "url"])
def test_with_everything_on_it_can_be_read(without: str) -> None:
    """An agent is in this process or elsewhere: what is for one is off for the other."""
    text = _OFF.sub("", TEXT)
    agent, slack = text.index("\n[agent]"), text.index("\n[store]")
    elsewhere = ("url", "app", "token_env", "headers", "secret_env", "timeout")
    here = ("target", "artifact_service", "memory_service", "credential_service")
    kept = [
        line
        for line in text[agent:slack].splitlines()
        if not line.startswith(tuple(f"{key} =" for key in (elsewhere if without == "url" else here)))
    ]
    read = parse_settings("\n".join(kept) + "\n" + text[slack:], {})
    assert read.agent is not None
    assert (read.agent.target is None) == (without == "target")
