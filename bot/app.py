"""Starts and stops the bot. `parts.py` makes its parts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr
from slack_bolt.async_app import AsyncApp

from bot.config.reload import stop_watching
from bot.config.settings import Settings
from bot.hosts import open_host
from bot.hosts.host import Host
from bot.inbound.bolt_app import bolt, connect, listen
from bot.inbound.http import make_site
from bot.parts import Parts
from bot.slack.identity import identify, slack_client
from bot.slack.outbound.calls import CallLimits, slack_session
from bot.store.open import open_store
from bot.store.transactions import follow_call
from bot.telemetry.metrics import Metrics
from bot.telemetry.probes import add_probes
from bot.telemetry.readiness import Readiness, store_probe
from bot.telemetry.tracing import log_line
from bot.worker.shutdown import Shutdown, StopDeadline
from bot.worker.supervision import RestartPauses, Supervisor
from runtime.rest.listening import CannotServe
from runtime.store.database import Database

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bot:
    """A running bot: its address, and the parts that tests look at."""

    url: str
    database: Database
    host: Host
    app: AsyncApp


@asynccontextmanager
async def running_bot(
    settings: Settings,
    *,
    file: Path | None = None,
    clock: Callable[[], float] | None = None,
    limits: CallLimits | None = None,
    pauses: RestartPauses | None = None,
) -> AsyncIterator[Bot]:
    """The bot while it serves. Raises an error that says what to do if it can't start.

    `file`: the settings file, whose policies are read again when it changes. A `clock` replaces every clock, so that
    tests can let a day pass; `limits` are the limits of calls to Slack; `pauses` are those before a background task
    that failed is started again.
    """
    stop, readiness = Shutdown(), Readiness()
    async with AsyncExitStack() as stack:
        parts = await _open_parts(stack, stop, settings, file, clock, limits or CallLimits())
        readiness.watch("store", store_probe(parts.database))
        app = _bolt_with_listeners(parts)
        url = await _serve(stack, stop, readiness, parts, app)
        us = parts.identity
        log.info("for %s as %s; agent %s; store %s", us.team, us.user, parts.host.app, parts.database.url)
        async with _running_loops(stop, readiness, parts, pauses or RestartPauses()):
            yield Bot(url, parts.database, parts.host, app)


async def _open_parts(
    stack: AsyncExitStack,
    stop: Shutdown,
    settings: Settings,
    file: Path | None,
    clock: Callable[[], float] | None,
    limits: CallLimits,
) -> Parts:
    """The parts, after the store and the agent are open. They are closed with the stack."""
    secret = _secret(settings)
    database = await open_store(settings.store_url, secret, clock)
    stack.push_async_callback(stop.close_part, "the store", database.close, StopDeadline.STORE)
    metrics = Metrics(database)
    database.listen(metrics.heard)
    database.listen(log_line)
    assert settings.agent is not None
    host = await open_host(
        settings.agent, database, clock, store_url=settings.store_url, on_change=follow_call, lease=settings.lease
    )
    stack.push_async_callback(stop.close_part, "the agent", host.close, StopDeadline.AGENT)
    client = slack_client(settings)
    identity = await identify(client)
    session = slack_session()
    stack.push_async_callback(session.close)
    return Parts(settings, secret, file, clock, limits, database, metrics, host, client, identity, session)


def _bolt_with_listeners(parts: Parts) -> AsyncApp:
    """Bolt with all listeners. Listeners for whose ack people wait come first."""
    app = bolt(parts.settings, parts.identity, parts.metrics, parts.clicks_first)
    for each in (parts.clicks_and_forms, parts.home_events, parts.commands, parts.lifecycle, parts.agent_events):
        each.register(app)
    return app


async def _serve(stack: AsyncExitStack, stop: Shutdown, readiness: Readiness, parts: Parts, app: AsyncApp) -> str:
    """Takes requests from Slack from now on. Returns the address of the HTTP server."""
    settings, environment = parts.settings, parts.settings.environment
    secret = environment.signing_secret
    site = make_site(app, secret.get_secret_value()) if secret else make_site(None)
    add_probes(site, readiness, parts.metrics)
    url = await listen(stack, settings, site, stop)
    if environment.app_token is not None:
        await connect(stack, environment.app_token, app, stop, readiness)
    return url


@asynccontextmanager
async def _running_loops(
    stop: Shutdown, readiness: Readiness, parts: Parts, pauses: RestartPauses
) -> AsyncIterator[None]:
    """Runs the loops. At the end, work that has begun gets time to finish; the log names what did not finish."""
    supervisor = Supervisor(readiness, parts.metrics, pauses)
    working = [supervisor.begin(name, run) for name, run in parts.worker.loops.items()]
    checkpoints = supervisor.begin("checkpoints", parts.checkpoints.run)
    reloading = None if parts.reloading is None else supervisor.begin("reloading", parts.reloading.run)
    readiness.started()
    try:
        yield
    finally:
        stop.begin()
        readiness.stopping()
        supervisor.stop()
        parts.worker.stop()
        listeners = (parts.clicks_and_forms, parts.home_events, parts.commands)
        drained = [asyncio.create_task(each.drain()) for each in listeners]
        await stop.wait_for_tasks(
            *working, *drained, by=StopDeadline.WORK, cancelled_by=StopDeadline.CANCELLED, left=parts.worker
        )
        parts.checkpoints.stop()  # after the others: the last checkpoint covers what they did
        await stop.wait_for_tasks(checkpoints, by=StopDeadline.CHECKPOINT, cancelled_by=StopDeadline.CHECKPOINT)
        if reloading is not None:
            await stop_watching(reloading)


def _secret(settings: Settings) -> str:
    secret: SecretStr | None = settings.secret
    if secret is None:
        raise CannotServe("There is no secret to sign with. Set ADK_CONFIRM_SECRET to 32 random characters.")
    return secret.get_secret_value()
