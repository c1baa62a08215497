"""Our plugin with every kind of tool that google-adk has: denied calls do not run, and edits arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_confirm import ConfirmationPlugin
from adk_confirm.runtime.adk.signing import announcement_about
from adk_confirm.runtime.jsontypes import JsonObject
from tests.support.foreign.alone import Alone, ran, results
from tests.support.foreign.google import model, own_tools
from tests.support.foreign.tools import log as write

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself


google_adk_2 = pytest.mark.skipif(version("google-adk").startswith("1."), reason="google-adk 1 has no such thing")


async def awaited(disk: str) -> dict[str, object]:
    await asyncio.sleep(0)
    write("wipe", disk=disk)
    return {"wiped": disk}


def with_context(disk: str, tool_context: ToolContext) -> dict[str, object]:
    write("wipe", disk=disk, call=bool(tool_context.function_call_id))
    return {"wiped": disk}


def asks(disk: str, tool_context: ToolContext) -> dict[str, object]:
    if tool_context.tool_confirmation is None:
        tool_context.request_confirmation(hint="Wipe it?")
        return {"status": "asked"}
    write("wipe", disk=disk)
    return {"status": "pending"}


def named(tool: Any) -> BaseTool:
    """What the model calls when it is told to wipe."""
    tool.name = "wipe"
    made: BaseTool = tool
    return made


def gated(function: Callable[..., object], when: bool | Callable[..., bool] = True) -> BaseTool:
    return named(FunctionTool(function, require_confirmation=when))


def long_running(function: Callable[..., object], *, gate: bool) -> BaseTool:
    made = LongRunningFunctionTool(function)
    made._require_confirmation = gate  # it has no parameter for it
    return named(made)


TOOLS: dict[str, Callable[[], BaseTool]] = {
    "async": lambda: gated(awaited),
    "with its context": lambda: gated(with_context),
    "asking itself": lambda: named(FunctionTool(asks)),
    "long running, gated": lambda: long_running(awaited, gate=True),
    "long running, asking itself": lambda: long_running(asks, gate=False),
    "by a predicate": lambda: gated(awaited, lambda disk: disk.startswith("sd")),
}


def only(tool: BaseTool, *plugins: BasePlugin) -> Alone:
    at = Alone(*(plugins or (ConfirmationPlugin(unsigned=True),)))
    at.root.tools = [tool]
    return at


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
async def test_denied_it_does_not_run_and_the_model_hears_why(tool: Callable[[], BaseTool]) -> None:
    at = only(tool())
    asked = await at.asks("please wipe sda")
    said = await at.answer(asked, {"confirmed": False, "payload": {"reason": "Take another"}})
    assert ran() == []
    assert results(said, "wipe") == [{"error": "tool call was rejected by the user", "reason": "Take another"}]


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
async def test_edited_it_runs_once_with_the_edit(tool: Callable[[], BaseTool]) -> None:
    at = only(tool())
    asked = await at.asks("please wipe sda")
    for _ in range(2):
        await at.answer(asked, {"confirmed": True, "payload": {"disk": "sdb"}})
    assert [line["disk"] for line in ran()] == ["sdb"]


async def test_a_payload_that_is_no_edit_stays_the_tool_s_own() -> None:
    def asks_loosely(disk: str, tool_context: ToolContext) -> dict[str, object]:
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="How often?")
            return {"status": "asked"}
        write("wipe", disk=disk, payload=tool_context.tool_confirmation.payload)
        return {}

    at = only(named(FunctionTool(asks_loosely)))
    await at.answer(await at.asks("please wipe sda"), {"confirmed": True, "payload": {"times": 3}})
    assert ran() == [{"tool": "wipe", "disk": "sda", "payload": {"times": 3}}]


@pytest.mark.parametrize("payload", ["sdb", ["sdb"], {"disk": 3}, {"disc": "sdb"}])
async def test_an_edit_that_a_gated_tool_can_not_take_leaves_it_waiting(payload: Any) -> None:
    at = only(gated(awaited))
    asked = await at.asks("please wipe sda")
    before = await at.events()
    with pytest.raises(RuntimeError, match=r"payload must be|of the call|has no argument"):
        await at.answer(asked, {"confirmed": True, "payload": payload})
    assert await at.events() == before
    await at.answer(asked, {"confirmed": True})
    assert [line["disk"] for line in ran()] == ["sda"]


async def test_adk_s_own_page_sends_the_call_s_arguments_with_a_denial() -> None:
    """One that is called `reason` is none."""

    def wipe(disk: str, reason: str = "") -> None:
        write("wipe", disk=disk)

    at = only(FunctionTool(wipe, require_confirmation=True))
    asked = await at.asks("please wipe sda")
    said = await at.answer(asked, {"confirmed": False, "payload": asked.arguments})
    assert results(said, "wipe") == [{"error": "tool call was rejected by the user"}]
    assert ran() == []


class Guarded(AgentTool):
    """As google-adk 2 lets any tool be gated."""

    async def check_require_confirmation(self, args: dict[str, Any], tool_context: ToolContext) -> bool:  # noqa: ARG002
        return True


@google_adk_2
async def test_an_agent_as_a_tool_runs_with_its_arguments_once_it_may() -> None:
    clerk = LlmAgent(name="wipe", description="Wipes disks.", model=model("wipe"), tools=own_tools())
    at = only(Guarded(clerk))
    at.root.before_model_callback = calling("wipe", {"request": "please lookup files"})
    asked = await at.asks("please wipe sda")
    await at.answer(asked, {"confirmed": True, "payload": {"request": "please lookup disks"}})
    (result,) = [one for one in results(await at.events(), "wipe") if "error" not in one]
    assert "lookup disks" in str(result)


def calling(name: str, args: JsonObject) -> Callable[..., LlmResponse | None]:
    """Whatever it was told, the model calls this; after that it is itself again."""

    def called(callback_context: CallbackContext, llm_request: LlmRequest) -> LlmResponse | None:
        if any(part.function_response for part in llm_request.contents[-1].parts or ()):
            return None
        call = types.Part(function_call=types.FunctionCall(name=name, args=args))
        return LlmResponse(content=types.Content(role="model", parts=[call]))

    return called


async def test_what_is_gated_within_an_agent_that_is_a_tool_does_not_run() -> None:
    """google-adk can't ask from in there: its session is gone with the call."""
    deploys = calling("deploy", {"service": "search"})
    at = only(AgentTool(LlmAgent(name="wipe", model=model("wipe"), tools=own_tools(), before_model_callback=deploys)))
    at.root.before_model_callback = calling("wipe", {"request": "search"})
    said = await at.say("please wipe sda")
    assert len(results(said, "wipe")) == 1
    assert ran() == []


