"""An agent with tools of an MCP server whose schemas cost much time, except those of the tools that the agent calls."""

from __future__ import annotations

from adk_confirm import Agent, ScriptedModel, call
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.mcp.toolset import McpTool

_AGAIN: JsonObject = {"type": "object", "properties": {"x": {"$ref": "#/$defs/endless"}}}
_ENDLESS: JsonObject = {"anyOf": [_AGAIN, _AGAIN, _AGAIN]}
_LOOP: JsonObject = {"$ref": f"#{'/' * 100_000}$defs/loop"}


def _tool(name: str, notes: dict[str, Json], **defs: Json) -> McpTool:
    async def answer(name: str, args: JsonObject) -> JsonObject:
        return {"content": [{"type": "text", "text": f"{name} did {args}"}]}

    schema: JsonObject = {"type": "object", "properties": {"amount": {"type": "integer"}, **notes}, "$defs": defs}
    return McpTool({"name": name, "inputSchema": schema}, prefix="", held=True, call=answer)


_drawn = _tool("drawn", {f"note {number}": {"$ref": "#/$defs/loop"} for number in range(60)}, loop=_LOOP)
_sent = _tool("sent", {"note": {"$ref": "#/$defs/endless"}}, endless=_ENDLESS)

drawing = Agent("payer", ScriptedModel(call("drawn", amount=5), "Done."), tools=[_drawn])
sending = Agent("payer", ScriptedModel(call("sent", amount=5), "Done."), tools=[_sent])
