"""The agents of `wishes`, on our own runtime. `python -m tests.support.foreign.ours` serves them over our own API, on
the store that SESSIONS names."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator

from adk_confirm import (
    Agent,
    ConfirmationPolicy,
    Content,
    FunctionTool,
    McpToolset,
    ModelRequest,
    ModelResponse,
    Part,
    StdioConnection,
    Tool,
    Toolset,
)
from adk_confirm.bot.ops.api import serving_at
from adk_confirm.runtime.rest.guard import Guard
from tests.support.foreign import tools
from tests.support.foreign.wishes import reply


def agent(name: str) -> Agent:
    if name == "front":
        payer = Agent("payer", Obliging("payer"), description="Pays people back.", tools=own_tools())
        return Agent("front", Obliging("front"), sub_agents=[payer])
    files = [mcp_tools()] if name == "filer" else []
    return Agent(name, Obliging(name), tools=[*own_tools(), *files])


def own_tools() -> list[Tool | Toolset]:
    return [
        FunctionTool(tools.reimburse, require_confirmation=tools.over_1000),
        FunctionTool(tools.deploy, require_confirmation=True),
        FunctionTool(tools.linger, require_confirmation=True),
        FunctionTool(tools.break_down, require_confirmation=True),
        FunctionTool(tools.lookup),
        FunctionTool(tools.request_time_off),
    ]


def mcp_tools() -> Toolset:
    program, *arguments = json.loads(os.environ["MCP"])
    there = StdioConnection(program, arguments, env=dict(os.environ))
    return McpToolset(there, confirmation=ConfirmationPolicy.all())


class Obliging:
    def __init__(self, agent_name: str) -> None:
        self._agent = agent_name

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        said = reply([content.to_dict() for content in request.contents], self._agent)
        parts = [Part.model_validate(part) for part in said]
        yield ModelResponse(Content(role="model", parts=parts), finish_reason="STOP")


async def main() -> None:
    agents = [agent(name) for name in ("clerk", "filer", "front")]
    async with serving_at(agents, Guard(), int(os.environ.get("PORT", "0")), os.environ["SESSIONS"]) as (url, _):
        print(url.rpartition(":")[2], flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
