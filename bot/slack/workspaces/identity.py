"""Finds out the app's identity in the only workspace, if the environment has a token."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.config.settings import Settings
from bot.slack.outbound.errors import Later, trouble_from
from runtime.rest.listening import CannotServe

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BotIdentity:
    """Who this app is, and where it is installed: a workspace, or all of an organisation."""

    team: str
    user: str
    bot: str
    enterprise: str | None = None

    def serves(self, enterprise: str | None, team: str | None) -> bool:
        return team == self.team or (self.enterprise is not None and enterprise == self.enterprise)


def slack_client(settings: Settings) -> AsyncWebClient:
    """A client without the SDK's own retries, which post twice if an answer is lost."""
    token = settings.environment.bot_token
    assert token is not None
    return AsyncWebClient(token.get_secret_value(), base_url=settings.environment.api_url, retry_handlers=[])


async def identify(client: AsyncWebClient) -> BotIdentity:
    """Asks Slack who the app is. Tries for a while, since Slack may be down for the same reason for which this process
    was restarted."""
    for pause in (1.0, 2.0, 4.0, 8.0, None):
        try:
            answer = await client.auth_test()
            break
        except (SlackApiError, aiohttp.ClientError, OSError) as error:
            trouble = trouble_from("auth.test", error, repeatable=True)
            if not isinstance(trouble, Later):
                raise CannotServe(
                    f"Slack refused SLACK_BOT_TOKEN ({trouble.code}). Install the app again and take its new token."
                ) from None
            if pause is None:
                raise CannotServe(
                    f"Slack could not be reached at {client.base_url} ({trouble.code}). Check the network."
                ) from error
            log.warning("%s", trouble)
        await asyncio.sleep(pause)
    everywhere = answer["enterprise_id"] if answer.get("is_enterprise_install") else None
    return BotIdentity(str(answer["team_id"]), str(answer["user_id"]), str(answer.get("bot_id") or ""), everywhere)
