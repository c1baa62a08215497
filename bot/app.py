"""The bot, composed: store, host, desk, worker, and Slack on either side, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from pydantic import SecretStr
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.web.async_client import AsyncWebClient

from blocks.verdict import notice_message
from bot.asides import Asides
from bot.attempts import StoredAttempts
from bot.cards import Cards
from bot.checkpointing import Checkpointing
from bot.checkpoints import PURPOSE
from bot.control import serve_control, socket_path
from bot.directory import Directory
from bot.dispatch import AckMeter, TimedApp
from bot.homes import Homes
from bot.hosts import open_host
from bot.hosts.host import Host
from bot.identity import CannotServe
from bot.inboxes import Inbox
from bot.installing import Installing
from bot.lifecycle import ForWhom, Lifecycle
from bot.listeners import Listeners
from bot.lists import Lists
from bot.mailroom import Mailroom
from bot.metrics import Metrics
from bot.opening import Openings
from bot.operating import operator_handlers
from bot.precedence import Precedence
from bot.probes import add_probes
from bot.readiness import Readiness, socket_probe, store_probe, task_probe
from bot.reloading import Reloading, ended
from bot.seal import Seal
from bot.sender import Sender
from bot.settings import Settings
from bot.slack_calls import Limits
from bot.stopping import LAST_REQUESTS, Mark, Stop
from bot.store import open_store
from bot.voice import Voice
from bot.voting import Rules
from bot.web import make_site
from bot.worker import Worker
from bot.workspaces import SeveralWorkspaces, Workspaces, open_workspaces
from runtime.database import Database

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bot:
    """A running bot: where it listens, and what it is made of. `work` ends only when it is told to, or fails."""

    url: str
    database: Database
    host: Host
    app: AsyncApp
    work: asyncio.Task[None]


@asynccontextmanager
async def running(
    settings: Settings,
    *,
    file: Path | None = None,
    clock: Callable[[], float] | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Bot]:
    """The bot, from the first event it can hear to the last row it attends. Raises a sentence if it can't start.

    `file`: where the settings come from; its policies are taken again when it changes. A `clock` replaces every clock
    there is, so that a day can pass in no time; `limits` are those of calls to Slack.
    """
    stop, readiness = Stop(), Readiness()
    async with AsyncExitStack() as stack:
        database = await open_store(settings.store_url, clock)
        stack.push_async_callback(stop.closed, "the store", database.close, Mark.STORE)
        readiness.watch("store", store_probe(database))
        metrics = Metrics(database)
        database.listen(metrics.heard)
        assert settings.agent is not None
        host = await open_host(settings.agent, database, clock, store_url=settings.store_url)
        stack.push_async_callback(stop.closed, "the agent", host.close, Mark.AGENT)
        rules = Rules(settings.policies, Seal(_secret(settings), "call"))
        reloading = None if file is None else Reloading(file, os.environ, rules)
        workspaces = await open_workspaces(settings, database)
        sender = Sender(
            workspaces.client_for,
            on_revoked=workspaces.revoked,
            limits=limits,
            meter=metrics,
            clock=clock or time.monotonic,
        )
        directory = Directory(sender, patience=(limits or Limits()).lookups, clock=clock or time.monotonic)
        cards = Cards(sender, directory, StoredAttempts(database), Voice(database, sender, clock or time.monotonic))
        openings = Openings(database, directory, rules, workspaces.unfit)
        mailroom = Mailroom(database, host, cards, openings, rules)
        inbox = Inbox(database, sender, directory, rules)
        homes, lists = Homes(database, sender, inbox), Lists(database, sender, inbox)
        clicks = Precedence()
        worker = Worker(database, mailroom, directory, cards, rules, others=[homes.kind], clicks=clicks)
        asides = Asides(database, sender, rules, homes, lists)
        listeners = Listeners(database, sender, directory, rules, lists, clicks, host.app)
        await stack.enter_async_context(
            serve_control(socket_path(settings.store_url), operator_handlers(database, rules, directory, reloading))
        )
        app = _bolt(settings, workspaces, metrics, clicks)
        listeners.register(app)
        asides.register(app)
        Lifecycle(directory, workspaces).register(app)
        site = make_site(app if settings.environment.signing_secret else None)
        add_probes(site, readiness, metrics)
        if isinstance(workspaces, SeveralWorkspaces):
            Installing(settings.environment, database, workspaces, rules).register(site)
        url = await _open_doors(stack, settings, site, stop)
        if settings.environment.app_token is not None:
            await _connect(stack, settings.environment.app_token, app, stop, readiness)
        log.info("for %s; agent %s; store %s", workspaces.described, host.app, database.url)
        attending = asyncio.create_task(worker.run(), name="adk-confirm-worker")
        watching = asyncio.create_task(homes.run(), name="adk-confirm-homes")
        closing = asyncio.create_task(workspaces.run(), name="adk-confirm-workspaces")
        checkpointing = _checkpointing(settings, database, sender, workspaces, clicks)
        sealing = asyncio.create_task(checkpointing.run(), name="adk-confirm-checkpoints")
        readiness.watch("worker", task_probe(attending))
        if reloading is not None:
            stack.push_async_callback(ended, asyncio.create_task(reloading.run(), name="adk-confirm-reloading"))
        readiness.started()
        try:
            yield Bot(url, database, host, app, attending)
        finally:
            stop.begin()
            readiness.stopping()
            worker.stop()
            homes.stop()
            workspaces.stop()
            others = (watching, closing, *(asyncio.create_task(aside.drain()) for aside in (asides, listeners)))
            await stop.ended(attending, *others, by=Mark.WORK, cancelled_by=Mark.CANCELLED, left=worker)
            checkpointing.stop()  # after the others: the last checkpoint covers what they did
            await stop.ended(sealing, by=Mark.CHECKPOINT, cancelled_by=Mark.CHECKPOINT)


def _checkpointing(
    settings: Settings, database: Database, sender: Sender, workspaces: Workspaces, clicks: Precedence
) -> Checkpointing:
    """Checkpoints go to the log, and to a channel where one is named."""
    channel = settings.audit.channel

    async def post(text: str) -> None:
        assert channel is not None
        await sender.post(workspaces.named(settings.audit.team), channel, notice_message(text))

    seal = Seal(_secret(settings), PURPOSE)
    return Checkpointing(database, seal, settings.audit.checkpoint_every, post if channel else None, clicks)


def _bolt(settings: Settings, workspaces: Workspaces, meter: AckMeter, clicks: Precedence) -> AsyncApp:
    secret = settings.environment.signing_secret

    async def authorize(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult | None:
        """Bolt looks at its parameters, and would take a method's `self` for one of them."""
        return await workspaces.authorize(enterprise_id, team_id)

    return TimedApp(
        meter,
        clicks,
        # Without a token of its own: with one, Bolt asks Slack before the first click, and acks it when that fails.
        client=AsyncWebClient(base_url=settings.environment.api_url, retry_handlers=[]),
        before_authorize=ForWhom(),
        authorize=authorize,  # None is its word for a workspace without the app
        user_facing_authorize_error_message="This app is not installed in your workspace: nothing was done.",
        signing_secret=secret.get_secret_value() if secret else None,
        request_verification_enabled=secret is not None,
        ssl_check_enabled=False,
        # A listener does one transaction and then acks; one that fails must answer 500, so that Slack tries again.
        process_before_response=True,
        raise_error_for_unhandled_request=False,
    )


