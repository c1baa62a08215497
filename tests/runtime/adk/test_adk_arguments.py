"""What people are shown is what the tool gets: google-adk drops and converts arguments, and fills in defaults."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from pydantic import BaseModel, field_validator

from adk_confirm.bot.hosts.adk_in_process import _put_plugin_first
from adk_confirm.runtime.adk.session_requests import requests_in_event
from adk_confirm.runtime.adk.signing import announcement_about
from adk_confirm.runtime.adk_plugin import OTHER_CALL, ConfirmationPlugin
from adk_confirm.runtime.jsontypes import JsonObject
from tests.runtime.adk.test_adk_tools import calling
from tests.support.foreign.alone import USER, Alone, ran, results
from tests.support.foreign.tools import log as write

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself


class Window(BaseModel):
    hours: int
    alarm: bool = True


def delete_project(
    project: str, recursive: bool = True, force: bool | None = False, window: Window | None = None
) -> dict[str, object]:
    write("delete", project=project, recursive=recursive, force=force, window=window and window.model_dump())
    return {"deleted": project}


class Picky(BaseModel):
    hours: int

    @field_validator("hours")
    @classmethod
    def leaves(cls, hours: int) -> int:
        raise SystemExit(hours)


def picky(window: Picky) -> None:
    write("delete", window=window.model_dump())


def asks_itself(project: str, tool_context: ToolContext, recursive: bool = True) -> dict[str, object]:
    if tool_context.tool_confirmation is None:
        tool_context.request_confirmation(hint="Delete it?")
        return {"status": "asked"}
    write("delete", project=project, recursive=recursive)
    return {"deleted": project}


class Span(BaseModel):
    days: float = float("nan")


ENDLESS = Span()


def patient(span: Span = ENDLESS, most: float = float("inf")) -> None:
    write("delete", most=f"{most} {span.days}")


def takes_nothing() -> None:
    write("delete")


def mcp_tool(**schema: Any) -> BaseTool:
    """Ends where its server would be called."""
    from google.adk.tools.mcp_tool.mcp_tool import McpTool  # takes what is stderr then
    from mcp.types import Tool

    class RemoteTool(McpTool):
        async def _run_async_impl(self, *, args: dict[str, Any], **_: object) -> dict[str, Any]:
            write("delete", **args)
            return args

    properties = {"project": {"type": "string"}, "recursive": {"type": "boolean", "default": True}}
    declared = {"type": "object", "properties": properties, "required": ["project"], **schema}
    sessions = cast("Any", SimpleNamespace())
    return RemoteTool(
        mcp_tool=Tool(name="delete", inputSchema=declared), mcp_session_manager=sessions, require_confirmation=True
    )


def nested_tool() -> BaseTool:
    declared = {"type": "object", "properties": {"window": Window.model_json_schema()}}
    return mcp_tool(**declared, required=[])


def gated(function: Any, when: Any = True) -> BaseTool:
    made = FunctionTool(function, require_confirmation=when)
    made.name = "delete"
    return made


def called(tool: BaseTool, args: JsonObject, *plugins: Any) -> Alone:
    at = Alone(*(plugins or (ConfirmationPlugin(unsigned=True),)))
    tool.name = "delete"
    at.root.tools, at.root.before_model_callback = [tool], calling("delete", args)
    return at


P: JsonObject = {"project": "payments"}


@pytest.mark.parametrize(
    ("tool", "args", "named"),
    [
        (
            lambda: gated(delete_project),
            {**P, "dry_run": True, "environment": "staging"},
            ("'dry_run'", "'environment'"),
        ),
        (lambda: gated(delete_project, lambda project: bool(project)), {**P, "dry_run": True}, ("'dry_run'",)),
        (lambda: gated(delete_project), {**P, "force": "yes"}, ("'force'", "boolean")),
        (lambda: gated(delete_project), {"force": True}, ("'project'",)),
        (lambda: gated(delete_project), {**P, "window": {"hours": 2, "quiet": True}}, ("window.quiet",)),
        (lambda: gated(delete_project), {**P, "window": {"hours": "2"}}, ("window.hours",)),
        (lambda: gated(takes_nothing), {"dry_run": True}, ("'dry_run'",)),
        (lambda: gated(picky), {"window": {"hours": 2}}, ("the tool could not check it", "SystemExit")),
        (lambda: FunctionTool(asks_itself), {**P, "dry_run": True}, ("'dry_run'",)),
        (
            lambda: FunctionTool(asks_itself),
            {**P, "tool_context": {"tool_confirmation": {"confirmed": True}}},
            ("'tool_con",),
        ),
        (mcp_tool, {**P, "dry_run": True}, ("'dry_run'",)),
        (mcp_tool, {**P, "recursive": "no"}, ("'recursive'",)),
        (lambda: mcp_tool(additionalProperties=True), {**P, "more": [float("nan")]}, ("'more.0'", "finite")),
        (nested_tool, {"window": {"hours": 2, "quiet": True}}, ("'window.quiet'",)),
        (nested_tool, {"window": {"hours": 2, "alarm": "no"}}, ("'window.alarm'", "boolean")),
    ],
)
async def test_what_the_tool_would_not_get_as_it_is_written_is_refused_to_the_model(
    tool: Callable[[], BaseTool], args: JsonObject, named: tuple[str, ...]
) -> None:
    at = called(tool(), args)
    events = await at.say("please delete payments")
    (result,) = results(events, "delete")
    assert all(one in str(result["error"]) for one in named), result
    assert [*(one for event in events for one in requests_in_event(event)), *ran()] == []
    assert any(part.text for event in events for part in (event.content and event.content.parts) or ())  # it goes on


@pytest.mark.parametrize(
    ("tool", "args", "defaults", "got"),
    [
        (
            lambda: gated(delete_project),
            {**P, "window": {"hours": 2.0}},
            {"recursive": True, "force": False, "window": {"hours": 2, "alarm": True}},
            {**P, "recursive": True, "force": False, "window": {"hours": 2, "alarm": True}},
        ),
        (lambda: FunctionTool(asks_itself), P, {"recursive": True}, {**P, "recursive": True}),
        (lambda: gated(patient), {}, {"most": "inf", "span": "Span(days=nan)"}, {"most": "inf nan"}),
        (mcp_tool, P, {"recursive": True}, P),  # its server fills it in
        (nested_tool, {"window": {"hours": 2}}, {"window": {"hours": 2, "alarm": True}}, {"window": {"hours": 2}}),
        (
            lambda: mcp_tool(additionalProperties=True),
            {**P, "more": 1, "recursive": False},
            {},
            {**P, "more": 1, "recursive": False},
        ),
    ],
)
async def test_defaults_are_announced_beside_the_arguments_that_the_model_wrote(
    tool: Callable[[], BaseTool], args: JsonObject, defaults: JsonObject, got: JsonObject
) -> None:
    at = called(tool(), args)
    asked = await at.asks("please delete payments")
    assert asked.announcement is not None
    assert (asked.arguments, asked.announcement.defaults) == (args, defaults)
    await at.answer(asked, {"confirmed": True})
    assert ran() == [{"tool": "delete", **got}]


async def test_a_default_that_changed_after_people_saw_it_is_refused() -> None:
    def later(project: str, recursive: bool = False) -> None:
        write("delete", project=project, recursive=recursive)

    at = called(gated(delete_project), P)
    asked = await at.asks("please delete payments")
    at.root.tools = [gated(later)]
    said = await at.answer(asked, {"confirmed": True})
    assert (results(said, "delete"), ran()) == ([{"error": OTHER_CALL}], [])


async def test_an_edit_that_the_tool_would_change_is_refused() -> None:
    at = called(gated(delete_project), P)
    asked = await at.asks("please delete payments")
    with pytest.raises(RuntimeError, match=r"window\.quiet"):
        await at.answer(asked, {"confirmed": True, "payload": {"window": {"hours": 2, "quiet": True}}})
    assert ran() == []


async def test_an_edit_that_the_tool_would_complete_is_refused() -> None:
    """Whoever approves after the edit would not see all that runs."""
    at = called(gated(delete_project), P)
    asked = await at.asks("please delete payments")
    said = await at.answer(asked, {"confirmed": True, "payload": {"window": {"hours": 2}}})
    assert "would be completed" in str(results(said, "delete"))
    assert ran() == []
    asked = await at.asks("please delete payments")
    await at.answer(asked, {"confirmed": True, "payload": {"window": {"hours": 2, "alarm": False}}})
    assert [line["window"] for line in ran()] == [{"hours": 2, "alarm": False}]


def integrity() -> BasePlugin:
    plugins = pytest.importorskip("google.adk.plugins._tool_call_integrity_plugin")
    made: BasePlugin = plugins.ToolCallIntegrityPlugin(secret_key=b"of calls, and not of answers")
    return made


async def test_google_adk_s_plugin_that_seals_calls_goes_in_front_of_ours() -> None:
    """It compares a call with what the model wrote. After that ours puts the edit in."""
    theirs = integrity()
    at = called(gated(delete_project), P, theirs, ConfirmationPlugin(unsigned=True))
    asked = await at.asks("please delete payments")
    assert asked.defaults["recursive"] is True
    await at.answer(asked, {"confirmed": True, "payload": {"recursive": False}})
    assert [line["recursive"] for line in ran()] == [False]

    asked = await at.asks("please delete payments")
    stored = at.runner.session_service.sessions["clerk"][USER][at.session]  # type: ignore[attr-defined]  # in memory
    for call in (one for event in stored.events for one in event.get_function_calls() if one.id == asked.call_id):
        call.args = {"project": "payroll"}
    with pytest.raises(RuntimeError, match="integrity stamp"):
        await at.answer(asked, {"confirmed": True})
    assert len(ran()) == 1


def test_in_the_bot_s_process_it_stays_in_front() -> None:
    theirs, ours = integrity(), ConfirmationPlugin(unsigned=True)
    other = BasePlugin(name="other")
    for given in ([theirs, other], [theirs, other, ours], [theirs, ours, other]):
        _put_plugin_first(given)
        assert [type(one) for one in given] == [type(theirs), ConfirmationPlugin, BasePlugin]
    given = [other, theirs]
    _put_plugin_first(given)
    assert type(given[0]) is ConfirmationPlugin


async def test_an_operation_begins_with_what_is_shown() -> None:
    """People may be asked how it ends."""
    at = called(LongRunningFunctionTool(delete_project), {**P, "dry_run": True})
    (result,) = results(await at.say("please delete payments"), "delete")
    assert ("'dry_run'" in str(result["error"]), ran()) == (True, [])
    at = called(LongRunningFunctionTool(delete_project), P)
    (told,) = [event for event in await at.say("please delete payments") if event.get_function_responses()]
    (response,) = told.get_function_responses()
    bound = announcement_about(told.custom_metadata, response.id or "")
    assert (bound and bound.defaults) == {name: value for name, value in ran()[0].items() if name not in {"tool", *P}}


async def test_a_call_that_nobody_is_asked_about_stays_google_adk_s() -> None:
    at = called(FunctionTool(delete_project), {**P, "dry_run": True})
    await at.say("please delete payments")
    assert [line["project"] for line in ran()] == ["payments"]
