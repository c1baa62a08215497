"""What the author of an agent imports: `from adk_confirm import Agent, FunctionTool, Runner`.

A name is loaded when it is first used: a command and a plugin do not need everything.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adk_confirm.runtime.adk_plugin import ConfirmationPlugin
    from adk_confirm.runtime.agent import Agent
    from adk_confirm.runtime.context import ReadonlyContext, ToolContext
    from adk_confirm.runtime.errors import Busy, ConfirmError, Conflict, Forbidden, Invalid, NotFound, StoreError
    from adk_confirm.runtime.mcp.toolset import HttpConnection, McpToolset, StdioConnection
    from adk_confirm.runtime.models.protocol import Model, ModelFailure, ModelRequest, ModelResponse
    from adk_confirm.runtime.models.scripted import ScriptedModel, call
    from adk_confirm.runtime.requests_and_answers import (
        Answer,
        Request,
        answers_in,
        original_call_from,
        read_answer,
        requests_in,
    )
    from adk_confirm.runtime.run.runner import Runner
    from adk_confirm.runtime.run.sequencer import Run
    from adk_confirm.runtime.tool import ConfirmationPolicy, FunctionTool, Tool, ToolOutcomeUnknown, Toolset
    from adk_confirm.runtime.wire import (
        REQUEST_CONFIRMATION,
        ConfirmationRequest,
        Content,
        Event,
        EventActions,
        FunctionCall,
        FunctionResponse,
        Part,
        ToolConfirmation,
    )

__all__ = [
    "REQUEST_CONFIRMATION",
    "Agent",
    "Answer",
    "Busy",
    "ConfirmError",
    "ConfirmationPlugin",
    "ConfirmationPolicy",
    "ConfirmationRequest",
    "Conflict",
    "Content",
    "Event",
    "EventActions",
    "Forbidden",
    "FunctionCall",
    "FunctionResponse",
    "FunctionTool",
    "HttpConnection",
    "Invalid",
    "McpToolset",
    "Model",
    "ModelFailure",
    "ModelRequest",
    "ModelResponse",
    "NotFound",
    "Part",
    "ReadonlyContext",
    "Request",
    "Run",
    "Runner",
    "ScriptedModel",
    "StdioConnection",
    "StoreError",
    "Tool",
    "ToolConfirmation",
    "ToolContext",
    "ToolOutcomeUnknown",
    "Toolset",
    "answers_in",
    "call",
    "original_call_from",
    "read_answer",
    "requests_in",
]

_HOMES = {
    "runtime.adk_plugin": "ConfirmationPlugin",
    "runtime.agent": "Agent",
    "runtime.requests_and_answers": "Answer Request answers_in original_call_from read_answer requests_in",
    "runtime.context": "ReadonlyContext ToolContext",
    "runtime.errors": "Busy ConfirmError Conflict Forbidden Invalid NotFound StoreError",
    "runtime.mcp.toolset": "HttpConnection McpToolset StdioConnection",
    "runtime.models.protocol": "Model ModelFailure ModelRequest ModelResponse",
    "runtime.models.scripted": "ScriptedModel call",
    "runtime.run.runner": "Runner",
    "runtime.run.sequencer": "Run",
    "runtime.tool": "ConfirmationPolicy FunctionTool Tool ToolOutcomeUnknown Toolset",
    "runtime.wire": "ConfirmationRequest Content Event EventActions "
    "FunctionCall FunctionResponse Part REQUEST_CONFIRMATION ToolConfirmation",
}
"""In which module each name is at home."""


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names.split():
            found: object = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
