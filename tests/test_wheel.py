"""The wheel, installed into a project whose own packages are called like our folders."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SETTINGS = """
[agent]
target = "bot.agents:agent"

[[policy]]
tools = ["pay"]
approvers = ["python:examples.rota:on_call"]
"""
ASKS = """
import asyncio
from adk_confirm.bot.policy.policies import CallFacts
from adk_confirm.bot.policy.python_approvers import PythonApprovers

rota = "examples.rota:on_call"
print(asyncio.run(PythonApprovers().ask(rota, CallFacts(tool="pay", args={}), [rota])))
"""
NO_SLACK = {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1", "SLACK_API_URL": "http://127.0.0.1:9/api/"}
OWN = {
    "bot/__init__.py": "",
    "bot/agents.py": """import blocks, runtime
from adk_confirm import Agent, ConfirmationPlugin, FunctionTool, Runner, ScriptedModel, ToolContext

def pay(amount: int) -> str:
    return "paid"

agent = Agent("mine", ScriptedModel(runtime.SAYS), tools=[FunctionTool(pay, require_confirmation=True)])
""",
    "runtime/__init__.py": "SAYS = 'Hello.'\n",
    "blocks/__init__.py": "",
    "examples/__init__.py": "",
    "examples/rota.py": "def on_call(call):\n    return ['U0ANN']\n",
    "adk-confirm.toml": SETTINGS,
}


@pytest.mark.slow
def test_it_installs_one_name_and_runs_in_a_project_with_packages_named_like_our_folders(tmp_path: Path) -> None:
    ran(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", ".", str(ROOT), at=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in tops if not name.endswith(".dist-info")} == {"adk_confirm"}

    ran(sys.executable, "-m", "venv", "--without-pip", "venv", at=tmp_path)
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    ran(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel), at=tmp_path)
    (site / "zz_below.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    command, project = (str(tmp_path / "venv" / "bin" / "python"), "-m", "adk_confirm"), tmp_path / "project"
    for name, text in OWN.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")

    where = ran(*command[:1], "-c", "import adk_confirm; print(adk_confirm.__file__)", at=project)
    assert Path(where.strip()).is_relative_to(site)
    assert "examples.rota:on_call" in ran(*command, "explain", "--tool", "pay", "--args", '{"amount": 3}', at=project)
    said = ran(*command, "check", at=project, code=1)  # there is no Slack
    assert "bot.agents:agent is mine" in said
    assert ran(*command[:1], "-c", ASKS, at=project) == "frozenset({'U0ANN'})\n"


def ran(*command: str, at: Path, code: int = 0) -> str:
    """What the command printed. Nothing but what is installed, and what lies there, can be imported."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | NO_SLACK
    done = subprocess.run(command, cwd=at, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == code, done.stdout
    return done.stdout
