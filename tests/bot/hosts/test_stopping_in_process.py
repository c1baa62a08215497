"""A run of google-adk in the bot's process is stopped: google-adk notes it, and an approved call has no result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.adk.tools.function_tool import FunctionTool

from adk_confirm import ConfirmationPlugin
from adk_confirm.bot.hosts.adk_in_process import AdkServer
from adk_confirm.runtime.jsontypes import JsonObject, as_object
from adk_confirm.runtime.wire import Content, FunctionResponse, Part, SessionId
from tests.support.foreign.alone import USER, Alone, ran
from tests.support.foreign.tools import log as write

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself


class Lingering:
    def __init__(self) -> None:
        self.begun, self.patient = threading.Event(), True

    async def linger(self, word: str) -> dict[str, str]:
        """Takes its time, at first."""
        write("linger", begun=word)
        self.begun.set()
        if self.patient:
            await asyncio.Event().wait()
        return {"word": word}


@pytest.fixture
async def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lingering:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    return Lingering()


@pytest.fixture
async def server(request: pytest.FixtureRequest, tool: Lingering) -> AsyncIterator[AdkServer]:
    at = Alone(ConfirmationPlugin(unsigned=True), resumable=True)
    at.root.tools = [FunctionTool(tool.linger, require_confirmation=request.param)]
    server = AdkServer(at.runner)
    await server.create(SESSION)
    yield server
    await server.close()


SESSION = SessionId("clerk", USER, "stopped")


async def read(server: AdkServer, part: Part) -> list[JsonObject]:
    return [one async for one in server.run(SESSION, Content(role="user", parts=[part]), {})]


async def stop(reading: asyncio.Task[list[JsonObject]], tool: Lingering) -> None:
    await asyncio.to_thread(tool.begun.wait)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


def responses(events: list[JsonObject] | None) -> list[str]:
    return [
        str(part["functionResponse"]) for event in events or [] for part in parts(event) if "functionResponse" in part
    ]


def parts(event: JsonObject) -> list[JsonObject]:
    content = event.get("content")
    found = content.get("parts") if isinstance(content, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


@pytest.mark.parametrize("server", [False], indirect=True)
async def test_google_adk_notes_the_stop_in_the_session(server: AdkServer, tool: Lingering) -> None:
    await stop(asyncio.create_task(read(server, Part(text="please linger long"))), tool)
    events = await server.events(SESSION)
    assert events is not None
    assert events[-1]["errorCode"] == "INVOCATION_ABORTED"


@pytest.mark.parametrize("server", [True], indirect=True)
async def test_an_approved_call_that_was_cancelled_has_no_result_and_runs_when_people_say_so(
    server: AdkServer, tool: Lingering
) -> None:
    asked = await read(server, Part(text="please linger long"))
    calls = [as_object(one["functionCall"]) for event in asked for one in parts(event) if "functionCall" in one]
    (request,) = {call["id"] for call in calls if call["name"] == "adk_request_confirmation"}
    yes = Part(
        function_response=FunctionResponse(
            id=str(request), name="adk_request_confirmation", response={"confirmed": True}
        )
    )
    await stop(asyncio.create_task(read(server, yes)), tool)
    events = await server.events(SESSION)
    assert [one for one in responses(events) if "linger" in one and "requires confirmation" not in one] == []

    tool.patient = False
    assert "'word': 'long'" in str(responses(await read(server, yes)))
    assert ran() == [{"tool": "linger", "begun": "long"}] * 2
