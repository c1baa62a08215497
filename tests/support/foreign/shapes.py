"""Agents of google-adk in the shapes of its documentation: in turn, at once, in loops, as tools, in workflows.

Each follows its script, step by step, whenever somebody says "go".
"""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from tests.support.foreign.tools import log

Call = tuple[str, dict[str, Any]]


class Script(BaseLlm):
    """Makes the calls of its steps, one step after the other, and then repeats the results."""

    steps: list[list[Call]]

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002  (it never does)
    ) -> AsyncGenerator[LlmResponse, None]:
        at, words = max(
            (at, text) for at, content in enumerate(llm_request.contents) if (text := _words(content)) is not None
        )
        after = [part for content in llm_request.contents[at:] for part in content.parts or ()]
        results = [part.function_response.response for part in after if part.function_response]
        steps = [
            content
            for content in llm_request.contents[at:]
            if content.role == "model" and any(part.function_call for part in content.parts or ())
        ]
        if words != "go":
            parts = [types.Part(text=f"I heard: {words}")]
        elif len(steps) < len(self.steps):
            parts = [types.Part.from_function_call(name=name, args=args) for name, args in self.steps[len(steps)]]
        else:
            parts = [types.Part(text=f"I got {json.dumps(results)}")]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def _words(content: types.Content) -> str | None:
    """What the person said to the agent. What other agents said reaches it as context."""
    texts = [part.text for part in content.parts or () if part.text]
    return "".join(texts) if content.role == "user" and texts and not texts[0].startswith("For context") else None


def deploy(service: str) -> dict[str, object]:
    """Deploys."""
    log("deploy", service=service)
    return {"deployed": service}


def ask_twice(what: str, tool_context: ToolContext) -> dict[str, object]:
    """Asks, and asks again when it has its answer."""
    confirmation = tool_context.tool_confirmation
    payload = confirmation.payload if confirmation is not None else None
    stage = 1 if payload is None else payload["stage"] + 1
    if stage < 3:
        tool_context.request_confirmation(hint=f"Question {stage}?", payload={"stage": stage})
        return {"status": f"waits for answer {stage}"}
    log("ask_twice", what=what)
    return {"done": what}


def scripted(name: str, *steps: Sequence[Call], tools: Sequence[Any] = (), **more: Any) -> LlmAgent:
    gated = FunctionTool(deploy, require_confirmation=True)
    model = Script(model="script", steps=[list(step) for step in steps])
    return LlmAgent(name=name, description=name, model=model, tools=[gated, *tools], **more)


def deploying(name: str, *services: str, **more: Any) -> LlmAgent:
    """An agent that deploys these at once."""
    return scripted(name, [("deploy", {"service": service}) for service in services], **more)


def asking_both() -> Any:
    """A workflow whose node asks two questions at once, and repeats those that have no answer yet."""
    from google.adk import workflow
    from google.adk.events.request_input import RequestInput

    def ask(ctx: Any, node_input: Any) -> Any:
        missing = [one for one in ("colour", "size") if one not in ctx.resume_inputs]
        for one in missing:
            yield RequestInput(interrupt_id=one, message=f"Which {one}?")
        if not missing:
            log("chosen", **ctx.resume_inputs)
            yield "chosen"

    asking = workflow.FunctionNode(func=ask, rerun_on_resume=True)
    return workflow.Workflow(name="flow", edges=[(workflow.START, asking)])


def handing_over(to: str, *agents: Any) -> LlmAgent:
    return scripted("front", [("transfer_to_agent", {"agent_name": to})], sub_agents=list(agents))


def calling(agent: LlmAgent) -> LlmAgent:
    return scripted("front", [(agent.name, {"request": "go"})], sub_agents=[agent])


def branches(name: str = "branches") -> ParallelAgent:
    return ParallelAgent(name=name, sub_agents=[deploying(one, f"{one}1", f"{one}2") for one in ("x", "y", "z")])


def in_turn(first: Any, name: str = "in_turn") -> SequentialAgent:
    return SequentialAgent(name=name, sub_agents=[first, deploying("last", "the rest")])


def app(root: Any, *, resumable: bool = False) -> App:
    return App(
        name=root.name,
        root_agent=root,
        resumability_config=ResumabilityConfig(is_resumable=True) if resumable else None,
    )


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # google-adk deprecates some of these shapes
    SHAPES: dict[str, Callable[[], Any]] = {
        "alone": lambda: deploying("clerk", "a", "b"),
        "branches": branches,
        "in_turn": lambda: in_turn(deploying("first", "a", "b")),
        "loop": lambda: LoopAgent(name="loop", max_iterations=2, sub_agents=[deploying("worker", "a", "b")]),
        "handed_over": lambda: handing_over("payer", deploying("payer", "a", "b")),
        "single_turn": lambda: calling(deploying("payer", "a", "b", mode="single_turn")),
        "branches_in_turn": lambda: in_turn(branches()),
        "branches_of_one": lambda: in_turn(
            ParallelAgent(name="branches", sub_agents=[deploying("x", "x"), deploying("y", "y")])
        ),
        "turns_in_branches": lambda: ParallelAgent(name="at_once", sub_agents=[in_turn_of(one) for one in ("x", "y")]),
        "handed_to_branches": lambda: handing_over("branches", branches()),
        "asks_both": asking_both,
        "asks_twice": lambda: scripted("clerk", [("ask_twice", {"what": "it"})], tools=[FunctionTool(ask_twice)]),
    }


def in_turn_of(name: str) -> SequentialAgent:
    return SequentialAgent(
        name=f"turns_{name}", sub_agents=[deploying(f"{name}_first", f"{name}1"), deploying(f"{name}_last", f"{name}2")]
    )


def __getattr__(name: str) -> object:
    shape, _, kind = name.partition("__")
    if shape not in SHAPES or kind not in ("plain", "resumable"):
        raise AttributeError(name)
    return app(SHAPES[shape](), resumable=kind == "resumable")
