"""The checks of `adk-confirm check`: the store, the agent, the policies, and Slack."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from typing import TypeVar

from bot.config.settings import Settings
from bot.hosts import open_host
from bot.ops.agent_tools import Tools, tools_of
from bot.ops.check_slack import check_app_token, check_workspace
from bot.ops.coverage import Coverage, coverage, coverage_findings
from bot.ops.findings import Finding, Severity, either, fine, fix, note, warn
from bot.ops.names import KnownNames, names_of
from bot.policy.approvers import Approver, ApproverKind
from bot.slack.identity import slack_client
from bot.store.open import SCHEMAS, sqlite_file
from runtime.errors import ConfirmError
from runtime.store.database import Database, Tx
from runtime.store.private import FILE, FOLDER
from runtime.store.schema import StoreSchema, version
from runtime.target import load_object

R = TypeVar("R")
PATIENCE = 30.0
"""Seconds. An agent, its server or a server of its tools that takes longer counts as unreachable."""


@dataclass(frozen=True)
class CheckResult:
    """`coverage` is empty if the agent's tools can't be listed."""

    findings: list[Finding]
    coverage: list[Coverage]
    names: KnownNames


async def check_all(settings: Settings) -> CheckResult:
    """Runs all checks, even if some fail."""
    found = [finding async for finding in _store(settings)]
    found += [finding async for finding in _agent(settings)]
    tools = await _tools(settings, found)
    found += _policies(settings)
    if tools is not None:
        found += coverage_findings(settings.policies, tools)
    rows = [] if tools is None else coverage(settings.policies, tools)
    found += [finding async for finding in _slack(settings)]
    entries = [str(entry) for policy in settings.policies.entries for entry in policy.approvers]
    client = slack_client(settings, patient=True) if settings.environment.bot_token is not None else None
    return CheckResult(found, rows, await names_of(client, entries if rows else ()))


async def _slack(settings: Settings) -> AsyncIterator[Finding]:
    if settings.environment.app_token is not None:
        yield await check_app_token(settings.environment)
    if settings.environment.bot_token is not None:
        async for finding in check_workspace(slack_client(settings, patient=True), settings):
            yield finding


# The store


async def _store(settings: Settings) -> AsyncIterator[Finding]:
    missing = _check_directory(settings.store_url)
    if missing is not None:
        yield missing
        return
    try:
        database = await Database.open(settings.store_url, read_only=True)
    except ConfirmError as error:
        yield fix("store", str(error))
        return
    try:
        yield fine("store", f"{database.url} answers")
        for finding in readable_by_others(settings.store_url):
            yield finding
        for schema in SCHEMAS:
            yield _schema(schema, await database.read(version, schema))
        if database.dialect == "postgresql":
            for finding in await database.read(durability):
                yield finding
    except ConfirmError as error:
        yield fix("schema", str(error))
    finally:
        await database.close()


def readable_by_others(url: str) -> Iterator[Finding]:
    """Finds files of the store, and of google-adk beside it, that others may read."""
    path = sqlite_file(url)
    if path is None:
        return
    for file in sorted({*path.parent.glob(f"{escape(path.name)}*"), *path.parent.glob(f"{escape(path.stem)}-adk*")}):
        with suppress(FileNotFoundError):
            mode = file.stat().st_mode & 0o777
            if mode & 0o077:
                wanted = FOLDER if file.is_dir() else FILE
                yield warn(file.name, f"others on this machine may use it ({mode:o}): chmod {wanted:o} {file}")


def _check_directory(url: str) -> Finding | None:
    """Checks the directory for a file that does not exist yet."""
    path = sqlite_file(url)
    if path is None or path.exists():
        return None
    folder = path.resolve().parent
    if folder.is_dir() and os.access(folder, os.W_OK):
        return fine("store", f"{path} is not there yet; serve makes it")
    return fix("store", f"{folder} is not a directory that can be written to: make it, or change [store] url")


def _schema(schema: StoreSchema, at: int | None) -> Finding:
    what, why = f"tables of {schema.package}", schema.misfit(at)
    if why is None:
        return fine(what, f"of version {at}")
    return (
        fix(what, why) if at and at > schema.version else fine(what, f"of version {at or 'none'}; serve creates them")
    )


# The agent


async def _agent(settings: Settings) -> AsyncIterator[Finding]:
    agent = settings.agent
    if agent is None:
        return
    database = await Database.open(":memory:")  # an agent in this process wants one; nothing is put there
    try:
        host = await _within_patience(open_host(agent, database, store_url=settings.store_url))
        try:
            about = await _within_patience(host.capabilities())
        finally:
            await host.close()
    except ConfirmError as error:
        yield fix("agent", str(error))
        return
    finally:
        await database.close()
    where = agent.url or agent.target
    yield fine("agent", f"{where} is {host.app}, on {about.name}")
    for said in about.notes:
        yield note("agent", said)


async def _tools(settings: Settings, found: list[Finding]) -> Tools | None:
    """The agent's tools. None if they can't be listed. An agent that can't be loaded has a finding already."""
    if settings.agent is None or any(finding.what == "agent" and finding.mark is Severity.FIX for finding in found):
        return None
    try:
        tools = await _within_patience(tools_of(settings.agent))
    except ConfirmError as error:
        found.append(fix("tools", str(error)))
        return None
    if tools is not None:
        found.append(fine("tools", ", ".join(sorted(tools)) or "none"))
    return tools


