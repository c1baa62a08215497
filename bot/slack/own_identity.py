"""Who this app is, which workspace it serves, and the scopes and events that it needs (`manifest.yml` says why)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from slack_sdk.web.async_client import AsyncWebClient

from adk_confirm.bot.config.settings import Settings
from adk_confirm.bot.config.settings import Slack as SlackSettings
from adk_confirm.bot.slack.troubles import PATIENT, UNANSWERED, Later, trouble_from
from adk_confirm.runtime.rest.listening import CannotServe

log = logging.getLogger(__name__)


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


APP_TOKEN_FIXES = {
    "invalid_auth": "was not accepted: make an app-level token with connections:write, under Basic Information",
    "not_allowed_token_type": "is not an app-level token: it begins with xapp-, and is made under Basic Information",
    "missing_scope": "lacks connections:write: make a new one with it, under Basic Information",
    "socket_mode_not_enabled": "can't be used while Socket Mode is switched off: turn it on in the app's settings",
}
"""By Slack's code: what to do if it opens no connection for Socket Mode."""


def scopes_for(slack: SlackSettings) -> frozenset[str]:
    """The scopes that these settings need. Suggested prompts have one of their own."""
    return SCOPES | (AGENT_SCOPES if slack.prompts else frozenset())


@dataclass(frozen=True)
class BotIdentity:
    """Who this app is, and the workspace in which it is installed."""

    team: str
    user: str
    bot: str


def slack_client(settings: Settings, *, patient: bool = False) -> AsyncWebClient:
    """A client without the SDK's own retries, which post twice if an answer is lost. `patient`: for a command, which
    has no limits of its own and waits as long as Slack says."""
    token = settings.environment.bot_token
    value = None if token is None else token.get_secret_value()
    again = PATIENT if patient else []
    return AsyncWebClient(value, base_url=settings.environment.api_url, retry_handlers=again)


async def identify(client: AsyncWebClient) -> BotIdentity:
    """Asks Slack who the app is. Tries for a while, since Slack may be down for the same reason for which this process
    was restarted."""
    for pause in (1.0, 2.0, 4.0, 8.0, None):
        try:
            answer = await client.auth_test()
            break
        except UNANSWERED as error:
            trouble = trouble_from("auth.test", error, repeatable=True)
            if not isinstance(trouble, Later):
                raise CannotServe(
                    f"Slack refused SLACK_BOT_TOKEN ({trouble.code}). Install the app again and take its new token."
                ) from None
            if pause is None:
                raise CannotServe(
                    f"Slack could not be reached at {client.base_url} ({trouble.code}). Check the network."
                ) from error
            log.warning("%s", Later(trouble.method, pause, trouble.code))
        await asyncio.sleep(pause)
    if answer.get("is_enterprise_install"):
        raise CannotServe(
            "SLACK_BOT_TOKEN belongs to an organisation, and one process serves one workspace. "
            "Install the app in a workspace, and take that token."
        )
    return BotIdentity(str(answer["team_id"]), str(answer["user_id"]), str(answer.get("bot_id") or ""))
