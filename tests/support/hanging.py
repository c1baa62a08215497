"""An agent that hangs in every possible way: in its tools, and in its model in the middle of a reply.

It goes on once the file that LAB_GATE names exists. Each tool leaves a line in the log when it begins and when it ends.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

from adk_confirm import Agent, Content, FunctionTool, ModelRequest, ModelResponse, Part, ScriptedModel
from tests.support.lab import reply

_LOOK_AGAIN = 0.02


def _is_stuck() -> bool:
    return not Path(os.environ["LAB_GATE"]).exists()


def _log(line: str) -> None:
    with Path(os.environ["ADK_CONFIRM_DEMO_LOG"]).open("a", encoding="utf-8") as file:
        file.write(f'{{"tool": "{line}"}}\n')


async def waits() -> str:
    """Hangs in a task."""
    _log("begins")
    while _is_stuck():
        await asyncio.sleep(_LOOK_AGAIN)
    _log("ends")
    return "waited"


def sleeps() -> str:
    """Hangs in a thread."""
    _log("begins")
    while _is_stuck():
        time.sleep(_LOOK_AGAIN)
    _log("ends")
    return "slept"


async def freezes() -> str:
    """Holds up the whole event loop."""
    _log("begins")
    while _is_stuck():
        time.sleep(_LOOK_AGAIN)
    _log("ends")
    return "froze"


class Rambling(ScriptedModel):
    """For "ramble" it begins to speak and never ends. For "brood" it says nothing."""

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        while request.contents and request.contents[-1].text.startswith("brood") and _is_stuck():
            await asyncio.sleep(_LOOK_AGAIN)
        if request.contents and request.contents[-1].text.startswith("ramble"):
            while _is_stuck():
                yield ModelResponse(content=Content(role="model", parts=[Part(text="and then ")]), partial=True)
                await asyncio.sleep(0.1)
        async for response in super().generate(request):
            yield response


agent = Agent(
    name="hanging",
    model=Rambling(reply=reply),
    tools=[FunctionTool(tool, require_confirmation=True) for tool in (waits, sleeps, freezes)],
)
