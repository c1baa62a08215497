"""Finds out who this app is, and which workspace it serves."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.config.settings import Settings
from bot.slack.outbound.errors import PATIENT, Later, trouble_from
from runtime.rest.listening import CannotServe

log = logging.getLogger(__name__)


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
    if answer.get("is_enterprise_install"):
        raise CannotServe(
            "SLACK_BOT_TOKEN belongs to an organisation, and one process serves one workspace. "
            "Install the app in a workspace, and take that token."
        )
    return BotIdentity(str(answer["team_id"]), str(answer["user_id"]), str(answer.get("bot_id") or ""))