async def _within_patience(work: Awaitable[R]) -> R:
    try:
        async with asyncio.timeout(PATIENCE):
            return await work
    except TimeoutError:
        raise ConfirmError(
            f"No answer within {PATIENCE:g} seconds. Check that its server runs, and its address."
        ) from None


# The policies


def _policies(settings: Settings) -> list[Finding]:
    entries = settings.policies.entries
    if not entries:
        return [fix("policies", "there is none, so every call that needs approval is refused: write a [[policy]]")]
    python = {entry for policy in entries for entry in (*policy.approvers, *policy.escalate_to, *policy.barred)}
    found = [fine("policies", f"{len(entries)} in the file")]
    return found + [_importable(entry) for entry in sorted(python) if entry.kind is ApproverKind.PYTHON]


def _importable(entry: Approver) -> Finding:
    try:
        found = load_object(entry.value)
    except ConfirmError as error:
        return fix(str(entry), str(error))
    said = "can be called" if callable(found) else "is not a function: name one that takes a call and returns user ids"
    return either(callable(found))(str(entry), said)


_RISKS = {
    "fsync": "a crash of the server can lose or damage what was stored",
    "full_page_writes": "a crash of the server can damage what was stored",
    "synchronous_commit": (
        "after a crash of the server the last acknowledged clicks can be lost, and a tool that had started can run "
        "twice"
    ),
}
_ENDLESS = {
    "idle_in_transaction_session_timeout": "a replica that freezes in a transaction keeps its locks from the others",
    "statement_timeout": "a transaction may wait for ever for a server that hangs",
}
_SETTINGS = "SELECT name, setting FROM pg_settings WHERE name IN :names ORDER BY name"
_FOLLOWERS = """
    SELECT application_name AS name, sync_state FROM pg_stat_replication
    -- Logical subscribers are not promoted, and base backups do not follow.
    WHERE coalesce(state, '') <> 'backup' AND pid NOT IN
        (SELECT active_pid FROM pg_replication_slots WHERE slot_type = 'logical' AND active_pid IS NOT NULL)
"""


def durability(tx: Tx) -> list[Finding]:
    """The findings about durability. Empty if all is well."""
    return [*_settings(tx), *_standbys(tx)]


def _settings(tx: Tx) -> Iterator[Finding]:
    for name, setting in tx.all(_SETTINGS, names=[*_RISKS, *_ENDLESS]):
        if setting == "off":
            yield warn(name, f"is off: {_RISKS[name]}. Set {name} = on")
        if setting == "0":  # each connection asks for a time: something between here and there dropped that
            yield warn(name, f"is 0: {_ENDLESS[name]}. Set it for this database, or connect without a pooler")


def _standbys(tx: Tx) -> Iterator[Finding]:
    if tx.value("SELECT pg_is_in_recovery()"):
        said = "this server is a standby and takes no writes: name the primary in the store's URL, or all hosts"
        yield fix("standby", said)
        return
    for row in tx.all(_FOLLOWERS):
        if row.sync_state is None:
            said = "a standby follows, and this user may not see how: GRANT pg_read_all_stats to it, or look yourself"
            yield warn("standby", said)
        elif row.sync_state in ("async", "potential"):
            said = (
                f"{row.name or 'one'} follows asynchronously: after it is promoted, a decision can be lost, and a tool "
                "that had started can run twice. Set synchronous_standby_names, or never promote it"
            )
            yield warn("standby", said)
