"""Programs of other frameworks at the door, with their real packages: the examples that docs/door.md shows."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.door import TOKENS, AtTheDoor, door
from tests.support.forked import ROOT

_OUTPUT = "function_call_output"
MISSING = "needs {}, which `make frameworks` installs"


@pytest.fixture
async def at(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AtTheDoor]:
    async with door(database_url, tmp_path / "log", monkeypatch) as opened:
        monkeypatch.setenv("ADK_CONFIRM_DOOR", opened.ci.url)
        monkeypatch.setenv("ADK_CONFIRM_DOOR_TOKEN", TOKENS["CI_TOKEN"])
        yield opened


@pytest.fixture(scope="module")
def graph() -> Any:
    pytest.importorskip("langgraph", reason=MISSING.format("langgraph"))
    from adk_confirm.examples.door import langgraph_agent

    return langgraph_agent


async def test_an_interrupt_of_langgraph_is_approved(at: AtTheDoor, graph: Any) -> None:
    running = asyncio.create_task(asyncio.to_thread(graph.run, {"env": "prod"}))
    card = await at.card()
    assert "Asked by ci" in card.text
    await at.bob.clicks(card, "Approve")
    assert await running == "deployed to prod"
    await at.ann.finds("deployed to prod", at.deploys)


async def test_an_interrupt_of_langgraph_is_edited(at: AtTheDoor, graph: Any) -> None:
    running = asyncio.create_task(asyncio.to_thread(graph.run, {"env": "prod"}))
    await at.edits(at.bob, await at.card(), env="staging")
    await at.bob.clicks(await at.card(), "Approve")
    assert await running == "deployed to staging"


async def test_an_interrupt_of_langgraph_is_denied(at: AtTheDoor, graph: Any) -> None:
    running = asyncio.create_task(asyncio.to_thread(graph.run, {"env": "prod"}))
    await at.denies(at.bob, await at.card(), "Not on a Friday")
    assert await running == "not deployed: Not on a Friday"


@pytest.fixture(scope="module")
def sdk() -> Any:
    pytest.importorskip("agents", reason=MISSING.format("openai-agents"))
    from adk_confirm.examples.door import openai_agent

    return openai_agent


def scripted() -> Any:
    """A model that deploys once, and then says what the tool said."""
    from agents import Model, ModelResponse, Usage
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    class Scripted(Model):  # type: ignore[misc]
        async def get_response(self, *_: Any, **asked: Any) -> Any:
            heard = asked["input"]
            given = [] if isinstance(heard, str) else [one for one in heard if one.get("type") == _OUTPUT]
            if not given:
                call = ResponseFunctionToolCall(
                    type="function_call", call_id="1", name="deploy", arguments=json.dumps({"env": "prod"})
                )
                return ModelResponse(output=[call], usage=Usage(), response_id=None)
            text = ResponseOutputText(type="output_text", text=str(given[-1]["output"]), annotations=[])
            said = ResponseOutputMessage(type="message", id="1", role="assistant", status="completed", content=[text])
            return ModelResponse(output=[said], usage=Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    return Scripted()


async def test_an_approval_of_the_openai_agents_sdk(at: AtTheDoor, sdk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    running = asyncio.create_task(sdk.run(scripted(), "Deploy it"))
    await at.bob.clicks(await at.card(), "Approve")
    assert await running == "deployed to prod"


async def test_a_denial_of_the_openai_agents_sdk(at: AtTheDoor, sdk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    running = asyncio.create_task(sdk.run(scripted(), "Deploy it"))
    await at.denies(at.bob, await at.card(), "Not on a Friday")
    assert await running == "Not on a Friday"


async def test_a_shell_script(at: AtTheDoor, tmp_path: Path) -> None:
    command = tmp_path / "adk-confirm"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m adk_confirm "$@"\n')
    command.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": f"{ROOT}/src"}
    script = await asyncio.create_subprocess_exec(
        "sh", str(ROOT / "examples/door/deploy.sh"), "prod", env=env, stdout=asyncio.subprocess.PIPE
    )
    await at.edits(at.bob, await at.card(), env="staging")
    await at.bob.clicks(await at.card(), "Approve")
    out, _ = await script.communicate()
    assert (script.returncode, out) == (0, b"deployed to staging\n")
    await at.ann.finds("exit 0", at.deploys)
