"""What a tool of google-adk would do is announced with the request, and looked at again before it runs."""

from __future__ import annotations

from typing import Any

import pytest

from adk_confirm.runtime.adk_plugin import PREVIEW_CHANGED, ConfirmationPlugin
from adk_confirm.runtime.jsontypes import JsonObject, as_object
from tests.runtime.adk.test_adk_arguments import P, called, delete_project, gated
from tests.support.foreign.alone import USER, ran, results

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself

live = {"files": "3 files"}


async def plan(project: str, recursive: bool = True) -> str:
    return f"{live['files']} of {project}, {recursive}"


def fails() -> None:
    raise ConnectionError("no route")


def previewing(preview: Any) -> Any:
    return called(gated(delete_project), P, ConfirmationPlugin(unsigned=True, previews={"delete": preview}))


async def test_it_is_announced_with_the_defaults_that_the_tool_gets_and_the_call_runs() -> None:
    at = previewing(plan)
    asked = await at.asks("please delete payments")
    assert asked.announcement.preview == {"shows": "3 files of payments, True"}
    assert not asked.announcement.edits, "nobody would see what the edited call does"
    await at.answer(asked, {"confirmed": True})
    assert [one["deleted"] if "deleted" in one else one["project"] for one in ran()] == ["payments"]


async def test_if_it_has_changed_nothing_runs_and_the_agent_is_told_to_call_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = previewing(plan)
    asked = await at.asks("please delete payments")
    monkeypatch.setitem(live, "files", "9,000 files")
    events = await at.answer(asked, {"confirmed": True})
    (result,) = results(events, "delete")
    assert (result, ran()) == ({"error": PREVIEW_CHANGED}, [])


async def test_one_that_takes_whatever_there_is_gets_all_of_it() -> None:
    def whole(**args: object) -> str:
        return ", ".join(sorted(args))

    asked = await previewing(whole).asks("please delete payments")
    assert asked.announcement.preview == {"shows": "force, project, recursive, window"}


async def test_it_changes_neither_the_session_nor_the_call() -> None:
    def meddles(window: Any, tool_context: Any) -> str:
        tool_context.session.state.setdefault("seen", []).append("nested")
        window["hours"] = 99
        with pytest.raises(TypeError):
            tool_context.state["owner"] = "mallory"
        assert not hasattr(tool_context, "actions")
        return "nothing"

    plugin = ConfirmationPlugin(unsigned=True, previews={"delete": meddles})
    at: Any = called(gated(delete_project), {**P, "window": {"hours": 1}}, plugin)
    asked = await at.asks("please delete payments")
    assert asked.announcement.preview == {"shows": "nothing"}
    await at.answer(asked, {"confirmed": True})
    assert [as_object(one["window"])["hours"] for one in ran()] == [1]
    sessions = at.runner.session_service
    session = await sessions.get_session(app_name="clerk", user_id=USER, session_id=at.session)
    assert session is not None
    assert session.state == {}


async def test_one_that_fails_says_so() -> None:
    asked = await previewing(fails).asks("please delete payments")
    failed: JsonObject = {"failed": "ConnectionError: no route"}
    assert asked.announcement.preview == failed
