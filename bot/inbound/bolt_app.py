"""Starts Bolt, over signed HTTP or Socket Mode."""

from __future__ import annotations

from contextlib import AsyncExitStack

from aiohttp import web
from pydantic import SecretStr
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.web.async_client import AsyncWebClient

from bot.config.settings import Settings
from bot.inbound.dispatch import AckMeter, TimedApp
from bot.inbound.lifecycle import ForWhom
from bot.leasing.backpressure import Backpressure
from bot.slack.workspaces.tokens import Workspaces
from bot.telemetry.readiness import Readiness, socket_probe
from bot.worker.shutdown import LAST_REQUESTS, Stop, StopDeadline
from runtime.rest.listening import CannotServe, server_for


def bolt(settings: Settings, workspaces: Workspaces, meter: AckMeter, clicks: Backpressure) -> AsyncApp:
    secret = settings.environment.signing_secret

    async def authorize(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult | None:
        """A function, since Bolt looks at parameters, and would take a method's `self` for one of them."""
        return await workspaces.authorize(enterprise_id, team_id)

    return TimedApp(
        meter,
        clicks,
        # Without a token of its own: with one, Bolt asks Slack before the first click, and still acks it if that fails.
        client=AsyncWebClient(base_url=settings.environment.api_url, retry_handlers=[]),
        before_authorize=ForWhom(),
        authorize=authorize,  # Bolt expects None for a workspace without the app
        user_facing_authorize_error_message="This app is not installed in your workspace: nothing was done.",
        signing_secret=secret.get_secret_value() if secret else None,
        request_verification_enabled=False,  # `http` has checked it over the bytes, before anything else
        ssl_check_enabled=False,
        # A listener does one transaction and then acks. One that fails must answer 500, so that Slack tries again.
        process_before_response=True,
        raise_error_for_unhandled_request=False,
    )


async def listen(stack: AsyncExitStack, settings: Settings, site: web.Application, stop: Stop) -> str:
    """HTTP for Slack's events if there is a signing secret, and always for the operator's probes."""
    slack = settings.slack
    served = server_for(site, shutdown_timeout=LAST_REQUESTS)
    await served.setup()
    stack.push_async_callback(stop.closed, "the listener", served.cleanup, StopDeadline.REQUESTS)
    try:
        await web.TCPSite(served, slack.host, slack.port).start()
    except OSError as error:
        raise CannotServe(f"Nothing can listen at {slack.listen}: {error.strerror}. Set slack.listen.") from error
    port = served.addresses[0][1]
    return f"http://{slack.host}:{port}"


async def connect(stack: AsyncExitStack, token: SecretStr, app: AsyncApp, stop: Stop, readiness: Readiness) -> None:
    handler = AsyncSocketModeHandler(app, token.get_secret_value())
    await handler.connect_async()  # type: ignore[no-untyped-call]  # Bolt gives it no types
    stack.push_async_callback(stop.closed, "Socket Mode", handler.close_async, StopDeadline.SOCKET)
    readiness.watch("Slack", socket_probe(handler.client))
