"""The bot, composed: store, host, desk, worker, and Slack on either side, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from pydantic import SecretStr
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from blocks.verdict import notice_message
from bot.asides import Asides
from bot.attempts import StoredAttempts
from bot.cards import Cards
from bot.checkpointing import Checkpointing
from bot.checkpoints import PURPOSE
from bot.control import serve_control, socket_path
from bot.directory import Directory
from bot.homes import Homes
from bot.hosts import open_host
from bot.hosts.host import Host
from bot.inboxes import Inbox
from bot.lifecycle import Lifecycle
from bot.listeners import Listeners
from bot.lists import Lists
from bot.mailroom import Mailroom
from bot.opening import Openings
from bot.operating import operator_handlers
from bot.seal import Seal
from bot.sender import Sender
from bot.settings import Settings
from bot.slack_calls import Limits
from bot.slack_trouble import Later, trouble_from
from bot.store import open_store
from bot.voice import Voice
from bot.voting import Rules
from bot.web import make_site
from bot.worker import Worker
from runtime.database import Database
from runtime.errors import ConfirmError

log = logging.getLogger(__name__)


class CannotServe(ConfirmError):
    """The bot did not start; the message says what stands in its way."""


@dataclass(frozen=True)
class Bot:
    """A running bot: where it listens, and what it is made of."""

    url: str
    database: Database
    host: Host
    app: AsyncApp


@asynccontextmanager
async def running(
    settings: Settings, *, clock: Callable[[], float] | None = None, limits: Limits | None = None
) -> AsyncIterator[Bot]:
    """The bot, from the first event it can hear to the last row it attends. Raises a sentence if it can't start.

    A `clock` replaces every clock there is, so that a day can pass in no time; `limits` are those of calls to Slack.
    """
    async with AsyncExitStack() as stack:
        database = await open_store(settings.store_url, clock)
        stack.push_async_callback(database.close)
        assert settings.agent is not None
        host = await open_host(settings.agent, database, clock, store_url=settings.store_url)
        stack.push_async_callback(host.close)
        client = slack_client(settings)
        identity = await _identity(client)
        rules = Rules(settings.policies, Seal(_secret(settings), "call"))

        async def client_for(enterprise: str | None, team: str) -> AsyncWebClient:  # noqa: ARG001  (one workspace)
            return client

        sender = Sender(client_for, limits=limits, clock=clock or time.monotonic)
        directory = Directory(sender, patience=(limits or Limits()).lookups, clock=clock or time.monotonic)
        cards = Cards(sender, directory, StoredAttempts(database), Voice(database, sender, clock or time.monotonic))
        mailroom = Mailroom(database, host, cards, Openings(database, directory, settings.policies), rules)
        inbox = Inbox(database, sender, directory, settings.policies)
        homes, lists = Homes(database, sender, inbox), Lists(database, sender, inbox)
        worker = Worker(database, mailroom, directory, cards, rules, others=[homes.kind])
        asides = Asides(database, sender, rules, homes, lists)
        listeners = Listeners(database, sender, rules, lists, host.app)
        await stack.enter_async_context(
            serve_control(socket_path(settings.store_url), operator_handlers(database, rules, directory))
        )
        app = _bolt(settings, client, identity)
        asides.register(app)
        Lifecycle(database, directory).register(app)
        listeners.register(app)
        url = await _open_doors(stack, settings, app)
        log.info("connected to %s as %s; agent %s; store %s", identity.team, identity.user, host.app, database.url)
        attending = asyncio.create_task(worker.run(), name="adk-confirm-worker")
        watching = asyncio.create_task(homes.run(), name="adk-confirm-homes")
        checkpointing = _checkpointing(settings, database, sender, identity)
        sealing = asyncio.create_task(checkpointing.run(), name="adk-confirm-checkpoints")
        try:
            yield Bot(url, database, host, app)
        finally:
            worker.stop()
            homes.stop()
            await _ended(attending)
            await _ended(watching)
            checkpointing.stop()  # after the others: the last checkpoint covers what they did
            await _ended(sealing)
            await asides.drain()
            await listeners.drain()


def _checkpointing(settings: Settings, database: Database, sender: Sender, identity: Identity) -> Checkpointing:
    """Checkpoints go to the log, and to a channel where one is named."""
    channel = settings.audit.channel

    async def post(text: str) -> None:
        assert channel is not None
        await sender.post(identity.team, channel, notice_message(text))

    seal = Seal(_secret(settings), PURPOSE)
    return Checkpointing(database, seal, settings.audit.checkpoint_every, post if channel else None)


async def _ended(attending: asyncio.Task[None], patience: float = 8.0) -> None:
    """What was begun may end; what takes longer is left to its lease, and taken up at the next start."""
    await asyncio.wait({attending}, timeout=patience)
    if not attending.done():
        attending.cancel()
    with suppress(asyncio.CancelledError):
        await attending


def slack_client(settings: Settings) -> AsyncWebClient:
    """Without the SDK's own retries: they post twice when an answer is lost."""
    token = settings.environment.bot_token
    assert token is not None
    return AsyncWebClient(token.get_secret_value(), base_url=settings.environment.api_url, retry_handlers=[])


