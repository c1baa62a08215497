"""A whole agent on Gemini: whatever people and tools do, Gemini accepts every request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adk_confirm import Agent, FunctionTool, Runner
from adk_confirm.runtime.jsontypes import JsonObject
from tests.support.dialogue import Chat
from tests.support.gemini import Chunks, FakeGemini, asked_by_default, call, piece, say

# The SDK's own sessions: aiohttp discourages deriving from its class, and the SDK does.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

MODEL = "gemini-2.5-flash"


@pytest.fixture
async def gemini(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeGemini]:
    async with asked_by_default(tmp_path, monkeypatch) as server:
        yield server


def reimburse(purpose: str, amount: float) -> JsonObject:
    """Reimburses an employee."""
    return {"paid": amount}


def lookup(city: str) -> str:
    """Looks a city up."""
    return f"{city} is fine"


@pytest.fixture
async def chat(gemini: FakeGemini) -> AsyncIterator[Chat]:
    held = FunctionTool(reimburse, require_confirmation=True)
    async with Runner(Agent("hr", MODEL, instruction="Be kind.", tools=[held, lookup])) as runner:
        yield Chat(runner)


@pytest.mark.parametrize("streaming", [False, True])
async def test_parallel_calls_and_chat_in_between(gemini: FakeGemini, chat: Chat, streaming: bool) -> None:
    calls = [
        {"functionCall": {"name": "reimburse", "args": {"purpose": "a", "amount": 1}}},
        {"functionCall": {"name": "lookup", "args": {"city": "Oslo"}, "id": "theirs"}},
        {"functionCall": {"name": "reimburse", "args": {"purpose": "b", "amount": 2}}},
    ]
    pieces = [piece(one) for one in calls] if streaming else [piece(*calls)]
    gemini.will(Chunks([*pieces, piece(finish="STOP")]), say("Still waiting."), say("All done."))
    asked = await chat.say("Two trips", streaming=streaming)
    assert asked.result("lookup") == {"result": "Oslo is fine"}
    assert (await chat.say("And?", streaming=streaming)).texts == ["Still waiting."]
    await chat.deny(asked.request_for("reimburse", purpose="a"), "no money")
    heard = await chat.approve(asked.request_for("reimburse", purpose="b"))
    assert heard.texts == ["All done."]
    results = [part["functionResponse"] for part in gemini.heard[-1]["contents"][-1]["parts"]]
    assert [result["response"] for result in results] == [
        {"error": "tool call was rejected by the user", "reason": "no money"},
        {"result": "Oslo is fine"},
        {"paid": 2},
    ]
    assert [result.get("id") for result in results] == [None, "theirs", None]


async def test_an_agent_hands_over_to_another(gemini: FakeGemini) -> None:
    child = Agent("paymaster", description="Pays.", tools=[FunctionTool(reimburse, require_confirmation=True)])
    gemini.will(
        call("transfer_to_agent", agent_name="paymaster"), call("reimburse", purpose="trip", amount=1), say("Paid.")
    )
    async with Runner(Agent("hr", MODEL, sub_agents=[child])) as runner:
        chat = Chat(runner)
        heard = await chat.approve((await chat.say("Pay me")).request)
        assert heard.lines == ['paymaster got reimburse: {"paid":1}', "paymaster says Paid."]
