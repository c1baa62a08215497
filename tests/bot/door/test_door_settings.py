"""What the operator writes about callers, and what `check`, `explain` and the audit say of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adk_confirm.bot.cli import main
from adk_confirm.bot.config.settings import SettingsError, parse_settings, serving_problems
from adk_confirm.runtime.jsontypes import as_object, objects
from tests.support.door import ENV, TOKENS, AtTheDoor, door, settings
from tests.support.office import ONE, operates

FILE = f"{settings('C0DEPLOYS')}{ONE}"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('name = "ci"', 'name = "C I"'), "small letters"),
        (('name = "ci"', f'name = "{"c" * 25}"'), "small letters"),
        (('name = "nightly"', 'name = "ci"'), "different names"),
        (('channel = "C0DEPLOYS"', 'channel = "#deploys"'), "channel's id"),
        (('tools = ["*"]', "tools = []"), "must not be empty"),
        (("waiting = 20", "waiting = 0"), "at least 1"),
        (('[[door.caller]]\nname = "nightly"', '[[door.caller]]\nasker = "group:S0X"\nname = "nightly"'), "one person"),
    ],
)
def test_a_mistake_in_the_table_is_a_sentence(change: tuple[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        parse_settings(FILE.replace(*change, 1), {})


def test_a_mistake_is_said_once_and_with_the_keys_of_its_own_table() -> None:
    with pytest.raises(SettingsError) as wrong:
        parse_settings(settings("C0DEPLOYS").replace("waiting = 20", "waitin = 20").replace('["*"]', "[3]"), {})
    said = [*map(str, wrong.value.problems)]
    assert "door.caller[0].waitin: is not a setting; did you mean waiting?" in said
    assert not any("must not be empty" in one for one in said)


def test_what_the_door_lacks_is_said_before_it_opens() -> None:
    found = [str(one) for one in serving_problems(parse_settings(FILE, {}), {"CI_TOKEN": TOKENS["CI_TOKEN"]})]
    assert "door.caller[1].token_env: the environment has no NIGHTLY_TOKEN; set it, or remove this" in found
    assert any("ADK_CONFIRM_CHECKPOINT_KEY" in one for one in found)
    assert not any(one.startswith("agent") for one in found)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "adk-confirm.toml"
    path.write_text(FILE.replace('tools = ["*"]\napprovers', 'tools = ["deploy*"]\ngrant = "30m"\napprovers'))
    for name, value in {**ENV, **TOKENS, "CI_TOKEN": "short"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/store.db")
    return str(path)


def test_explain_says_who_decides_on_a_callers_call(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["explain", "--config", file, "--caller", "ci", "--tool"]
    assert main([*line, "deploy", "--args", '{"env": "prod"}']) == 0
    said = capsys.readouterr().out
    assert "members of the group S0ONCALL" in said
    assert "allow the next calls" not in said, "a caller's requests each have a session of their own"
    assert main([*line, "pay"]) == 1
    assert "refused at once" in capsys.readouterr().out
    assert main([*line, "delete_project"]) == 2
    assert "ci may not ask for delete_project" in capsys.readouterr().err
    assert main(["explain", "--config", file, "--caller", "cd", "--tool", "deploy"]) == 2
    assert "There is no caller cd. There are: ci, nightly." in capsys.readouterr().err


def test_check_looks_at_the_callers(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--config", file]) == 1
    said = capsys.readouterr().out
    assert "may ask for itself in C0DEPLOYS for deploy*, pay" in said
    assert "CI_TOKEN must have at least 16 characters" in said
    assert "no policy covers pay, so all of these calls are refused" in said
    assert "no policy covers deploy*" not in said


@pytest.fixture
async def at(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AtTheDoor]:
    async with door(database_url, tmp_path / "log", monkeypatch, asker="user:U0LEAD") as opened:
        yield opened


async def test_the_audit_knows_callers(at: AtTheDoor, database_url: str) -> None:
    ask = await at.ci.asks("deploy", env="prod")
    await at.bob.clicks(await at.card(), "Approve")
    await ask.is_decided()
    listed = objects((await operates(at, database_url, "audit", "list"))["calls"])
    assert [(one["asked_by"], one["caller"]) for one in listed] == [("U0LEAD", "ci")]
    report = await operates(at, database_url, "audit", "report")
    assert as_object(report)["callers"] == {"ci": 1}
    shown = await operates(at, database_url, "audit", "show", str(listed[0]["id"]))
    exported = objects(shown["lines"])  # as `audit export` has them
    assert {(line["kind"], line["caller"]) for line in exported} >= {("asked", "ci"), ("approved", "ci")}