@dataclass(frozen=True)
class Identity:
    """Who this app is, and where: a workspace, or, installed in all of an organisation, that."""

    team: str
    user: str
    bot: str
    enterprise: str | None = None

    def serves(self, enterprise: str | None, team: str | None) -> bool:
        return team == self.team or (self.enterprise is not None and enterprise == self.enterprise)


async def _identity(client: AsyncWebClient) -> Identity:
    """Slack may be away for a moment, perhaps for the same reason for which we start."""
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
    return Identity(str(answer["team_id"]), str(answer["user_id"]), str(answer.get("bot_id") or ""), everywhere)


def _bolt(settings: Settings, client: AsyncWebClient, identity: Identity) -> AsyncApp:
    secret = settings.environment.signing_secret

    async def authorize(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult | None:
        """Asks nobody: a click must not be lost because Slack does not answer just now."""
        if not identity.serves(enterprise_id, team_id):
            return None
        return AuthorizeResult(
            enterprise_id=enterprise_id,
            team_id=team_id,
            bot_user_id=identity.user,
            bot_id=identity.bot,
            bot_token=client.token,
        )

    return AsyncApp(
        # Without a token of its own: with one, Bolt asks Slack before the first click, and acks it when that fails.
        client=AsyncWebClient(base_url=client.base_url, retry_handlers=[]),
        authorize=authorize,  # type: ignore[arg-type]  # None is Bolt's word for a workspace without the app
        user_facing_authorize_error_message="This app is not installed in your workspace: nothing was done.",
        signing_secret=secret.get_secret_value() if secret else None,
        request_verification_enabled=secret is not None,
        ssl_check_enabled=False,
        # A listener does one transaction and then acks; one that fails must answer 500, so that Slack tries again.
        process_before_response=True,
        raise_error_for_unhandled_request=False,
    )


async def _open_doors(stack: AsyncExitStack, settings: Settings, app: AsyncApp) -> str:
    """HTTP for events when there is a signing secret, and in any case for whoever looks after the bot."""
    slack, environment = settings.slack, settings.environment
    served = web.AppRunner(make_site(app if environment.signing_secret else None), access_log=None)
    await served.setup()
    stack.push_async_callback(served.cleanup)
    site = web.TCPSite(served, slack.host, slack.port)
    try:
        await site.start()
    except OSError as error:
        raise CannotServe(f"Nothing can listen at {slack.listen}: {error.strerror}. Set slack.listen.") from error
    if environment.app_token is not None:
        handler = AsyncSocketModeHandler(app, environment.app_token.get_secret_value())
        await handler.connect_async()  # type: ignore[no-untyped-call]  # Bolt gives it no types
        stack.push_async_callback(handler.close_async)
    port = served.addresses[0][1]
    return f"http://{slack.host}:{port}"


def _secret(settings: Settings) -> str:
    secret: SecretStr | None = settings.secret
    if secret is None:
        raise CannotServe("There is no secret to seal with: set ADK_CONFIRM_SECRET to 32 random characters.")
    return secret.get_secret_value()
