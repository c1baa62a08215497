"""An agent runtime that supports ADK's tool confirmation: calls are stored and run exactly once. It does not depend on
Slack.

The store's libraries take longer to import than everything else, so they are loaded with the first use of `Runner`.
Begin with `agent.py` and `tool.py`, then `run/runner.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.agent import Agent
from runtime.confirming import Answer, Request, original_call_from, read_answer, requests_in
from runtime.context import ReadonlyContext, ToolContext
from runtime.errors import Busy, ConfirmError, Conflict, Forbidden, Invalid, NotFound, StoreError
from runtime.mcp.toolset import HttpConnection, McpToolset, StdioConnection
from runtime.models.model import Model, ModelFailure, ModelRequest, ModelResponse
from runtime.models.scripted import ScriptedModel, call
from runtime.tool import ConfirmationPolicy, FunctionTool, Tool, ToolOutcomeUnknown, Toolset
from runtime.wire import (
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

if TYPE_CHECKING:
    from runtime.run.runner import Run, Runner

__all__ = [
    "REQUEST_CONFIRMATION",
    "Agent",
    "Answer",
    "Busy",
    "ConfirmError",
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
    "call",
    "original_call_from",
    "read_answer",
    "requests_in",
]


def __getattr__(name: str) -> object:
    if name in ("Run", "Runner"):
        from runtime.run import runner

        found: object = getattr(runner, name)
        return found
    raise AttributeError(f"module 'runtime' has no attribute {name!r}")
