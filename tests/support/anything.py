"""An agent with one tool that takes anything: the message is the tool's argument, as JSON.

@adk-confirm {"a": [1.0, null]}
"""

from __future__ import annotations

import json
from typing import Any

from adk_confirm import Agent, Content, FunctionCall, FunctionTool, ModelRequest, ScriptedModel
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from adk_confirm.runtime.models.scripted import ScriptLine

taken: list[object] = []


def take(x: Any) -> JsonObject:
    """Does nothing with it."""
    taken.append(x)
    return {"took": type(x).__name__}


def reply(request: ModelRequest) -> ScriptLine:
    last = request.contents[-1] if request.contents else Content()
    results = [canonical(result.response) for result in last.responses()]
    return " ".join(results) or FunctionCall(name="take", args={"x": json.loads(last.text)})


agent = Agent(name="anything", model=ScriptedModel(reply=reply), tools=[FunctionTool(take, require_confirmation=True)])
