"""Lists the agent's tools, if that is possible, and says for each whether people may be asked about it.

`adk-confirm check` and `explain` compare the policies with this list.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from adk_confirm.bot.config.settings import AgentSettings
from adk_confirm.runtime.agent import Agent
from adk_confirm.runtime.target import load_object
from adk_confirm.runtime.tool import Tool
from adk_confirm.runtime.wire import TRANSFER_TO_AGENT


@dataclass(frozen=True)
class ListedTool:
    """`ours`: as our own runtime calls it."""

    may_ask: bool
    ours: Tool | None = None


Tools = Mapping[str, ListedTool]


async def tools_of(settings: AgentSettings) -> Tools | None:
    """The agent's tools. None if they can't be listed: the agent is on a server, or is a workflow.

    Asks the servers of its tools which tools they offer. Raises `ConfirmError` if one can't be asked.
    """
    if settings.target is None:
        return None
    target = load_object(settings.target)
    if isinstance(target, Agent):
        return await _tools_of_ours(target)
    if type(target).__module__.startswith("google.adk"):
        return await _tools_of_google(target)
    return None


async def _tools_of_ours(agent: Agent) -> Tools:
    found: dict[str, ListedTool] = {}
    try:
        for one in agent.walk():
            for name, tool in (await one.resolve_tools()).items():
                if name not in found or not found[name].may_ask:
                    found[name] = ListedTool(getattr(tool, "may_ask", True), tool)
    finally:
        await agent.close()
    found.pop(TRANSFER_TO_AGENT, None)
    return found


async def _tools_of_google(target: object) -> Tools | None:
    """An agent of google-adk, or the agent of an `App` or a `Runner`."""
    agent = getattr(target, "root_agent", None) or getattr(target, "agent", None) or target
    found: dict[str, ListedTool] = {}
    rest = [agent]
    while rest:
        one = rest.pop()
        rest.extend(getattr(one, "sub_agents", ()))
        listing = getattr(one, "canonical_tools", None)
        if listing is None and _only_runs_others(one):
            continue
        if listing is None:
            return None  # an agent without a model, such as a workflow, may call anything
        by_callback = bool(getattr(one, "before_tool_callback", None))
        for tool in await listing():
            if tool.name not in found or not found[tool.name].may_ask:
                found[tool.name] = ListedTool(by_callback or google_may_ask(tool))
    return found


def _only_runs_others(agent: object) -> bool:
    return type(agent).__module__.startswith("google.adk.agents.") and bool(getattr(agent, "sub_agents", ()))


def google_may_ask(tool: object) -> bool:
    """Whether people may be asked about a tool of google-adk: it has a gate, or its body can ask."""
    if getattr(tool, "_require_confirmation", False):
        return True
    function = getattr(tool, "func", None)
    made = function or type(tool)
    if made.__module__.startswith("google.adk."):  # google's own tools: few of them ask, and some take a gate
        source = inspect.getsource(sys.modules[made.__module__])
        return function is None and not hasattr(tool, "_require_confirmation") and "request_confirmation(" in source
    context = getattr(tool, "_context_param_name", "tool_context")
    return function is None or context in inspect.signature(function).parameters
