"""A google-adk Runner with our plugin and without the bot: tests send answers by hand, real and forged."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types

from adk_confirm.runtime.adk.session_requests import SessionRequest, requests_in_event
from adk_confirm.runtime.jsontypes import JsonObject
from tests.support.foreign.google import agent

USER = "slack-T1-U0ANN"
_numbers = count(1)


class Alone:
    """`session` is the current conversation; `log` has what the tools wrote."""

    def __init__(
        self, *plugins: BasePlugin, resumable: bool = False, sessions: BaseSessionService | None = None
    ) -> None:
        self.root: LlmAgent = agent("clerk")
        config = ResumabilityConfig(is_resumable=True) if resumable else None
        self.app = App(name="clerk", root_agent=self.root, plugins=list(plugins), resumability_config=config)
        self.runner = Runner(app=self.app, session_service=sessions or InMemorySessionService())
        self.session = f"s{next(_numbers)}"

    async def say(self, text: str) -> list[Event]:
        if not await self.stands():
            await self.begin()
        return await self.tell(types.Part(text=text))

    async def asks(self, text: str) -> SessionRequest:
        (asked,) = [one for event in await self.say(text) for one in requests_in_event(event)]
        return asked

    async def answer(self, asked: SessionRequest, response: JsonObject) -> list[Event]:
        given = types.FunctionResponse(id=asked.request, name="adk_request_confirmation", response=response)
        return await self.tell(types.Part(function_response=given))

    async def tell(self, *parts: types.Part) -> list[Event]:
        message = types.Content(role="user", parts=list(parts))
        running = self.runner.run_async(user_id=USER, session_id=self.session, new_message=message)
        return [event async for event in running]

    async def resume(self, invocation: str) -> list[Event]:
        running = self.runner.run_async(user_id=USER, session_id=self.session, invocation_id=invocation)
        return [event async for event in running]

    async def begin(self, *events: Event) -> None:
        """Creates a session that already has these events, as ADK's server does for anybody."""
        made = await self.runner.session_service.create_session(app_name="clerk", user_id=USER, session_id=self.session)
        for event in events:
            await self.runner.session_service.append_event(made, event)

    async def events(self) -> list[Event]:
        found = await self.runner.session_service.get_session(app_name="clerk", user_id=USER, session_id=self.session)
        assert found is not None
        return list(found.events)

    async def stands(self) -> bool:
        return (
            await self.runner.session_service.get_session(app_name="clerk", user_id=USER, session_id=self.session)
            is not None
        )


def ran() -> list[JsonObject]:
    log = Path(os.environ["TOOL_LOG"])
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def results(events: Sequence[Event], tool: str) -> list[dict[str, Any]]:
    """The responses of a tool."""
    responses = [response for event in events for response in event.get_function_responses()]
    return [response.response or {} for response in responses if response.name == tool]
