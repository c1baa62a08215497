"""This app, as its manifest describes it to Slack."""

from __future__ import annotations

from bot.sandbox.workspace.registration import App
from bot.slack.identity import AGENT_EVENTS, AGENT_SCOPES, EVENTS, SCOPES


def our_app() -> App:
    return App(
        "adk-confirm",
        id="A0ADKCONFIRM",
        scopes=SCOPES | AGENT_SCOPES,
        events=EVENTS | AGENT_EVENTS,
        commands=frozenset({"/approvals"}),
    )
