"""The app under test, as its manifest and its settings page describe it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from bot.slack.scopes import EVENTS, SCOPES


@dataclass(frozen=True, slots=True)
class App:
    id: str = "A0ADKCONFIRM"
    name: str = "adk-confirm"
    client_id: str = "1000.2000"
    client_secret: str = field(default_factory=lambda: secrets.token_hex(16))
    signing_secret: str = field(default_factory=lambda: secrets.token_hex(16))
    app_token: str = field(default_factory=lambda: f"xapp-1-{secrets.token_hex(16)}")
    verification_token: str = field(default_factory=lambda: secrets.token_hex(12))
    scopes: frozenset[str] = SCOPES
    events: frozenset[str] = EVENTS
    commands: frozenset[str] = frozenset({"/approvals"})
    home_enabled: bool = True
    redirect_urls: tuple[str, ...] = ()
    """Where people may be sent after they have allowed the app. Without any, no other workspace can install it."""
