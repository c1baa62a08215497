"""The scopes and events that the app needs. `manifest.yml` says why it needs each."""

from __future__ import annotations

from bot.config.settings import Slack

SCOPES = frozenset(
    {
        "app_mentions:read", "chat:write", "commands", "channels:history", "groups:history", "im:history",
        "channels:read", "groups:read", "im:write", "users:read", "users:read.email", "usergroups:read", "files:read",
    }
)  # fmt: skip
EVENTS = frozenset(
    {
        "app_mention", "app_home_opened", "message.channels", "message.groups", "message.im",
        "user_change",
    }
)  # fmt: skip
AGENT_SCOPES = frozenset({"assistant:write"})
"""What an app that is declared as an agent needs as well. Without it only the suggested prompts are missing."""
AGENT_EVENTS = frozenset({"agent_session_stopped", "app_context_changed"})


def scopes_for(slack: Slack) -> frozenset[str]:
    """The scopes that these settings need. Suggested prompts have one of their own."""
    return SCOPES | (AGENT_SCOPES if slack.prompts else frozenset())
