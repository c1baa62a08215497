"""A real google-adk server, of the version that runs this: `python -m tests.support.foreign.google`. The environment
sets SESSIONS (its URL), RESUMABLE, CAST (a module with other agents), PLUGIN, SECRET, EXTRA_PLUGINS and MCP (a
command)."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import socket
import tempfile
import warnings
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from tests.support.foreign import tools
from tests.support.foreign.wishes import FORK, Plain, reply

APPS = ("clerk", "filer", "front", "fork", "broken")
"""`filer` also has the tools of an MCP server, which google-adk often starts again. `broken` can't be imported."""


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import uvicorn

        app = build()
        with socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "0")))) as listening:
            print(listening.getsockname()[1], flush=True)
            uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


def build() -> Any:
    from google.adk.cli.fast_api import get_fast_api_app
    from google.adk.cli.utils.base_agent_loader import BaseAgentLoader

    cast = importlib.import_module(os.environ.get("CAST", "tests.support.foreign.google"))

    class Loader(BaseAgentLoader):
        def load_agent(self, agent_name: str) -> Any:
            return cast.load_agent(agent_name)

        def list_agents(self) -> list[str]:
            return sorted(cast.names())

    wanted: dict[str, Any] = {
        "agents_dir": written(tempfile.mkdtemp(prefix="adk-foreign-")),
        "agent_loader": Loader(),
        "session_service_uri": os.environ.get("SESSIONS", "memory://"),
        "artifact_service_uri": "memory://",
        "use_local_storage": False,
        "web": False,
        "extra_plugins": os.environ.get("EXTRA_PLUGINS", "").split(),
        "bind_host": "127.0.0.1",
    }
    known = inspect.signature(get_fast_api_app).parameters
    if "use_local_storage" not in known:  # early versions keep sessions in memory unless they get a real URL
        wanted = {key: value for key, value in wanted.items() if value != "memory://"}
    return get_fast_api_app(**{key: value for key, value in wanted.items() if key in known})


def load_agent(name: str) -> Any:
    return app(name) if name in APPS else pausing(name)


def names() -> list[str]:
    return [*APPS, *os.environ.get("PAUSING", "").split()]


def written(agents_dir: str) -> str:
    """Writes the agents as files, for versions that take no loader."""
    for name in APPS:
        room = Path(agents_dir) / name
        room.mkdir()
        (room / "agent.py").write_text(
            f"from tests.support.foreign.google import agent\n\nroot_agent = agent({name!r})\n"
        )
        (room / "__init__.py").write_text("from . import agent\n")
    return agents_dir


def app(name: str) -> Any:
    from google.adk.apps import App, ResumabilityConfig

    resumable = ResumabilityConfig(is_resumable=True) if os.environ.get("RESUMABLE") else None
    return App(name=name, root_agent=agent(name), resumability_config=resumable, plugins=plugins())


def pausing(name: str) -> Any:
    """An agent that waits for people in another way, by name. Only google-adk 2 has these."""
    from tests.support.foreign import pausing

    made: Any = pausing.MADE[name]()
    return made.model_copy(update={"name": name})


def plugins() -> list[Any]:
    if not os.environ.get("PLUGIN"):
        return []
    from adk_confirm import ConfirmationPlugin

    secret = os.environ.get("SECRET")
    return [ConfirmationPlugin(secret=secret, unsigned=secret is None)]


def agent(name: str) -> Any:
    from google.adk.agents import LlmAgent, ParallelAgent

    if name == "broken":
        raise ImportError("No module named 'nowhere'")
    if name == "front":
        payer = LlmAgent(name="payer", description="Pays people back.", model=model("payer"), tools=own_tools())
        return LlmAgent(name="front", model=model("front"), sub_agents=[payer])
    if name == "fork":
        branches = [LlmAgent(name=branch, model=model(branch), tools=own_tools()) for branch in FORK]
        return ParallelAgent(name="fork", sub_agents=branches)
    if name == "filer":
        return LlmAgent(name=name, model=model(name), tools=[*own_tools(), mcp_tools()])
    return LlmAgent(name=name, model=model(name), tools=own_tools())


def own_tools() -> list[Any]:
    from google.adk.tools.function_tool import FunctionTool

    def gated(function: Callable[..., object], when: bool | Callable[..., bool] = True) -> Any:
        return FunctionTool(function, require_confirmation=when)

    return [
        gated(tools.reimburse, tools.over_1000),
        gated(tools.deploy),
        gated(tools.linger),
        gated(tools.break_down),
        gated(tools.launch, tools.is_armed),
        gated(tools.read_calendar),
        FunctionTool(tools.wipe),
        FunctionTool(tools.lookup),
        FunctionTool(tools.request_time_off),
    ]


def mcp_tools() -> Any:
    from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
    from mcp import StdioServerParameters

    program, *arguments = json.loads(os.environ["MCP"])
    there = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
    connection = StdioConnectionParams(server_params=there, timeout=60)
    return McpToolset(connection_params=connection, require_confirmation=True)


def model(agent_name: str) -> Any:
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.genai import types

    class Obliging(BaseLlm):
        async def generate_content_async(
            self,
            llm_request: LlmRequest,
            stream: bool = False,  # noqa: ARG002  (it never does)
        ) -> AsyncGenerator[LlmResponse, None]:
            await tools.hold_model()
            shown: list[Plain] = [
                content.model_dump(by_alias=True, exclude_none=True, mode="json") for content in llm_request.contents
            ]
            parts = [types.Part.model_validate(part) for part in reply(shown, agent_name)]
            yield LlmResponse(content=types.Content(role="model", parts=parts))

    return Obliging(model="obliging")


if __name__ == "__main__":
    main()
