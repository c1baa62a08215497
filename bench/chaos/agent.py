"""The agent under test: each line of a message is a call, "think 2.5", or something to answer.

Its tools only write to a log outside the database: a line when they begin and a line when they end. Each line is on
disk before the tool continues.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator

from adk_confirm import (
    Agent,
    Content,
    FunctionCall,
    FunctionTool,
    ModelRequest,
    ModelResponse,
    ScriptedModel,
    ToolContext,
)
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from adk_confirm.runtime.models.scripted import ScriptLine
from bench.chaos.plan import TOOLS, Tool

LOG = "CHAOS_TOOL_LOG"


def _log(phase: str, tool: str, ticket: str, amount: int, call: str | None) -> None:
    entry = {"at": time.time(), "phase": phase, "tool": tool, "ticket": ticket, "amount": amount, "call": call}
    entry["pid"] = os.getpid()
    line = f"{json.dumps(entry)}\n".encode()
    file = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)
        os.fsync(file)
    finally:
        os.close(file)


def _tool(made: Tool) -> FunctionTool:
    async def run(ticket: str, amount: int, takes: float, tool_context: ToolContext) -> JsonObject:
        """Leaves its traces.

        Args:
            ticket: what this is about.
            amount: how much.
            takes: how many seconds it takes.
        """
        _log("begins", made.name, ticket, amount, tool_context.function_call_id)
        await asyncio.sleep(takes)
        _log("ends", made.name, ticket, amount, tool_context.function_call_id)
        return {"ticket": ticket, "amount": amount}

    run.__name__ = made.name
    return FunctionTool(run, require_confirmation=True, idempotent=made.idempotent)


def reply(request: ModelRequest) -> ScriptLine:
    last = request.contents[-1] if request.contents else Content()
    results = [f"{result.name} came to {canonical(result.response)}" for result in last.responses()]
    if results:
        return "\n".join(results)
    offered = {tool.name for tool in request.tools}
    lines = [line.strip() for line in last.text.splitlines()]
    calls = [call for line in lines if (call := _call(line, offered)) is not None]
    return calls or f"You said {' '.join(line for line in lines if not line.startswith('think '))}."


def _call(line: str, offered: set[str]) -> FunctionCall | None:
    name, _, arguments = line.partition(" ")
    return FunctionCall(name=name, args=json.loads(arguments)) if name in offered else None


class Thoughtful(ScriptedModel):
    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        asked = request.contents[-1].text if request.contents else ""
        for line in asked.splitlines():
            if line.strip().startswith("think "):
                await asyncio.sleep(float(line.split()[1]))
        async for response in super().generate(request):
            yield response


agent = Agent(name="chaos", model=Thoughtful(reply=reply), tools=[_tool(made) for made in TOOLS])
