"""An agent: a model, an instruction, tools, and the agents that it may hand over to."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence

from pydantic import BaseModel

from adk_confirm.runtime.context import ReadonlyContext, ToolContext
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.fence import in_thread
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.models.protocol import Model
from adk_confirm.runtime.tool import FunctionTool, Tool, Toolset, as_tool
from adk_confirm.runtime.wire import REQUEST_NAMES, TRANSFER_TO_AGENT, USER

Instruction = str | Callable[[ReadonlyContext], str | Awaitable[str]]
ToolLike = Tool | Toolset | Callable[..., object]

_LONGEST_NAME = 256  # the agent's name is also its app's name, and so part of the key of each session
_NAME = re.compile(rf"[^\W\d][\w-]{{0,{_LONGEST_NAME - 1}}}")
_OURS = (*REQUEST_NAMES, TRANSFER_TO_AGENT)
_PLACE = re.compile(r"\{([A-Za-z_][\w:]*)(\?)?\}")


class BadAgent(ConfirmError):
    """An agent that can't work. The message says what to change."""


class Agent:
    """`model` is a model's name (`gemini-…`) or any object with the `Model` protocol. Without one, the parent's is
    used."""

    def __init__(
        self,
        name: str,
        model: str | Model | None = None,
        *,
        instruction: Instruction = "",
        description: str = "",
        tools: Sequence[ToolLike] = (),
        sub_agents: Sequence[Agent] = (),
        generate_content_config: JsonObject | BaseModel | None = None,
        disallow_transfer_to_parent: bool = False,
        disallow_transfer_to_peers: bool = False,
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name == USER:
            raise BadAgent(
                f"{name!r:.60} is not a name for an agent: use letters, digits, _ and -, {_LONGEST_NAME} at the most, "
                "and not 'user'."
            )
        self.name = name
        self._model = model
        self.instruction = instruction
        self.description = description
        self.tools: list[Tool | Toolset] = [t if isinstance(t, Toolset) else as_tool(t) for t in tools]
        self.sub_agents = list(sub_agents)
        self.generate_content_config = _config(generate_content_config)
        self.parent: Agent | None = None
        self._may_go_up = not disallow_transfer_to_parent
        self._may_go_across = not disallow_transfer_to_peers
        for child in self.sub_agents:
            if child.parent is not None:
                raise BadAgent(f"{child.name} already belongs to {child.parent.name}: an agent has one parent.")
            child.parent = self
        names = [agent.name for agent in self.walk()]
        if twice := {n for n in names if names.count(n) > 1}:
            raise BadAgent(f"Two agents are called {sorted(twice)[0]!r}: names must differ within one tree.")

    def __repr__(self) -> str:
        return f"Agent({self.name})"

    @property
    def model(self) -> str | Model:
        if self._model is not None:
            return self._model
        if self.parent is not None:
            return self.parent.model
        raise BadAgent(f"Agent {self.name} has no model: pass model='gemini-…' or an object with generate().")

    def walk(self) -> Iterator[Agent]:
        """This agent and all below it."""
        yield self
        for child in self.sub_agents:
            yield from child.walk()

    def find(self, name: str) -> Agent | None:
        return next((agent for agent in self.walk() if agent.name == name), None)

    @property
    def root(self) -> Agent:
        return self.parent.root if self.parent else self

    @property
    def keeps_the_conversation(self) -> bool:
        """Whether the next message goes to this agent if it spoke last. One that can't hand over to its parent would
        otherwise keep the conversation for ever."""
        return self.parent is None or (self._may_go_up and self.parent.keeps_the_conversation)

    def targets(self) -> list[Agent]:
        """The agents to which it may hand over: its children, its parent, its peers."""
        found = list(self.sub_agents)
        if self.parent is not None:
            if self._may_go_up:
                found.append(self.parent)
            if self._may_go_across:
                found.extend(peer for peer in self.parent.sub_agents if peer is not self)
        return found

    async def resolve_tools(self) -> dict[str, Tool]:
        """All tools that it can call, by name. Toolsets are asked for theirs."""
        found: dict[str, Tool] = {}
        for item in self.tools:
            for tool in [item] if isinstance(item, FunctionTool) else await _tools_in(item):
                if tool.name in _OURS:
                    raise BadAgent(f"Agent {self.name} has a tool called {tool.name!r}, which is ADK's own: rename it.")
                if tool.name in found:
                    raise BadAgent(f"Agent {self.name} has two tools called {tool.name!r}: rename one of them.")
                found[tool.name] = tool
        if self.targets():
            found[TRANSFER_TO_AGENT] = _transfer_tool(self.targets())
        return found

    async def instruct(self, context: ReadonlyContext) -> str:
        """Its instruction for this run. `{key}` is replaced with the session state's value. A function is called in a
        thread, since it may block; an async one goes on here, on the event loop."""
        if isinstance(self.instruction, str):
            text = _PLACE.sub(lambda place: _fill_in(place, context), self.instruction)
        else:
            make = self.instruction
            made = await in_thread(lambda: make(context), "adk-confirm-instruction", daemon=True)
            text = await made if inspect.isawaitable(made) else made
        targets = self.targets()
        return f"{text}\n\n{_transfer_instruction(targets)}".strip() if targets else text

    async def close(self) -> None:
        for agent in self.walk():
            for item in agent.tools:
                if isinstance(item, Toolset):
                    await item.close()


async def _tools_in(item: Tool | Toolset) -> Sequence[Tool]:
    return await item.tools() if isinstance(item, Toolset) else [item]


def _config(given: JsonObject | BaseModel | None) -> JsonObject:
    """Accepts a dict, or google-genai's own `GenerateContentConfig`."""
    if isinstance(given, BaseModel):
        plain: JsonObject = given.model_dump(mode="json", by_alias=True, exclude_none=True)
        return plain
    return dict(given or {})


def _fill_in(place: re.Match[str], context: ReadonlyContext) -> str:
    """A name without a value stays as it is, since it may be JSON or code; one marked `?` is removed."""
    value: Json = context.state.get(place[1])
    if value is None:
        return "" if place[2] else place[0]
    return str(value)


def _transfer_instruction(targets: Sequence[Agent]) -> str:
    listed = "\n".join(f"- {agent.name}: {agent.description or 'no description'}" for agent in targets)
    return f"When another agent is better suited to answer, call {TRANSFER_TO_AGENT} with its name:\n{listed}"


def _transfer_tool(targets: Sequence[Agent]) -> FunctionTool:
    names = [agent.name for agent in targets]

    def transfer_to_agent(agent_name: str, tool_context: ToolContext) -> JsonObject | None:
        """Hands the conversation over to another agent.

        Args:
            agent_name: the agent's name, one of those listed in the instruction.
        """
        if agent_name not in names:
            return {"error": f"There is no agent {agent_name!r} to hand over to; there are: {', '.join(names)}."}
        tool_context.actions.transfer_to_agent = agent_name
        return None

    return FunctionTool(transfer_to_agent)
