"""This app, as its manifest describes it to Slack."""

from __future__ import annotations

from adk_confirm.bot.slack.own_identity import AGENT_EVENTS, AGENT_SCOPES, EVENTS, SCOPES
from adk_confirm.sandbox.workspace.registration import App


def our_app() -> App:
    return App(
        "adk-confirm",
        id="A0ADKCONFIRM",
        scopes=SCOPES | AGENT_SCOPES,
        events=EVENTS | AGENT_EVENTS,
        commands=frozenset({"/approvals"}),
    )
