"""Makes the parts of the bot, each with the parts that it needs, and starts and stops them."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from slack_bolt.async_app import AsyncApp

from adk_confirm.blocks.notices import notice_message
from adk_confirm.bot.agents.intake import Intake
from adk_confirm.bot.agents.session_worker import SessionWorker
from adk_confirm.bot.cards.draw import Cards
from adk_confirm.bot.cards.older_copy import pause_an_older_copy
from adk_confirm.bot.cards.thread_posts import AgentSessions, Thread, ThreadWorker
from adk_confirm.bot.config.reload import PolicyReloader
from adk_confirm.bot.config.settings import Rules, Settings
from adk_confirm.bot.confirmation.confirmation import DOOR
from adk_confirm.bot.home.lists import Lists
from adk_confirm.bot.home.query import HomeQuery
from adk_confirm.bot.hosts.host import Host
from adk_confirm.bot.hosts.open_host import open_host
from adk_confirm.bot.inbound.after_ack import AfterAck
from adk_confirm.bot.inbound.bolt_app import bolt, connect, listen_to_slack, make_site
from adk_confirm.bot.inbound.clicks_and_forms import ClicksAndForms
from adk_confirm.bot.inbound.commands import Commands
from adk_confirm.bot.inbound.events import Events
from adk_confirm.bot.slack.calls import CallLimits, Slack, slack_session
from adk_confirm.bot.slack.directory import Directory
from adk_confirm.bot.slack.own_identity import BotIdentity, identify, slack_client
from adk_confirm.bot.store.known_names import SeenNames
from adk_confirm.bot.store.open import open_store, take_store
from adk_confirm.bot.store.repository import chain_of
from adk_confirm.bot.store.transactions import follow_call
from adk_confirm.bot.telemetry.metrics import Metrics
from adk_confirm.bot.telemetry.readiness import Readiness, add_probes, store_probe
from adk_confirm.bot.telemetry.spans import log_line
from adk_confirm.bot.worker.checkpoint_job import CheckpointJob
from adk_confirm.bot.worker.supervision import RestartPauses, Shutdown, StopDeadline, Supervisor, TaskFunction
from adk_confirm.bot.worker.worker import Worker
from adk_confirm.runtime.rest.listening import CannotServe
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.seal import Seal

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bot:
    """A running bot: its address, and the parts that tests look at."""

    url: str
    database: Database
    host: Host
    app: AsyncApp
    door: str | None = None  # the address at which callers ask


@asynccontextmanager
async def running_bot(
    settings: Settings,
    *,
    file: Path | None = None,
    renamed_from: str | None = None,
    clock: Callable[[], float] | None = None,
    limits: CallLimits | None = None,
    pauses: RestartPauses | None = None,
) -> AsyncIterator[Bot]:
    """The bot while it serves. Raises an error that says what to do if it can't start.

    `file`: the settings file, whose policies are read again when it changes. `renamed_from`: the name that the agent
    had. A `clock` replaces every clock, so that
    tests can let a day pass; `limits` are the limits of calls to Slack; `pauses` are those before a background task
    that failed is started again.
    """
    stop, readiness, limits, stopping = Shutdown(), Readiness(), limits or CallLimits(), asyncio.Event()
    secret, accepted = _secret(settings), settings.environment.accepted_secret
    async with AsyncExitStack() as stack:
        database = await open_store(
            settings.store_url, secret, clock, accepted=accepted.get_secret_value() if accepted else None
        )
        stack.push_async_callback(stop.close_part, "the store", database.close, StopDeadline.STORE)
        metrics = Metrics(database)
        database.listen(metrics.heard)
        database.listen(log_line)
        rules = Rules(settings.policies, settings.limits)
        hosts = await _open_hosts(stack, stop, settings, database, clock, rules, stopping)
        host = hosts[0]
        client = slack_client(settings)
        identity = await identify(client)
        await database.run(take_store, identity.team, host.app, settings, renamed_from)
        session = slack_session()
        stack.push_async_callback(session.close)
        slack = Slack(client, limits=limits, meter=metrics.called, session=session, clock=clock or time.monotonic)
        seal = settings.environment.seal
        assert seal is not None
        await pause_an_older_copy(database, slack, seal, settings.audit.channel)
        names = SeenNames(database)
        directory = Directory(slack, rules, patience=limits.lookups, seen=names.note)
        parts = _make_parts(settings, seal, database, metrics, hosts, identity, slack, directory, rules, stopping)
        readiness.watch("store", store_probe(database, lambda: parts.worker.trouble))
        url = await _serve(stack, stop, readiness, settings, metrics, parts.bolt)
        door = None
        if settings.door is not None:
            from adk_confirm.bot.door.host import DoorHost
            from adk_confirm.bot.door.site import DoorApi

            callers = hosts[-1]
            assert isinstance(callers, DoorHost)
            door = await DoorApi(settings.door, callers, slack, identity.team, rules, metrics).serve(stack, stop)
            log.info("callers may ask at %s", door)
        log.info("for %s as %s; agent %s; store %s", identity.team, identity.user, host.app, database.url)
        until_the_end = {"names": names.run}
        if file is not None:

            def told(digest: str, trouble: str | None) -> None:
                metrics.settings(digest, trouble)
                readiness.notes["settings"] = f"{digest}{f'; {trouble}' if trouble else ''}"

            until_the_end["reloading"] = PolicyReloader(file, os.environ, rules, told).run
        drain = settings.serve.drain.total_seconds()
        async with _running_loops(stop, readiness, metrics, parts, until_the_end, pauses or RestartPauses(), drain):
            yield Bot(url, database, host, parts.bolt, door)


async def _open_hosts(
    stack: AsyncExitStack,
    stop: Shutdown,
    settings: Settings,
    database: Database,
    clock: Callable[[], float] | None,
    rules: Rules,
    stopping: asyncio.Event,
) -> Sequence[Host]:
    """The agent's host, that of callers at the door, or both in this order."""
    hosts: list[Host] = []
    if settings.agent is not None:
        hosts.append(
            await open_host(
                settings.agent,
                database,
                clock,
                store_url=settings.store_url,
                on_change=follow_call,
                asks_why=lambda tool: rules.policies.wants_reason(tool),  # noqa: PLW0108  (they may be read again)
                lease=settings.store.lease,
            )
        )
    if settings.door is not None:
        from adk_confirm.bot.door.host import DoorHost

        hosts.append(DoorHost(settings, database, clock, follow_call, stopping))
    for host in hosts:
        stack.push_async_callback(stop.close_part, "the agent", host.close, StopDeadline.AGENT)
    if len({host.app for host in hosts}) < len(hosts):
        raise CannotServe(f"The agent is called {DOOR}, as the app of callers is: give it another name.")
    return hosts


