"""The app under test, as its manifest and its settings page describe it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from bot.slack.identity import AGENT_EVENTS, AGENT_SCOPES, EVENTS, SCOPES


@dataclass(frozen=True, slots=True)
class App:
    id: str = "A0ADKCONFIRM"
    name: str = "adk-confirm"
    signing_secret: str = field(default_factory=lambda: secrets.token_hex(16))
    app_token: str = field(default_factory=lambda: f"xapp-1-{secrets.token_hex(16)}")
    verification_token: str = field(default_factory=lambda: secrets.token_hex(12))
    is_agent: bool = True
    scopes: frozenset[str] = SCOPES | AGENT_SCOPES
    events: frozenset[str] = EVENTS | AGENT_EVENTS
    commands: frozenset[str] = frozenset({"/approvals"})
    home_enabled: bool = True