class Listens(BasePlugin):
    heard: list[Event]

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> None:  # noqa: ARG002
        self.heard.append(event)


async def test_other_plugins_hear_of_what_is_asked() -> None:
    listens = Listens(name="listens")
    listens.heard = []
    at = only(gated(awaited), ConfirmationPlugin(unsigned=True), listens)
    asked = await at.asks("please wipe sda")
    assert any(announcement_about(event.custom_metadata, asked.call_id) for event in listens.heard)


async def test_two_of_ours_are_as_good_as_one() -> None:
    """An app's own, and one more from `--extra_plugins`."""
    at = only(gated(awaited), ConfirmationPlugin(secret="s" * 16), ConfirmationPlugin(unsigned=True, name="extra"))
    asked = await at.asks("please wipe sda")
    announcements = [
        found for event in await at.events() if (found := announcement_about(event.custom_metadata, asked.call_id))
    ]
    assert [one.signed for one in announcements] == [True]
    with pytest.raises(RuntimeError, match="Not signed"):
        await at.answer(asked, {"confirmed": True})
    assert ran() == []


async def test_schemas_are_announced_with_their_types() -> None:
    asked = await only(gated(with_context)).asks("please wipe sda")
    assert asked.announcement is not None
    assert asked.announcement.schema is not None
    properties = asked.announcement.schema["properties"]
    assert isinstance(properties, dict)
    assert list(properties) == ["disk"]  # and not the tool's context
    assert "'type': 'string'" in str(properties["disk"])