@dataclass(frozen=True)
class _Parts:
    """The parts that run and that have to be stopped."""

    bolt: AsyncApp
    after_ack: AfterAck
    worker: Worker
    checkpoints: CheckpointJob


def _make_parts(
    settings: Settings,
    seal: Seal,
    database: Database,
    metrics: Metrics,
    hosts: Sequence[Host],
    identity: BotIdentity,
    slack: Slack,
    directory: Directory,
    rules: Rules,
    stopping: asyncio.Event,
) -> _Parts:
    host, callers, intake = hosts[0], hosts[-1] if settings.door else None, Intake(directory, slack, rules)
    sessions = SessionWorker(host, slack, database, intake, rules, stopping, callers)
    audit = settings.audit
    lists = Lists(database, slack, HomeQuery(database, slack, directory, rules))
    worker = Worker(
        database,
        sessions,
        ThreadWorker(Thread(slack, directory), AgentSessions(slack, rules)),
        directory,
        lambda asked, arguments: sessions.host_of(chain_of(asked.session)).preview(asked, arguments),
        Cards(slack, directory),
        rules,
        term=settings.store.lease.total_seconds(),
    )
    app, after_ack = bolt(settings, identity, metrics.acked), AfterAck(slack, directory.names)
    # Listeners for whose ack people wait come first.
    ClicksAndForms(database, directory, rules, lists, after_ack).register(app)
    Events(database, host, slack, directory, lists, after_ack, settings.slack.prompts).register(app)
    Commands(database, slack, lists, after_ack).register(app)

    async def post(text: str) -> None:
        assert audit.channel is not None
        await slack.post(audit.channel, notice_message(text))

    # Checkpoints go to the log, and to a channel if the settings name one.
    key = settings.environment.signer
    checkpoints = CheckpointJob(database, seal, audit.checkpoint_every, post if audit.channel else None, key)
    return _Parts(app, after_ack, worker, checkpoints)


async def _serve(
    stack: AsyncExitStack, stop: Shutdown, readiness: Readiness, settings: Settings, metrics: Metrics, app: AsyncApp
) -> str:
    """Takes requests from Slack from now on. Returns the address of the HTTP server."""
    environment = settings.environment
    secret = environment.signing_secret
    site = make_site(app, secret.get_secret_value()) if secret else make_site(None)
    add_probes(site, readiness, metrics)
    url = await listen_to_slack(stack, settings, site, stop)
    if environment.app_token is not None:
        await connect(stack, environment.app_token, app, stop, readiness)
    return url


@asynccontextmanager
async def _running_loops(
    stop: Shutdown,
    readiness: Readiness,
    metrics: Metrics,
    parts: _Parts,
    until_the_end: Mapping[str, TaskFunction],
    pauses: RestartPauses,
    drain: float,
) -> AsyncIterator[None]:
    """Runs the loops. At the end no run begins any more, and those that began get `drain` seconds. Then work that has
    begun gets time to finish; the log names what did not finish."""
    supervisor = Supervisor(readiness, metrics, pauses)
    working = [supervisor.begin(name, run) for name, run in parts.worker.loops.items()]
    checkpoints = supervisor.begin("checkpoints", parts.checkpoints.run)
    endless = [supervisor.begin(name, run) for name, run in until_the_end.items()]
    readiness.started()
    try:
        yield
    finally:
        readiness.stopping()
        await parts.worker.drain(drain)
        stop.begin()
        supervisor.stop()
        parts.worker.stop()
        drained = asyncio.create_task(parts.after_ack.drain())
        await stop.wait_for_tasks(
            *working, drained, by=StopDeadline.WORK, cancelled_by=StopDeadline.CANCELLED, left=parts.worker
        )
        parts.checkpoints.stop()  # after the others: the last checkpoint covers what they did
        await stop.wait_for_tasks(checkpoints, by=StopDeadline.CHECKPOINT, cancelled_by=StopDeadline.CHECKPOINT)
        for task in endless:
            task.cancel()
        await asyncio.wait(endless)  # there is nothing to finish


def _secret(settings: Settings) -> str:
    secret = settings.environment.sealing_secret
    if secret is None:
        raise CannotServe("There is no secret to sign with. Set ADK_CONFIRM_SECRET to 32 random characters.")
    return secret.get_secret_value()
