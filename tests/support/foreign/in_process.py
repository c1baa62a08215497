"""Agents of google-adk and of our own, as targets of `[agent] target`. Each look-up makes a new one, because an agent
belongs to one event loop."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from google.adk.apps.app import App
from google.adk.runners import Runner
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.function_tool import FunctionTool

from adk_confirm import ConfirmationPlugin
from tests.support.foreign import ours
from tests.support.foreign.google import agent, app
from tests.support.foreign.tools import log

SECRET = "the agent's own, and the bot finds it"


def linger(word: str) -> dict[str, object]:
    """Blocks the event loop for a while."""
    log("linger", begun=word)
    with open(f"{os.environ['TOOL_FIFO']}-{word}") as fifo:
        fifo.read()
    log("linger", ended=word)
    return {"word": word}


def _stalling_agent() -> Any:
    made = agent("stalling")
    made.tools = [FunctionTool(linger, require_confirmation=True)]
    return made


def _misnamed_agent() -> Any:
    made = agent("clerk")
    made.name = "user"
    return made


MADE: dict[str, Callable[[], object]] = {
    "clerk": lambda: agent("clerk"),
    "clerk_app": lambda: app("clerk"),
    "filer_app": lambda: app("filer"),
    "front_app": lambda: app("front"),
    "fork_app": lambda: app("fork"),
    "stalling": _stalling_agent,
    "office": lambda: app("office"),
    "shop": lambda: Runner(app=app("shop"), session_service=InMemorySessionService()),
    "kept": lambda: Runner(app=app("clerk"), session_service=DatabaseSessionService(os.environ["SESSIONS"])),
    "guarded": lambda: App(
        name="guarded", root_agent=agent("clerk"), plugins=[ConfirmationPlugin(secret=SECRET, name="theirs")]
    ),
    "unnameable": _misnamed_agent,
    "no_agent": InMemorySessionService,
    "own_clerk": lambda: ours.agent("clerk"),
    "own_filer": lambda: ours.agent("filer"),
    "own_front": lambda: ours.agent("front"),
}


def __getattr__(name: str) -> object:
    if name not in MADE:
        raise AttributeError(name)
    return MADE[name]()
