"""More agents of google-adk as targets of `[agent]`: in turn, with artifacts and memory, a workflow by itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

from tests.support.foreign.google import model, own_tools
from tests.support.foreign.tools import log

OWN_ARTIFACTS = InMemoryArtifactService()


async def deploy(service: str, tool_context: Any) -> dict[str, object]:
    """Writes a note about a deployment, and looks for earlier ones."""
    version = await tool_context.save_artifact("note.txt", types.Part(text=service))
    found = await tool_context.search_memory(service)
    log("deploy", service=service, version=version, memories=len(found.memories))
    return {"version": version}


def _archivist() -> LlmAgent:
    return LlmAgent(name="archivist", model=model("archivist"), tools=[FunctionTool(deploy, require_confirmation=True)])


def _in_turn() -> SequentialAgent:
    agents = [LlmAgent(name=name, model=model(name), tools=own_tools()) for name in ("first", "second")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SequentialAgent(name="in_turn", sub_agents=[*agents])


def _workflow() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from google.adk.workflow import START, FunctionNode, Workflow

        from tests.support.foreign.pausing import amount, pay

        return Workflow(
            name="flow",
            edges=[
                (
                    START,
                    FunctionNode(func=amount),
                    FunctionNode(
                        func=pay, require_confirmation=True, rerun_on_resume=True, parameter_binding="node_input"
                    ),
                )
            ],
        )


MADE: dict[str, Callable[[], object]] = {"archivist": _archivist, "in_turn": _in_turn, "flow": _workflow}


def __getattr__(name: str) -> object:
    if name not in MADE:
        raise AttributeError(name)
    return MADE[name]()
