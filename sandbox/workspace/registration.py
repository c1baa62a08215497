"""The app under test, as its manifest and its settings page describe it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class App:
    name: str
    scopes: frozenset[str]
    events: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    id: str = "A0APP"
    signing_secret: str = field(default_factory=lambda: secrets.token_hex(16))
    app_token: str = field(default_factory=lambda: f"xapp-1-{secrets.token_hex(16)}")
    verification_token: str = field(default_factory=lambda: secrets.token_hex(12))
    is_agent: bool = True
    home_enabled: bool = True
