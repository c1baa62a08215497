"""The agents on a real google-adk server (`tests.support.foreign.google`), in a process of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.foreign.rig import foreign, google_adk
from tests.support.twins.scenes import CAST, Gate, Plain, Prompter, Role


@contextmanager
def adk_server() -> Iterator[str]:
    """The base URL of a new server."""
    with TemporaryDirectory(prefix="adk-twins-") as room, foreign(Path(room), *google_adk(), CAST=__name__) as server:
        yield server.url


def load_agent(name: str) -> Any:
    if name not in CAST:
        raise ValueError(f"Agent not found: {name}")
    return agent(CAST[name])


def names() -> list[str]:
    return [*CAST]


def agent(role: Role) -> Any:
    from google.adk.agents import LlmAgent
    from google.adk.tools.function_tool import FunctionTool

    def tool(described: Callable[..., object] | Gate) -> Any:
        if isinstance(described, Gate):
            return FunctionTool(described.function, require_confirmation=described.when)
        return FunctionTool(described)

    return LlmAgent(
        name=role.name,
        model=model(),
        description=role.description,
        tools=[tool(described) for described in role.tools],
        sub_agents=[agent(below) for below in role.below],
    )


_PROMPTER = Prompter()


def model() -> Any:
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.genai import types

    class Scripted(BaseLlm):
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            shown: list[Plain] = [
                content.model_dump(by_alias=True, exclude_none=True, mode="json") for content in llm_request.contents
            ]
            line = _PROMPTER.line(shown)
            if line and "blocked" in line[0]:
                yield LlmResponse(**line[0]["blocked"])
                return
            parts = [types.Part.model_validate(part) for part in line]
            if stream:
                for part in parts:
                    for word in (part.text or "").split():
                        piece = types.Content(role="model", parts=[types.Part(text=word)])
                        yield LlmResponse(content=piece, partial=True)
            whole = types.Content(role="model", parts=parts)
            yield LlmResponse(content=whole, finish_reason=types.FinishReason.STOP)

    return Scripted(model="scripted")
