"""What the app asks of a workspace that installs it. `manifest.yml` says why each scope and event is needed."""

from __future__ import annotations

SCOPES = frozenset(
    {
        "app_mentions:read", "chat:write", "commands", "channels:history", "groups:history", "im:history",
        "channels:read", "groups:read", "im:write", "users:read", "users:read.email", "usergroups:read", "files:read",
        "files:write",
    }
)  # fmt: skip
EVENTS = frozenset(
    {
        "app_mention", "app_home_opened", "message.channels", "message.groups", "message.im",
        "app_uninstalled", "team_access_granted", "team_access_revoked", "tokens_revoked", "user_change",
    }
)  # fmt: skip
AGENT_SCOPES = frozenset({"assistant:write"})
"""What an app that is declared as an agent needs as well. Without it only the suggested prompts are missing."""
AGENT_EVENTS = frozenset({"agent_session_stopped", "app_context_changed"})