async def _open_doors(stack: AsyncExitStack, settings: Settings, site: web.Application, stop: Stop) -> str:
    """HTTP for events when there is a signing secret, and in any case for whoever looks after the bot."""
    slack = settings.slack
    served = web.AppRunner(site, access_log=None, shutdown_timeout=LAST_REQUESTS)
    await served.setup()
    stack.push_async_callback(stop.closed, "the listener", served.cleanup, Mark.REQUESTS)
    try:
        await web.TCPSite(served, slack.host, slack.port).start()
    except OSError as error:
        raise CannotServe(f"Nothing can listen at {slack.listen}: {error.strerror}. Set slack.listen.") from error
    port = served.addresses[0][1]
    return f"http://{slack.host}:{port}"


async def _connect(stack: AsyncExitStack, token: SecretStr, app: AsyncApp, stop: Stop, readiness: Readiness) -> None:
    handler = AsyncSocketModeHandler(app, token.get_secret_value())
    await handler.connect_async()  # type: ignore[no-untyped-call]  # Bolt gives it no types
    stack.push_async_callback(stop.closed, "Socket Mode", handler.close_async, Mark.SOCKET)
    readiness.watch("Slack", socket_probe(handler.client))


def _secret(settings: Settings) -> str:
    secret: SecretStr | None = settings.secret
    if secret is None:
        raise CannotServe("There is no secret to seal with: set ADK_CONFIRM_SECRET to 32 random characters.")
    return secret.get_secret_value()
