"""Makes the parts of the bot that `app.py` runs, each with the parts that it needs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from aiohttp import ClientSession
from slack_sdk.web.async_client import AsyncWebClient

from blocks.verdict import notice_message
from bot.agents.intake import Intake
from bot.agents.session_worker import SessionWorker
from bot.cards.agent_sessions import AgentSessions
from bot.cards.cards import Cards
from bot.cards.thread import Thread
from bot.cards.thread_worker import ThreadWorker
from bot.config.reload import PolicyReloader
from bot.config.rules import Rules
from bot.config.settings import Settings
from bot.home.lists import Lists
from bot.home.query import HomeQuery
from bot.hosts.host import Host
from bot.inbound.agent_events import AgentEvents
from bot.inbound.clicks_and_forms import ClicksAndForms
from bot.inbound.commands_and_shortcuts import Commands
from bot.inbound.home_events import HomeEvents
from bot.inbound.lifecycle import Lifecycle
from bot.inbound.prompts import Prompts
from bot.leasing.lease_loop import ClicksFirst
from bot.slack.directory.directory import Directory
from bot.slack.identity import BotIdentity
from bot.slack.outbound.calls import CallLimits, Calls
from bot.slack.outbound.client import Sender
from bot.telemetry.metrics import Metrics
from bot.worker.checkpoint_job import CheckpointJob
from bot.worker.worker import Worker
from runtime.store.database import Database
from runtime.store.seal import Seal


@dataclass
class Parts:
    """The parts. Each is made once, when it is first needed. The fields must be open before."""

    settings: Settings
    secret: str
    file: Path | None
    clock: Callable[[], float] | None
    limits: CallLimits
    database: Database
    metrics: Metrics
    host: Host
    client: AsyncWebClient
    identity: BotIdentity
    session: ClientSession

    # The rules

    @cached_property
    def rules(self) -> Rules:
        return Rules(self.settings.policies, self.settings.limits)

    @cached_property
    def reloading(self) -> PolicyReloader | None:
        return None if self.file is None else PolicyReloader(self.file, os.environ, self.rules)

    @cached_property
    def clicks_first(self) -> ClicksFirst:
        return ClicksFirst()

    # Slack

    @cached_property
    def monotonic(self) -> Callable[[], float]:
        return self.clock or time.monotonic

    @cached_property
    def sender(self) -> Sender:
        calls = Calls(
            self.client,
            limits=self.limits,
            meter=self.metrics,
            session=self.session,
            clock=self.monotonic,
        )
        return Sender(calls)

    @cached_property
    def directory(self) -> Directory:
        return Directory(self.sender, self.rules, patience=self.limits.lookups, clock=self.monotonic)

    # Cards, threads and the Home tab

    @cached_property
    def cards(self) -> Cards:
        return Cards(self.sender, self.directory)

    @cached_property
    def thread(self) -> Thread:
        return Thread(self.sender, self.directory.names)

    @cached_property
    def thread_worker(self) -> ThreadWorker:
        return ThreadWorker(self.thread, AgentSessions(self.sender, self.rules))

    @cached_property
    def home_query(self) -> HomeQuery:
        return HomeQuery(self.database, self.sender, self.directory, self.rules)

    @cached_property
    def lists(self) -> Lists:
        return Lists(self.database, self.sender, self.home_query)

    # Background work

    @cached_property
    def session_worker(self) -> SessionWorker:
        intake = Intake(self.directory, self.sender, self.rules)
        return SessionWorker(self.host, self.sender, self.database, intake, self.rules)

    @cached_property
    def worker(self) -> Worker:
        return Worker(
            self.database,
            self.session_worker,
            self.thread_worker,
            self.directory,
            self.cards,
            self.rules,
            term=self.settings.lease.total_seconds(),
            clicks=self.clicks_first,
        )

    @cached_property
    def checkpoints(self) -> CheckpointJob:
        """Checkpoints go to the log, and to a channel if the settings name one."""
        audit = self.settings.audit

        async def post(text: str) -> None:
            assert audit.channel is not None
            await self.sender.post(audit.channel, notice_message(text))

        seal = Seal(self.secret)
        return CheckpointJob(self.database, seal, audit.checkpoint_every, post if audit.channel else None)

    # Requests from Slack

    @cached_property
    def clicks_and_forms(self) -> ClicksAndForms:
        return ClicksAndForms(
            self.database,
            self.sender,
            self.directory,
            self.rules,
            self.lists,
            self.host.app,
        )

    @cached_property
    def home_events(self) -> HomeEvents:
        prompts = Prompts(self.sender, self.settings.slack.prompts)
        return HomeEvents(self.sender, self.directory.names, self.lists, prompts)

    @cached_property
    def commands(self) -> Commands:
        return Commands(self.database, self.sender, self.directory, self.lists)

    @cached_property
    def lifecycle(self) -> Lifecycle:
        return Lifecycle(self.directory)

    @cached_property
    def agent_events(self) -> AgentEvents:
        return AgentEvents(self.database, self.host)
