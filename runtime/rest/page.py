"""The endpoints that ADK's browser page needs besides a conversation: the parts of an app, and developer tools.

We have no developer tools: no evaluations, traces, graphs or YAML builder. What the page asks of them while people talk
and approve is answered with nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler

from adk_confirm.runtime.agent import Agent
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.rest.answers import as_json
from adk_confirm.runtime.run.runner import Runner
from adk_confirm.runtime.tool import Toolset

_NOTHING: tuple[tuple[str, Json], ...] = (
    ("/config/telemetry", {"telemetry": False}),
    ("/dev/apps/{app}/build_graph_image", {}),
    ("/dev/apps/{app}/debug/trace/session/{session}", []),
    ("/dev/apps/{app}/eval_results", []),
    ("/dev/apps/{app}/eval_sets", []),
)


def page_routes(runner_of: Callable[[str], Runner]) -> list[web.RouteDef]:
    """`runner_of` raises `NotFound` for an app that is not here."""

    async def structure(request: web.Request) -> web.Response:
        root = runner_of(request.match_info["app"]).agent
        shown: JsonObject = {"name": request.match_info["app"], "root_agent": _node(root)}
        # An answer continues the invocation that asked, and the model waits for all answers of a turn.
        return as_json({**shown, "resumability_config": {"is_resumable": True}})

    async def no_yaml(request: web.Request) -> web.Response:
        runner_of(request.match_info["app"])
        return web.Response(text="")

    return [
        *(web.get(path, _value_endpoint(value, runner_of)) for path, value in _NOTHING),
        web.get("/dev/apps/{app}/build_graph", structure),
        web.get("/dev/apps/{app}/builder", no_yaml),
    ]


async def app_info(runner: Runner, *, with_agents: bool = True) -> JsonObject:
    """The description of an app, in ADK's form."""
    root = runner.agent
    info: JsonObject = {
        "name": runner.app_name,
        "rootAgentName": root.name,
        "description": root.description,
        "language": "python",
        "isComputerUse": False,
    }
    if with_agents:
        info["agents"] = {agent.name: await _agent_info(agent) for agent in root.walk()}
    return info


async def _agent_info(agent: Agent) -> JsonObject:
    tools: list[Json] = []
    for item in agent.tools:
        for tool in await item.tools() if isinstance(item, Toolset) else [item]:
            declaration = tool.declaration
            declared: JsonObject = {
                "name": declaration.name,
                "description": declaration.description,
                "parametersJsonSchema": declaration.schema,
            }
            tools.append({"functionDeclarations": [declared]})
    return {
        "name": agent.name,
        "description": agent.description,
        "instruction": _instruction(agent),
        "tools": tools,
        "subAgents": [child.name for child in agent.sub_agents],
    }


def _instruction(agent: Agent) -> str:
    """The instruction. One that is made for each run is only named."""
    given = agent.instruction
    if isinstance(given, str):
        return given
    return f"<InstructionProvider: {getattr(given, '__name__', type(given).__name__)}>"


def _node(agent: Agent) -> JsonObject:
    return {
        "name": agent.name,
        "description": agent.description,
        "type": "agent",
        "sub_agents": [_node(child) for child in agent.sub_agents],
    }


def _value_endpoint(value: Json, runner_of: Callable[[str], Runner]) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        if "app" in request.match_info:
            runner_of(request.match_info["app"])
        return as_json(value)

    return answer
