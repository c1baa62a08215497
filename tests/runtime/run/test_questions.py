"""Questions of tools: asked in ADK's form, answered by name, and the tool runs once for each answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
from pydantic import BaseModel

from adk_confirm import Agent, Answer, Conflict, FunctionTool, Invalid, ScriptedModel, ToolContext, call
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.models.scripted import ScriptLine
from adk_confirm.runtime.tool import Tool
from tests.runtime.conftest import MakeRunner
from tests.support.dialogue import Chat

ran: list[object] = []


class Wish(BaseModel):
    colour: Literal["red", "blue"]
    size: int


def survey(topic: str, tool_context: ToolContext) -> JsonObject:
    """Asks what people want."""
    if tool_context.answer is None:
        tool_context.request_input(f"What about {topic}?", schema=Wish)
        return {"status": "waits"}
    ran.append(tool_context.answer)
    return {"wish": tool_context.answer}


def count(tool_context: ToolContext) -> JsonObject:
    """Asks for a number."""
    if tool_context.answer is None:
        tool_context.request_input("How many?", schema=int)
        return {"status": "waits"}
    ran.append(tool_context.answer)
    return {"count": tool_context.answer}


def deploy(version: str) -> str:
    """Deploys."""
    ran.append(version)
    return version


def clerk(*script: ScriptLine) -> Agent:
    tools: list[Tool | Callable[..., object]] = [survey, count, FunctionTool(deploy, require_confirmation=True)]
    return Agent(name="clerk", model=ScriptedModel(*script), tools=tools)


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


async def asked(chat: Chat, text: str = "go") -> tuple[str, JsonObject]:
    """The id and the arguments of the one question."""
    heard = await chat.say(text)
    (found,) = [(event, one) for event in heard.events for one in event.calls() if one.name == "adk_request_input"]
    event, question = found
    assert event.long_running_tool_ids == [question.id]
    assert heard.requests == []
    return str(question.id), question.arguments


async def test_the_tool_gets_what_people_answered(run: MakeRunner) -> None:
    chat = Chat(run(clerk(call("survey", topic="bikes"), "Noted.")))
    request, args = await asked(chat)
    assert (args["message"], args["payload"], args["toolName"]) == ("What about bikes?", {"topic": "bikes"}, "survey")
    assert isinstance(schema := args["response_schema"], dict)
    assert schema["required"] == ["colour", "size"]
    heard = await chat.respond(request, {"colour": "red", "size": 3}, name="adk_request_input")
    assert heard.result("survey") == {"wish": {"colour": "red", "size": 3}}
    assert heard.texts == ["Noted."]
    assert ran == [{"colour": "red", "size": 3}]


async def test_a_value_without_fields_is_wrapped(run: MakeRunner) -> None:
    chat = Chat(run(clerk(call("count"), "Good.")))
    request, _ = await asked(chat)
    await chat.answer(Answer(request, True, 12, question=True))
    assert ran == [12]


async def test_the_first_answer_stands(run: MakeRunner) -> None:
    chat = Chat(run(clerk(call("count"), "Good.")))
    request, _ = await asked(chat)
    await chat.respond(request, {"result": 1}, name="adk_request_input")
    assert (await chat.respond(request, {"result": 1}, name="adk_request_input")).events == []
    with pytest.raises(Conflict):
        await chat.respond(request, {"result": 2}, name="adk_request_input")
    assert ran == [1]


@pytest.mark.parametrize(
    ("response", "wrong"),
    [({"colour": "red"}, "size"), ({"colour": "red", "size": "3"}, "size"), ({"result": 3}, "object")],
)
async def test_an_answer_of_another_kind_leaves_it_waiting(run: MakeRunner, response: JsonObject, wrong: str) -> None:
    chat = Chat(run(clerk(call("survey", topic="bikes"), "Noted.")))
    request, _ = await asked(chat)
    with pytest.raises(Invalid, match=wrong):
        await chat.respond(request, response, name="adk_request_input")
    await chat.respond(request, {"colour": "blue", "size": 1}, name="adk_request_input")
    assert len(ran) == 1


async def test_without_an_answer_the_tool_does_not_run(run: MakeRunner) -> None:
    chat = Chat(run(clerk(call("count"), "Then not.")))
    request, _ = await asked(chat)
    heard = await chat.respond(request, {"error": "nobody answered within 1d"}, name="adk_request_input")
    assert heard.result("count") == {"error": "nobody answered within 1d"}
    assert ran == []


async def test_an_answer_to_a_question_approves_nothing(run: MakeRunner) -> None:
    chat = Chat(run(clerk(call("deploy", version="2.4"), "Done.", call("count"), "Good.")))
    held = (await chat.say("deploy")).request
    with pytest.raises(Invalid, match="adk_request_confirmation"):
        await chat.respond(held.id, {"result": True}, name="adk_request_input")
    assert ran == []
    await chat.approve(held)
    request, _ = await asked(chat)
    with pytest.raises(Invalid, match="adk_request_input"):
        await chat.respond(request, {"confirmed": True})
    assert ran == ["2.4"]
