"""Agents: their tree, tools, instructions and hand-overs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from google.genai import types

from adk_confirm.runtime.agent import Agent, BadAgent
from adk_confirm.runtime.context import ReadonlyContext, ToolContext
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.models.scripted import ScriptedModel
from adk_confirm.runtime.run.runner import Runner
from adk_confirm.runtime.tool import FunctionTool, Tool

MODEL = ScriptedModel()


def lookup(city: str) -> str:
    """Looks a city up."""
    return city


def seen(**state: Any) -> ReadonlyContext:
    return ReadonlyContext(agent_name="a", invocation_id="e", user_id="u", session_id="s", state=state)


def context() -> ToolContext:
    return ToolContext(
        agent_name="a",
        invocation_id="e",
        user_id="u",
        session_id="s",
        state={},
        function_call_id="c",
        idempotency_key="k",
    )


class Shelf:
    """A toolset that is asked each time, and closed once."""

    def __init__(self, *tools: Tool) -> None:
        self._tools = tools
        self.closed = 0

    async def tools(self) -> Sequence[Tool]:
        return self._tools

    async def close(self) -> None:
        self.closed += 1


def family() -> tuple[Agent, Agent, Agent, Agent]:
    son = Agent("son", description="Knows ships.")
    daughter = Agent("daughter")
    mother = Agent("mother", description="Knows all.", sub_agents=[son, daughter])
    return Agent("root", MODEL, sub_agents=[mother]), mother, son, daughter


# The tree


def test_an_agent_knows_its_place() -> None:
    root, mother, son, daughter = family()
    assert [agent.name for agent in root.walk()] == ["root", "mother", "son", "daughter"]
    assert root.find("son") is son
    assert root.find("nobody") is None
    assert mother.find("root") is None
    assert repr(daughter) == "Agent(daughter)"


@pytest.mark.parametrize(
    ("options", "targets", "keeps"),
    [
        ({}, ["parent", "peer"], True),
        ({"disallow_transfer_to_parent": True}, ["peer"], False),
        ({"disallow_transfer_to_peers": True}, ["parent"], True),
        ({"disallow_transfer_to_parent": True, "disallow_transfer_to_peers": True}, [], False),
    ],
)
def test_ways_can_be_closed(options: dict[str, bool], targets: list[str], keeps: bool) -> None:
    child = Agent("child", **options)  # type: ignore[arg-type]  # the rows hold flags alone
    Agent("parent", MODEL, sub_agents=[child, Agent("peer")])
    assert [agent.name for agent in child.targets()] == targets
    assert child.keeps_the_conversation is keeps


def test_a_model_is_inherited() -> None:
    other = ScriptedModel()
    child, odd = Agent("child"), Agent("odd", other)
    Agent("parent", MODEL, sub_agents=[child, odd])
    assert (child.model, odd.model) == (MODEL, other)
    with pytest.raises(BadAgent, match=r"Agent alone has no model: pass model='gemini-…' or an object with generate"):
        _ = Agent("alone").model


@pytest.mark.parametrize("name", ["user", "", "1st", "-a", "my agent", "a/b", "a\n", "a\0", "a" * 257, None, 5])
def test_a_name_must_be_one(name: Any) -> None:
    with pytest.raises(BadAgent, match="is not a name for an agent: use letters, digits, _ and -, 256 at the most"):
        Agent(name)


@pytest.mark.parametrize("name", ["_a1", "on-call", "агент", "当番", "a" * 256])
async def test_letters_are_letters_in_any_script(name: str) -> None:
    async with Runner(Agent(name, ScriptedModel("Hello."))) as runner:
        said = [event async for event in runner.run(user_id="u", session_id="s", message="Hi")]
    assert [(event.author, event.text) for event in said] == [(name, "Hello.")]


def test_a_tree_is_a_tree() -> None:
    child = Agent("child")
    Agent("one", MODEL, sub_agents=[child])
    with pytest.raises(BadAgent, match="child already belongs to one: an agent has one parent"):
        Agent("two", MODEL, sub_agents=[child])
    with pytest.raises(BadAgent, match="Two agents are called 'twin': names must differ within one tree"):
        Agent("root", MODEL, sub_agents=[Agent("twin"), Agent("other", sub_agents=[Agent("twin")])])


# Tools


async def test_functions_tools_and_toolsets_come_together() -> None:
    def remember(fact: str) -> None: ...

    shelf = Shelf(FunctionTool(remember))
    agent = Agent("a", MODEL, tools=[lookup, shelf])
    assert list(await agent.resolve_tools()) == ["lookup", "remember"]
    await agent.close()
    assert shelf.closed == 1


async def test_two_tools_of_one_name_are_one_too_many() -> None:
    agent = Agent("a", MODEL, tools=[lookup, Shelf(FunctionTool(lookup))])
    with pytest.raises(BadAgent, match="Agent a has two tools called 'lookup': rename one of them"):
        await agent.resolve_tools()


@pytest.mark.parametrize("name", ["adk_request_confirmation", "transfer_to_agent"])
async def test_a_tool_cannot_take_a_name_that_means_something_else(name: str) -> None:
    def tool() -> None: ...

    tool.__name__ = name
    agent = Agent("a", MODEL, tools=[tool])
    with pytest.raises(BadAgent, match=f"a tool called '{name}', which is ADK's own: rename it"):
        await agent.resolve_tools()


async def test_closing_reaches_the_whole_tree() -> None:
    shelf = Shelf()
    await Agent("root", MODEL, sub_agents=[Agent("child", tools=[shelf])]).close()
    assert shelf.closed == 1


async def test_handing_over_is_a_tool_that_knows_to_whom() -> None:
    root, mother, _, daughter = family()
    assert set(await daughter.resolve_tools()) == {"transfer_to_agent"}
    hand_over = (await mother.resolve_tools())["transfer_to_agent"]
    assert list(hand_over.declaration.schema["properties"]) == ["agent_name"]  # type: ignore[arg-type]  # an object
    here = context()
    assert await hand_over.run({"agent_name": "son"}, here) is None
    assert here.actions.transfer_to_agent == "son"
    astray = context()
    assert await hand_over.run({"agent_name": "grandson"}, astray) == {
        "error": "There is no agent 'grandson' to hand over to; there are: son, daughter, root."
    }
    assert astray.actions.transfer_to_agent is None
    assert "transfer_to_agent" not in await Agent("alone", MODEL).resolve_tools()
    assert root.find("mother") is mother


# Instructions


@pytest.mark.parametrize(
    ("instruction", "said"),
    [
        ("Be kind.", "Be kind."),
        ("Greet {name}, {user:age} years.", "Greet Ann, 30 years."),
        ("Maybe {nickname?}.", "Maybe ."),
        ("Maybe {name?}.", "Maybe Ann."),
        ('Answer as {"city": …} or {city}.', 'Answer as {"city": …} or {city}.'),
        ("{0} {} { name } {{name}}", "{0} {} { name } {Ann}"),
    ],
)
async def test_an_instruction_is_filled_from_the_state(instruction: str, said: str) -> None:
    agent = Agent("a", MODEL, instruction=instruction)
    assert await agent.instruct(seen(name="Ann", **{"user:age": 30})) == said


async def test_an_instruction_may_be_a_function_sync_or_async() -> None:
    async def later(context: ReadonlyContext) -> str:
        return f"{context.agent_name} for {context.state['name']}: {{name}}"

    def now(context: ReadonlyContext) -> str:
        return f"{context.user_id} in {context.session_id}"

    assert await Agent("a", MODEL, instruction=later).instruct(seen(name="Ann")) == "a for Ann: {name}"
    assert await Agent("a", MODEL, instruction=now).instruct(seen()) == "u in s"


async def test_an_instruction_says_to_whom_to_hand_over() -> None:
    _, mother, son, _ = family()
    assert await son.instruct(seen()) == (
        "When another agent is better suited to answer, call transfer_to_agent with its name:\n"
        "- mother: Knows all.\n"
        "- daughter: no description"
    )
    mother.instruction = "Decide."
    assert (await mother.instruct(seen())).startswith("Decide.\n\nWhen another agent")


# Configuration


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, {}),
        ({"temperature": 0.5}, {"temperature": 0.5}),
        (types.GenerateContentConfig(temperature=0.5, max_output_tokens=9), {"temperature": 0.5, "maxOutputTokens": 9}),
    ],
)
def test_a_configuration_is_a_dict_or_googles_own(given: Any, kept: JsonObject) -> None:
    assert Agent("a", MODEL, generate_content_config=given).generate_content_config == kept
