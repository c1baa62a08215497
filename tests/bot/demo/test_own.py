"""Somebody's own agent in the local workspace: its calls are decided there under its own policies."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adk_confirm.bot.cli import main
from adk_confirm.bot.config.settings import load_settings
from adk_confirm.demo.own import Staff
from adk_confirm.demo.slack_app import our_app
from adk_confirm.demo.stage import running_demo
from adk_confirm.sandbox.page.page import Sandbox

GARDEN = Path(__file__).parents[3] / "examples" / "garden.py"
LONG = 60.0


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with an agent of one's own, and nothing else."""
    shutil.copy(GARDEN, tmp_path / "own_garden.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


async def test_a_call_of_ones_own_agent_is_approved_and_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert await asyncio.to_thread(main, ["init", "--agent", "own_garden:agent"]) == 0
    async with running_demo(port=0, own=here / "adk-confirm.toml") as demo:
        capsys.readouterr()
        ana, ben, olga = (demo.people[name] for name in ("ana", "ben", "olga"))
        guide = demo.slack.page.stage.guide
        assert guide is not None
        assert demo.parts == ("group:S0ONCALL is ben and chris",)
        hint = guide.hint(ben.user)
        assert hint is not None
        assert (hint.button, hint.action) == ("Be ana", {"be": ana.id})
        said = await ana.says("@adk-confirm water the fern", demo.channel)
        card = await ana.finds("Water the fern with 3 l", demo.channel, thread=said, timeout=LONG)

        def invited() -> bool:
            hint = guide.hint(ben.user)
            return hint is not None and hint.text.startswith("“Water the fern with 3 l” waits. Open the card")

        await demo.slack.until(invited, timeout=LONG, what="the hint")
        hint = guide.hint(olga.user)
        assert hint is not None
        assert hint.button == "Be ben"
        with pytest.MonkeyPatch.context() as pointed:  # what the demo prints for other terminals
            for name in ("SLACK_API_URL", "SLACK_BOT_TOKEN", "DATABASE_URL", "ADK_CONFIRM_SECRET"):
                pointed.setenv(name, demo.bot.environment[name])
            pointed.setenv("SLACK_APP_TOKEN", demo.slack.app_token)
            assert await asyncio.to_thread(main, ["check"]) == 0
            assert "Nothing to fix." in capsys.readouterr().out
            assert await asyncio.to_thread(main, ["pending"]) == 0
            assert "Water the fern with 3 l" in capsys.readouterr().out
        await olga.clicks(card, "Approve")
        await olga.gets_modal("you are not an approver")
        await ben.clicks(card, "Approve")
        await ana.finds("The tool said: {'watered': 'fern', 'liters': 3}", demo.channel, thread=said, timeout=LONG)


async def test_whoever_the_policies_name_is_there(tmp_path: Path) -> None:
    file = tmp_path / "adk-confirm.toml"
    file.write_text(
        '[[policy]]\ntools = ["pay"]\napprovers = ["group:S0BOARD", "user:U0123456789", "email:kim@acme.example"]\n'
        'quorum = 3\nchannel = "C0MONEY"\nescalate_to = ["group:S0HEADS"]\nescalate_after = "1h"\n'
        '[[policy]]\ntools = ["*"]\napprovers = ["group:S0MORE", "python:my.rota:on_call"]\nbarred = ["user:U0ANA"]\n'
    )
    async with Sandbox(our_app()) as slack:
        staff = Staff(slack, load_settings(file, {}))
        assert [*staff.parts] == [
            "group:S0BOARD is ben and chris and dora",
            "user:U0123456789 is emil",
            "email:kim@acme.example is kim",
            "group:S0MORE is ben and chris and dora",
            "python:my.rota:on_call is called as it is",
            "group:S0HEADS is finn",
            "user:U0ANA is ana",
        ]
        assert staff.people["emil"].id == "U0123456789"
        assert "C0MONEY" in slack.workspace.directory.channels


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["demo", "--agent", "no_such:agent"], "no_such"),
        (["demo", "--agent", "own_garden"], "must be a module and a name"),
        (["demo", "--agent", "own_garden:agent", "--check"], "Give only one of"),
        (["demo", "--config", "missing.toml"], "there is no such file"),
        (["init", "--agent", "own_garden:agnet"], "own_garden has no 'agnet'"),
        (["init", "--agent", "own_garden:agent", "--approver", "ben"], "for '--approver': must begin with group:"),
        (["init", "--approver", "user:U0BEN"], "name it with --agent"),
    ],
)
def test_mistakes_are_one_sentence(here: Path, capsys: pytest.CaptureFixture[str], given: list[str], said: str) -> None:
    assert main([*given, *(["--port", "0"] if given[0] == "demo" else [])]) == 2
    assert said in capsys.readouterr().err
    assert not (here / "adk-confirm.toml").exists()


def test_the_written_policies_have_the_tools_that_ask(here: Path) -> None:
    assert main(["init", "--agent", "own_garden:agent", "--approver", "user:U0BEN"]) == 0
    text = (here / "adk-confirm.toml").read_text()
    [policy] = load_settings(here / "adk-confirm.toml", os.environ).policy
    assert policy.tools == ("water",)
    assert [str(entry) for entry in policy.approvers] == ["user:U0BEN"]
    assert "# water(plant, liters)" in text
