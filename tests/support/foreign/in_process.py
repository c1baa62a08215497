"""google-adk agents as the targets of `[agent] target`."""

from __future__ import annotations

from google.adk.apps import App
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from tests.support.foreign.google import agent

clerk = agent("clerk")
app = App(name="office", root_agent=agent("clerk"))
runner = Runner(
    app=App(name="shop", root_agent=agent("clerk")),
    session_service=InMemorySessionService(),
)
no_agent = InMemorySessionService()
