"""`adk-confirm check`: checks the settings, the store, the agent, the policies, and Slack."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import escape
from typing import TypeVar

import aiohttp
import click

from adk_confirm.blocks.text import visible
from adk_confirm.bot.config.settings import Listening, McpServerSettings, Settings, load_what_fits, serving_problems
from adk_confirm.bot.hosts.open_host import open_host
from adk_confirm.bot.hosts.plugin import NOT_SIGNED, NOT_TAKEN, NOT_WANTED, PREVENTS
from adk_confirm.bot.ops.check_slack import check_app_token, check_workspace
from adk_confirm.bot.ops.command import CommandLine, options, paint, tell
from adk_confirm.bot.ops.findings import (
    NAMING,
    Finding,
    Severity,
    Tools,
    coverage,
    coverage_findings,
    door_findings,
    fine,
    fix,
    model_findings,
    note,
    table,
    tools_of,
    warn,
)
from adk_confirm.bot.policy.approvers import ApproverKind
from adk_confirm.bot.policy.checks import Problem
from adk_confirm.bot.slack.own_identity import slack_client
from adk_confirm.bot.store.known_names import KnownNames
from adk_confirm.bot.store.open import SCHEMAS, not_for, sqlite_file
from adk_confirm.runtime.adk.signing import PluginSays
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.rest.listening import why_not_listening
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.private_files import FILE, FOLDER
from adk_confirm.runtime.store.tables import SEALED_OTHERWISE, belongings, secret_fits, version
from adk_confirm.runtime.target import load_object

R = TypeVar("R")
PATIENCE, LISTS_WITHIN = 30.0, 10.0
"""Seconds after which an agent, its server or a server of its tools counts as unreachable; and a server of the door."""
WIDTH = 20
_ANSWERS_WITHIN, _ENOUGH = 2.0, 10_000
"""Seconds and bytes that an answer at our port may take when `_listening` asks who has it."""
_NONE = (None, (), True, False)
_COLOURS = {Severity.OK: "green", Severity.NOTE: "cyan", Severity.WARN: "yellow", Severity.FIX: "red"}


@click.command()
@options(json=True)
async def check(call: CommandLine) -> int:
    """Check settings, Slack, store and agent before starting.

    It changes nothing, and may run beside the service. On a server of google-adk it asks whether our plugin is there,
    in a session that it deletes. The exit code is 1 if something must be fixed.
    """
    found: list[Finding] = []
    covered: list[JsonObject] = []
    names: dict[str, str] = {}
    settings, problems = load_what_fits(call.config, os.environ)
    width = max([WIDTH, *(len(str(who)) for who in settings.policies.named)])
    async for finding in checks(settings, problems, covered, names):
        found.append(finding)
        if not call.json:  # each as soon as it is known
            mark = paint(f"{finding.mark:<4}", _COLOURS[finding.mark])
            # Servers choose the names of their tools.
            tell(f"{mark} {visible(f'{finding.what:<{width}}  {finding.said}', keep=chr(10))}")
    broken = sum(finding.mark is Severity.FIX for finding in found)
    lines = ["", *map(visible, table(covered, settings.policies, KnownNames(names)))] if covered else []
    call.tell(
        {
            "findings": [{"what": one.what, "mark": str(one.mark), "said": one.said} for one in found],
            "tools": [*covered],
        },
        *(*lines, "", f"{broken} to fix." if broken else "Nothing to fix."),
    )
    return 1 if broken else 0


async def checks(
    settings: Settings, problems: Sequence[Problem], covered: list[JsonObject], names: dict[str, str]
) -> AsyncIterator[Finding]:
    """Makes all checks, even if some fail; wrong parts of the settings are not checked further. Fills `covered`, if the
    agent's tools can be listed, and `names`, with what Slack calls the people and groups that the policies name."""
    wrong = {problem.key.partition(" ")[0].partition(".")[0] for problem in problems}
    for problem in (*problems, *(one for one in serving_problems(settings, os.environ) if one.key not in wrong)):
        yield fix("settings", str(problem))
    for warning in settings.warnings if "policy" not in wrong else ():
        yield warn("settings", str(warning))
    if "slack" not in wrong:
        yield await _listening(settings.slack, "[slack] listen")
    if settings.door is not None:
        yield await _listening(settings.door, "[door] listen")
        for finding in door_findings(settings, os.environ):
            yield finding
        for finding in await asyncio.gather(*map(_server, settings.door.server)):
            yield finding
    if (key := settings.environment.signer) is not None:
        yield fine("checkpoints", f"they are signed; the public key is {key.public}")
    owner: dict[str, str] = {}  # of the store
    async for finding in _store(settings, owner):
        yield finding
    loads = True
    async for finding in _agent(settings, owner):
        loads = loads and finding.mark is not Severity.FIX
        yield finding
    tools: Tools | None = None
    try:
        if loads and settings.agent is not None:
            for finding in model_findings(settings.agent):
                yield finding
            tools = await _within_patience(tools_of(settings.agent))
    except ConfirmError as error:
        yield fix("tools", str(error))
    if tools is not None:
        yield fine("tools", f"{len(tools)}; {sum(tool.may_ask for tool in tools.values())} may need approval")
    for finding in _policies(settings) if "policy" not in wrong else ():
        yield finding
    if tools is not None and "policy" not in wrong:
        covered += coverage(settings.policies, tools)
        for finding in coverage_findings(settings.policies, tools):
            yield finding
    elif loads:
        given = [key for key in NAMING if any(getattr(one, key) not in _NONE for one in settings.policies.entries)]
        if given:
            said = f"they can't be listed from here, so check the names in {', '.join(given)} yourself"
            yield note("tools", said)
    if settings.environment.app_token is not None:
        yield await check_app_token(settings.environment)
    if settings.environment.bot_token is not None:
        async for finding in check_workspace(slack_client(settings, patient=True), settings, names, owner):
            yield finding
        return
    people = sorted(str(who) for who in settings.policies.named if who.kind is not ApproverKind.PYTHON)
    if named := [*settings.channels, *people]:
        yield note("Slack", f"not looked up, since SLACK_BOT_TOKEN is not set: {', '.join(named)}")


