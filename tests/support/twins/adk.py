"""The agents on a real ADK API server, in a process of its own: `python -m tests.support.twins.adk PORT`."""

from __future__ import annotations

import os
import socket
import tempfile
import warnings
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.foreign.rig import FORK_SERVERS, ROOT
from tests.support.twins.scenes import CAST, Gate, Plain, Prompter, Role


@contextmanager
def adk_server() -> Iterator[str]:
    """The base URL of a new server."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"}
    server = FORK_SERVERS["tests.support.foreign.google"].begin(
        "tests.support.twins.adk", env=env, loud=bool(os.environ.get("TWINS_LOUD"))
    )
    try:
        port = server.stdout.readline().strip()
        assert port, "the ADK server did not start; TWINS_LOUD=1 shows what it says"
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import uvicorn

        app = build()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            print(listening.getsockname()[1], flush=True)
            config = uvicorn.Config(app, log_level="warning")
            uvicorn.Server(config).run(sockets=[listening])


def build() -> Any:
    from google.adk.cli.fast_api import get_fast_api_app
    from google.adk.cli.utils.base_agent_loader import BaseAgentLoader

    class Loader(BaseAgentLoader):
        def load_agent(self, agent_name: str) -> Any:
            if agent_name not in CAST:
                raise ValueError(f"Agent not found: {agent_name}")
            return agent(CAST[agent_name])

        def list_agents(self) -> list[str]:
            return sorted(CAST)

    return get_fast_api_app(
        agents_dir=tempfile.mkdtemp(prefix="adk-twins-"),
        agent_loader=Loader(),
        session_service_uri="memory://",
        artifact_service_uri="memory://",
        use_local_storage=False,
        web=False,
        bind_host="127.0.0.1",
    )


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


if __name__ == "__main__":
    main()
