"""What `adk-confirm check` looks at: the store, the agent, the policies, and Slack in each workspace."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from slack_sdk.web.async_client import AsyncWebClient

from bot.config.environment import Environment
from bot.config.settings import Settings
from bot.config.token_cipher import Vault
from bot.hosts import open_host
from bot.operations.check_postgres import durability
from bot.operations.check_slack import Finding, check_app_token, check_credentials, check_workspace
from bot.policy.approvers import Approver, ApproverKind
from bot.policy.checks import team_problems
from bot.slack.outbound.calls import Workspace
from bot.slack.workspaces.identity import slack_client
from bot.slack.workspaces.installations import Installations, Installed, installed
from bot.store.open import HISTORY
from runtime.agent import Agent
from runtime.errors import ConfirmError
from runtime.store.database import Database
from runtime.store.migrate import MigrationHistory, version
from runtime.store.open import HISTORY as RUNTIME_HISTORY
from runtime.target import load_object

R = TypeVar("R")
PATIENCE = 30.0
"""An agent, its server or a server of its tools that takes longer is not reachable."""


async def check_all(settings: Settings) -> list[Finding]:
    """Everything is looked at, whatever else is wrong."""
    found = [finding async for finding in _store(settings)]
    found += [finding async for finding in _agent(settings)]
    found += _policies(settings)
    if settings.environment.app_token is not None:
        found.append(await check_app_token(settings.environment))
    if settings.environment.bot_token is not None:
        found += [finding async for finding in check_workspace(slack_client(settings), settings)]
    elif settings.environment.several:
        found += [finding async for finding in check_credentials(settings.environment)]
        found += [finding async for finding in _workspaces(settings)]
    return found


# The store


async def _store(settings: Settings) -> AsyncIterator[Finding]:
    missing = _to_be_made(settings.store_url)
    if missing is not None:
        yield missing
        return
    try:
        database = await Database.open(settings.store_url, read_only=True)
    except ConfirmError as error:
        yield Finding("store", ok=False, said=str(error))
        return
    try:
        yield Finding("store", ok=True, said=f"{database.url} answers")
        for finding in readable_by_others(settings.store_url):
            yield finding
        for history in (RUNTIME_HISTORY, HISTORY):
            yield _schema(history, await database.read(version, history))
        if database.dialect == "postgresql":
            for finding in await database.read(durability):
                yield finding
    except ConfirmError as error:
        yield Finding("schema", ok=False, said=str(error))
    finally:
        await database.close()


def readable_by_others(url: str) -> Iterator[Finding]:
    """Versions before this one made the files as the umask had it."""
    path = _file(url)
    if path is None:
        return
    for beside in ("", "-wal", "-shm", ".lock", ".sock"):
        file = path.with_name(path.name + beside)
        with suppress(FileNotFoundError):
            mode = file.stat().st_mode & 0o777
            if mode & 0o077:
                said = f"warning: others on this machine may use it ({mode:o}): chmod 600 {file}"
                yield Finding(file.name, ok=True, said=said, note=True)


def _file(url: str) -> Path | None:
    path = Path(url.partition("///")[2]) if url.startswith("sqlite") else None
    return path if path is not None and path.name else None


def _to_be_made(url: str) -> Finding | None:
    """A file that is not there yet needs only a place."""
    path = _file(url)
    if path is None or path.exists():
        return None
    folder = path.resolve().parent
    if folder.is_dir() and os.access(folder, os.W_OK):
        return Finding("store", ok=True, said=f"{path} is not there yet; serve makes it")
    return Finding(
        "store", ok=False, said=f"{folder} is no directory that can be written to: make it, or change [store] url"
    )


def _schema(history: MigrationHistory, at: str | None) -> Finding:
    name = f"schema of {history.name}"
    if at is None or at < history.head:
        return Finding(name, ok=True, said=f"at revision {at or 'none'}; serve brings it to {history.head}")
    if at == history.head:
        return Finding(name, ok=True, said=f"at revision {at}")
    said = f"at revision {at}, and this version knows {history.head}: a newer one was started on it; start that one"
    return Finding(name, ok=False, said=said)


# The agent


async def _agent(settings: Settings) -> AsyncIterator[Finding]:
    agent = settings.agent
    if agent is None:
        return
    database = await Database.open(":memory:")  # an agent in this process wants one; nothing is put there
    try:
        host = await _in_time(open_host(agent, database, store_url=settings.store_url))
        try:
            about = await _in_time(host.capabilities())
        finally:
            await host.close()
    except ConfirmError as error:
        yield Finding("agent", ok=False, said=str(error))
        return
    finally:
        await database.close()
    where = agent.url or agent.target
    yield Finding("agent", ok=True, said=f"{where} is {host.app}, on {about.name}")
    for note in about.notes:
        yield Finding("agent", ok=True, said=note, note=True)
    if agent.target is not None and isinstance(ours := load_object(agent.target), Agent):
        yield await _tools(ours)


async def _tools(agent: Agent) -> Finding:
    """MCP servers are asked what they offer."""
    try:
        names = {name for one in agent.walk() for name in await _in_time(one.resolve_tools())}
    except ConfirmError as error:
        return Finding("tools", ok=False, said=str(error))
    finally:
        await agent.close()
    return Finding("tools", ok=True, said=", ".join(sorted(names)) or "none")


async def _in_time(work: Awaitable[R]) -> R:
    try:
        async with asyncio.timeout(PATIENCE):
            return await work
    except TimeoutError:
        raise ConfirmError(f"No answer within {PATIENCE:g} seconds. Is its server up, and the address right?") from None


# The policies


def _policies(settings: Settings) -> list[Finding]:
    entries = settings.policies.entries
    if not entries:
        return [Finding("policies", ok=False, said="there is none, so nobody may decide anything: write [[policy]]")]
    python = {entry for policy in entries for entry in (*policy.approvers, *policy.escalate_to, *policy.barred)}
    found = [Finding("policies", ok=True, said=f"{len(entries)} of them")]
    return found + [_importable(entry) for entry in sorted(python) if entry.kind is ApproverKind.PYTHON]


def _importable(entry: Approver) -> Finding:
    try:
        found = load_object(entry.value)
    except ConfirmError as error:
        return Finding(str(entry), ok=False, said=str(error))
    said = "can be called" if callable(found) else "is no function: name one that takes a call and returns user ids"
    return Finding(str(entry), ok=callable(found), said=said)


# Workspaces that installed the app


async def _workspaces(settings: Settings) -> AsyncIterator[Finding]:
    try:
        clients = await _clients(settings)
    except ConfirmError as error:
        yield Finding("workspaces", ok=False, said=str(error))
        return
    if not clients:
        said = "none has installed the app yet: open /slack/install at the service's address"
        yield Finding("workspaces", ok=True, said=said)
    for problem in team_problems(settings.policies.entries, [one.id for one, _ in clients]):
        yield Finding("policies", ok=False, said=str(problem))
    for one, client in clients:
        async for finding in check_workspace(client, settings, one.id):
            yield Finding(f"{one.id} {finding.what}", ok=finding.ok, said=finding.said)


async def _clients(settings: Settings) -> list[tuple[Installed, AsyncWebClient]]:
    env: Environment = settings.environment
    if env.client_id is None or env.token_key is None:
        return []  # the settings' own problems say so
    vault = Vault(env.token_key.get_secret_value())
    database = await Database.open(settings.store_url, read_only=True)
    try:
        store = Installations(database, env.client_id, vault)
        found: list[tuple[Installed, AsyncWebClient]] = []
        for one in await database.read(installed, env.client_id):
            bot = await database.read(store.bot_for, Workspace(one.team or "", one.enterprise))
            if bot is not None:
                found.append((one, AsyncWebClient(bot.bot_token, base_url=env.api_url, retry_handlers=[])))
        return found
    finally:
        await database.close()