async def _listening(settings: Listening, key: str) -> Finding:
    """Whether the port is free, or the service has it already."""
    host, port = settings.host, settings.port
    try:
        (await asyncio.start_server(lambda *_: None, host, port)).close()
    except OSError as error:
        with suppress(aiohttp.ClientError, TimeoutError):
            patience = aiohttp.ClientTimeout(total=_ANSWERS_WITHIN)
            async with (
                aiohttp.ClientSession(timeout=patience) as http,
                http.get(f"http://{settings.listen}/metrics") as answer,
            ):
                said = await answer.content.read(_ENOUGH)
                if b"adk_confirm_" in said or b"a caller of this door" in said:
                    return fine("listen", f"the service answers at {settings.listen} already")
        return fix("listen", why_not_listening(error, host, port, key))
    return fine("listen", f"{settings.listen} is free")


# The store


async def _store(settings: Settings, owner: dict[str, str]) -> AsyncIterator[Finding]:
    about_files = check_files(settings.store_url)
    if about_files is not None:
        yield about_files
        return
    try:
        seal = settings.environment.seal
        database = await Database.open(settings.store_url, read_only=True, context=seal)
    except ConfirmError as error:
        yield fix("store", str(error))
        return
    try:
        yield fine("store", f"{database.url} answers")
        for finding in readable_by_others(settings.store_url):
            yield finding
        versions = [(schema, await database.read(version, schema)) for schema in SCHEMAS]
        for schema, at in versions:
            what, why = f"tables of {schema.package}", schema.misfit(at)
            if why is None:
                yield fine(what, f"of version {at}")
            elif at and at > schema.version:
                yield fix(what, why)
            else:
                yield fine(what, f"of version {at or 'none'}; `adk-confirm serve` makes them")
        owner.update(await database.read(belongings))
        if seal is not None and all(at == schema.version for schema, at in versions):
            fits = await database.read(secret_fits, SCHEMAS)
            yield fine("secret", "fits the store") if fits else fix("secret", SEALED_OTHERWISE)
            if settings.environment.accepted_secret is not None:
                said = "is accepted too: run `adk-confirm reseal` once every replica has the new one, then remove it"
                yield note("ADK_CONFIRM_SECRET_ACCEPTED", said)
        if database.dialect == "postgresql":
            for finding in await database.read(lambda tx: [*_of_postgresql(tx)]):
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


