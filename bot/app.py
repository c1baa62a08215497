"""Puts the bot together (store, host, worker, both sides of Slack) and runs it until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr
from slack_bolt.async_app import AsyncApp

from blocks.verdict import notice_message
from bot.agents.intake import Intake
from bot.agents.session_worker import SessionWorker
from bot.agents.sign_ins import SignIns
from bot.audit.fingerprint import Seal
from bot.audit.ledger import LedgerKeys
from bot.cards.agent_sessions import AgentSessions
from bot.cards.cards import Cards
from bot.cards.reactions import Reactions
from bot.cards.streaming import Streaming
from bot.cards.thread import Thread
from bot.cards.thread_worker import ThreadWorker
from bot.config.reload import Reloading, ended
from bot.config.rules import Rules, RulesInForce
from bot.config.settings import Settings
from bot.confirmation.sign_in import SignInAddresses
from bot.home.approvals_list import ApprovalsList
from bot.home.query import HomeQuery
from bot.home.tab import HomeTabs, TabDrawer
from bot.hosts import open_host
from bot.hosts.host import Host
from bot.inbound.agent_events import AgentEvents
from bot.inbound.bolt_app import bolt, connect, listen
from bot.inbound.clicks_and_forms import ClicksAndForms
from bot.inbound.commands_and_shortcuts import Commands
from bot.inbound.home_events import HomeEvents
from bot.inbound.http import make_site
from bot.inbound.lifecycle import Lifecycle
from bot.inbound.prompts import Prompts
from bot.inbound.sign_in_page import SignInPage
from bot.leasing.backpressure import Backpressure
from bot.operations.control import serve_control
from bot.operations.operate import OperatorContext, operator_handlers
from bot.slack.directory.directory import Directory
from bot.slack.outbound.calls import CallLimits, Calls
from bot.slack.outbound.client import Sender
from bot.slack.outbound.feature_support import FeatureSupport
from bot.slack.scopes import scopes_for
from bot.slack.workspaces.tokens import SeveralWorkspaces, Workspaces, open_workspaces
from bot.store.open import open_store, socket_path
from bot.store.replicas import Replicas
from bot.store.transactions import may_start
from bot.telemetry.metrics import Metrics
from bot.telemetry.probes import add_probes
from bot.telemetry.readiness import Readiness, store_probe
from bot.telemetry.tracing import log_line
from bot.worker.checkpoint_job import CheckpointJob
from bot.worker.shutdown import Shutdown, StopDeadline
from bot.worker.supervision import Supervisor
from bot.worker.worker import Worker
from runtime.calls.seal import CallGuard
from runtime.rest.listening import CannotServe
from runtime.store.database import Database

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bot:
    """A running bot: where it listens, and what it is made of."""

    url: str
    database: Database
    host: Host
    app: AsyncApp


@dataclass(frozen=True)
class _Parts:
    """What a bot is made of, before it hears anything and before anything works."""

    database: Database
    host: Host
    rules: RulesInForce
    workspaces: Workspaces
    metrics: Metrics
    clicks: Backpressure
    sender: Sender
    directory: Directory
    homes: HomeTabs
    replicas: Replicas
    worker: Worker
    listeners: tuple[ClicksAndForms, HomeEvents, Commands]
    door: SignInPage
    checkpointing: CheckpointJob
    reloading: Reloading | None


@asynccontextmanager
async def running(
    settings: Settings,
    *,
    file: Path | None = None,
    clock: Callable[[], float] | None = None,
    limits: CallLimits | None = None,
) -> AsyncIterator[Bot]:
    """The bot, from the first event it can hear to the last row it attends. Raises a sentence if it can't start.

    `file`: where the settings come from; its policies are taken again when it changes. A `clock` replaces every clock
    there is, so that a day can pass in no time; `limits` are those of calls to Slack.
    """
    stop, readiness = Shutdown(), Readiness()
    async with AsyncExitStack() as stack:
        parts = await _made(stack, stop, settings, file, clock, limits or CallLimits())
        readiness.watch("store", store_probe(parts.database))
        app = _heard(settings, parts)
        url = await _doors_opened(stack, stop, readiness, settings, parts, app)
        log.info("for %s; agent %s; store %s", parts.workspaces.described, parts.host.app, parts.database.url)
        async with _at_work(stop, readiness, parts):
            yield Bot(url, parts.database, parts.host, app)


async def _made(
    stack: AsyncExitStack,
    stop: Shutdown,
    settings: Settings,
    file: Path | None,
    clock: Callable[[], float] | None,
    limits: CallLimits,
) -> _Parts:
    monotonic = clock or time.monotonic
    database = await open_store(settings.store_url, _secret(settings), clock)
    stack.push_async_callback(stop.closed, "the store", database.close, StopDeadline.STORE)
    metrics = Metrics(database)
    database.listen(metrics.heard)
    database.listen(log_line)
    assert settings.agent is not None
    seal = Seal(_secret(settings), "call")
    guard = CallGuard(Seal(_secret(settings), "stored call").of, may_start(seal))
    host = await open_host(
        settings.agent, database, clock, store_url=settings.store_url, guard=guard, lease=settings.lease
    )
    stack.push_async_callback(stop.closed, "the agent", host.close, StopDeadline.AGENT)
    rules = RulesInForce(Rules(settings.policies, seal))
    reloading = None if file is None else Reloading(file, os.environ, rules)
    workspaces = await open_workspaces(settings, database)
    replicas = Replicas(database)
    calls = Calls(
        workspaces.client_for,
        on_revoked=workspaces.revoked,
        limits=limits,
        meter=metrics,
        replicas=replicas.alive,
        clock=monotonic,
    )
    sender = Sender(calls, taken=FeatureSupport(monotonic, database))
    directory = Directory(sender, patience=limits.lookups, clock=monotonic)
    agent_sessions = AgentSessions(sender, rules)
    addresses = SignInAddresses(seal, settings.slack.public_url)
    sign_ins = SignIns(replicas.name, monotonic)
    door = SignInPage(database, directory, rules, sign_ins, addresses)
    cards = Cards(sender, directory, addresses)
    streaming = Streaming(sender, monotonic, agent_sessions, tasks=settings.slack.tasks == "plan")
    thread = Thread(sender, directory.names, streaming)
    reactions = Reactions(sender) if settings.slack.reactions else None
    home_query = HomeQuery(database, sender, directory, rules)
    homes, lists, clicks = HomeTabs(database), ApprovalsList(database, sender, home_query), Backpressure()
    intake = Intake(directory, rules, workspaces.unfit)
    session_worker = SessionWorker(host, thread, intake, rules, sign_ins, clicks)
    term, others = settings.lease.total_seconds(), [TabDrawer(sender, home_query).kind]
    return _Parts(
        database=database,
        host=host,
        rules=rules,
        workspaces=workspaces,
        metrics=metrics,
        clicks=clicks,
        sender=sender,
        directory=directory,
        homes=homes,
        replicas=replicas,
        worker=Worker(
            database,
            session_worker,
            ThreadWorker(thread, reactions, agent_sessions),
            directory,
            cards,
            rules,
            others=others,
            term=term,
            clicks=clicks,
        ),
        listeners=(
            ClicksAndForms(database, sender, directory, rules, lists, clicks, host.app, door),
            HomeEvents(database, sender, rules, homes, lists, Prompts(sender, settings.slack.prompts)),
            Commands(database, sender, directory, lists),
        ),
        door=door,
        checkpointing=_checkpointing(settings, database, sender, workspaces, clicks),
        reloading=reloading,
    )


def _heard(settings: Settings, parts: _Parts) -> AsyncApp:
    """Bolt, with everybody who listens; those first whose acks are awaited most."""
    app = bolt(settings, parts.workspaces, parts.metrics, parts.clicks, parts.sender.in_an_ack)
    for each in parts.listeners:
        each.register(app)
    Lifecycle(parts.directory, parts.workspaces).register(app)
    AgentEvents(parts.database, parts.host).register(app)
    return app


async def _doors_opened(
    stack: AsyncExitStack, stop: Shutdown, readiness: Readiness, settings: Settings, parts: _Parts, app: AsyncApp
) -> str:
    """Where HTTP is answered from here on. Operators come in by a socket of their own."""
    operators = operator_handlers(OperatorContext(parts.database, parts.rules, parts.directory, parts.reloading))
    await stack.enter_async_context(serve_control(socket_path(settings.store_url), operators))
    secret = settings.environment.signing_secret
    site = make_site(app, secret.get_secret_value()) if secret else make_site(None)
    add_probes(site, readiness, parts.metrics)
    parts.door.register(site)
    if isinstance(parts.workspaces, SeveralWorkspaces):
        from bot.slack.workspaces.oauth import InstallPages  # a service for one workspace need not load it

        scopes = scopes_for(settings.slack)
        InstallPages(settings.environment, parts.database, parts.workspaces, parts.rules, scopes).register(site)
    url = await listen(stack, settings, site, stop)
    if settings.environment.app_token is not None:
        await connect(stack, settings.environment.app_token, app, stop, readiness)
    return url


@asynccontextmanager
async def _at_work(stop: Shutdown, readiness: Readiness, parts: _Parts) -> AsyncIterator[None]:
    """All that goes on by itself; afterwards what was begun has ended, or is left behind and said."""
    supervisor = Supervisor(readiness, parts.metrics)
    work = {**parts.worker.loops, "homes": parts.homes.run, "workspaces": parts.workspaces.run}
    work["replicas"] = parts.replicas.run
    working = [supervisor.begin(name, run) for name, run in work.items()]
    sealing = supervisor.begin("checkpoints", parts.checkpointing.run)
    reloading = None if parts.reloading is None else supervisor.begin("reloading", parts.reloading.run)
    readiness.started()
    try:
        yield
    finally:
        stop.begin()
        readiness.stopping()
        supervisor.stop()
        for each in (parts.worker, parts.homes, parts.workspaces, parts.replicas):
            each.stop()
        drained = [asyncio.create_task(each.drain()) for each in parts.listeners]
        await stop.ended(
            *working, *drained, by=StopDeadline.WORK, cancelled_by=StopDeadline.CANCELLED, left=parts.worker
        )
        parts.checkpointing.stop()  # after the others: the last checkpoint covers what they did
        await stop.ended(sealing, by=StopDeadline.CHECKPOINT, cancelled_by=StopDeadline.CHECKPOINT)
        if reloading is not None:
            await ended(reloading)


def _checkpointing(
    settings: Settings, database: Database, sender: Sender, workspaces: Workspaces, clicks: Backpressure
) -> CheckpointJob:
    """Checkpoints go to the log, and to a channel where one is named."""
    channel = settings.audit.channel

    async def post(text: str) -> None:
        assert channel is not None
        await sender.post(workspaces.named(settings.audit.team), channel, notice_message(text))

    keys = LedgerKeys(_secret(settings))
    return CheckpointJob(database, keys, settings.audit.checkpoint_every, post if channel else None, clicks)


def _secret(settings: Settings) -> str:
    secret: SecretStr | None = settings.secret
    if secret is None:
        raise CannotServe("There is no secret to sign with. Set ADK_CONFIRM_SECRET to 32 random characters.")
    return secret.get_secret_value()