def check_files(url: str) -> Finding | None:
    """The finding that the file does not exist yet, or that it or its folder can't be written to."""
    path = sqlite_file(url)
    if path is None:
        return None
    folder = path.resolve().parent
    if path.exists():
        who = "run this as the service's user, and let both belong to that user"
        writable = os.access(path, os.W_OK) and os.access(folder, os.W_OK)
        return None if writable else fix("store", f"{path} and its folder can't be written to: {who}")
    if folder.is_dir() and os.access(folder, os.W_OK):
        return fine("store", f"{path} is not there yet; `adk-confirm serve` makes it")
    return fix("store", f"{folder} is not a directory that can be written to: make it, or change [store] url")


# The agent


async def _agent(settings: Settings, owner: Mapping[str, str]) -> AsyncIterator[Finding]:
    agent = settings.agent
    if agent is None:
        return
    database = await Database.open(":memory:")  # an agent in this process wants one; nothing is put there
    try:
        host = await _within_patience(open_host(agent, database, store_url=settings.store_url))
        try:
            about = await _within_patience(host.capabilities())
            plugin = await _within_patience(about.ask_plugin()) if about.ask_plugin is not None else None
        finally:
            await host.close()
    except ConfirmError as error:
        yield fix("agent", str(error))
        return
    finally:
        await database.close()
    where = agent.url or agent.target
    yield fine("agent", f"{where} is {host.app}, on {about.name}")
    if (why := not_for(owner, agent=host.app)) is not None:
        yield fix("store", why)
    signs = agent.secret_env is not None
    if plugin is PluginSays.NOT_SIGNED:
        yield fix("plugin", NOT_TAKEN if signs else NOT_SIGNED)
    elif plugin is PluginSays.FITS:
        yield fine("plugin", "it answers on the server, and takes only answers that this app signed")
    elif signs:
        yield warn("plugin", NOT_WANTED)
    elif plugin is PluginSays.OPEN:
        yield fine("plugin", "it answers on the server, and asks for no signature")
    for said in about.notes:
        if said not in PREVENTS[plugin]:
            yield note("agent", said)


async def _server(settings: McpServerSettings) -> Finding:
    """Whether an MCP server of the door lists its tools."""
    from adk_confirm.bot.door.host import toolset_of

    what, server = f"server {settings.name}", toolset_of(settings)
    try:
        tools = await _within_patience(server.tools(), LISTS_WITHIN)
    except ConfirmError as error:
        return fix(what, f"its calls are refused: {error}")
    finally:
        await server.close()
    return fine(what, f"it has {len(tools)} tools") if tools else warn(what, "it has no tools")


async def _within_patience(work: Awaitable[R], seconds: float = PATIENCE) -> R:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise ConfirmError(
            f"No answer within {seconds:g} seconds. Check that its server runs, and its address."
        ) from None


# The policies


def _policies(settings: Settings) -> list[Finding]:
    entries = settings.policies.entries
    if not entries:
        return [fix("policies", "there is none, so every call that needs approval is refused: write a [[policy]]")]
    found = [fine("policies", f"{len(entries)} in the file")]
    for target in sorted(settings.policies.functions):
        what = f"python:{target}"
        try:
            function = load_object(target)
        except ConfirmError as error:
            found.append(fix(what, str(error)))
            continue
        wrong = "is not a function: name one that takes a call and returns user ids"
        found.append(fine(what, "can be called") if callable(function) else fix(what, wrong))
    return found


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


def _of_postgresql(tx: Tx) -> Iterator[Finding]:
    for name, setting in tx.all(_SETTINGS, names=[*_RISKS, *_ENDLESS]):
        if setting == "off":
            yield warn(name, f"is off: {_RISKS[name]}. Set {name} = on")
        if setting == "0":  # each connection asks for a time: something between here and there dropped that
            yield warn(name, f"is 0: {_ENDLESS[name]}. Set it for this database, or connect without a pooler")
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
