"""What the operator's commands do to a store, and where: in the service that owns it, or right here when none runs.

    done = await operate(settings, "pause", {}, pause_command)

A store on SQLite has one writing process. While the service runs it is asked by its control socket; else the command
opens the store itself. On PostgreSQL a command is one more replica for a moment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from bot.audit.fingerprint import Seal
from bot.config.reload import Reloading, same_policies
from bot.config.rules import Rules
from bot.config.settings import Settings
from bot.confirmation.model import VoteKind
from bot.operations.control import Handler, ask
from bot.operations.pause import pause, resume
from bot.operations.pending import unpark
from bot.operations.reapply import reapply_all
from bot.policy.approvers import OPERATOR
from bot.policy.model import Policies, Policy
from bot.store.audit_log import find_confirmation
from bot.store.open import HISTORY, open_beside, socket_path
from bot.store.purge import purge
from bot.store.repository import read_confirmation
from bot.store.transactions import Ballot, Cast, cast
from bot.telemetry.tallies import unscraped
from runtime.errors import Conflict, Invalid, NotFound
from runtime.jsontypes import Json, JsonObject
from runtime.store.database import Database, Tx
from runtime.store.migrate import migrate
from runtime.store.open import HISTORY as RUNTIME_HISTORY

if TYPE_CHECKING:
    from bot.worker.worker import PeopleLookup

Otherwise = Callable[[Database], Awaitable[JsonObject]]


# Where


async def operate(
    settings: Settings, command: str, arguments: JsonObject, otherwise: Otherwise, *, read_only: bool = False
) -> JsonObject:
    """What the service that owns the store has done; where nobody owns it, what `otherwise` does with it."""
    owner = socket_path(settings.store_url)
    if owner is not None:
        done = await ask(owner, command, arguments)
        if done is not None:
            return done
    secret = None if read_only else secret_of(settings)  # the ledger can't be written without it
    async with reading(settings.store_url) as database:
        if secret is None:
            return await otherwise(database)
    database = await open_beside(settings.store_url, secret)  # it is up to date: that was seen just now
    try:
        return await unscraped(database, otherwise)
    finally:
        await database.close()


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Database]:
    """The store as it is, beside whoever writes to it. Raises a sentence when there is none, or another version's."""
    database = await Database.open(url, read_only=True)
    try:
        for history in (RUNTIME_HISTORY, HISTORY):
            await migrate(database, history)
        yield database
    finally:
        await database.close()


def secret_of(settings: Settings) -> str:
    if settings.secret is None:
        raise Invalid(
            "There is no secret to seal with: set ADK_CONFIRM_SECRET (or the SLACK_SIGNING_SECRET, or the "
            "SLACK_BOT_TOKEN, that seals in its place) as the service has it."
        )
    return settings.secret.get_secret_value()


def rules_of(settings: Settings) -> Rules:
    return Rules(settings.policies, Seal(secret_of(settings), "call"))


# What


def operator_handlers(
    database: Database, rules: Rules, people: PeopleLookup, reloading: Reloading | None = None
) -> Mapping[str, Handler]:
    """The service's side of each command, for `serve_control`."""

    async def pause_(_: JsonObject) -> JsonObject:
        return await pause_command(database)

    async def resume_(_: JsonObject) -> JsonObject:
        return await resume_command(database)

    async def withdraw(arguments: JsonObject) -> JsonObject:
        return await withdraw_command(database, rules, _text(arguments, "id"))

    async def revoke(arguments: JsonObject) -> JsonObject:
        return await revoke_command(database, rules, _text(arguments, "id"))

    async def reapply(arguments: JsonObject) -> JsonObject:
        policies, dry_run = _policies(arguments), arguments.get("dry_run") is True
        if reloading is not None:
            await reloading.look()  # before what waits comes under the file, what is new does
        done = await reapply_command(database, people, replace(rules, policies=policies), dry_run=dry_run)
        return {**done, "restart": not dry_run and not same_policies(policies, rules.policies)}

    async def retry(arguments: JsonObject) -> JsonObject:
        name = arguments.get("name")
        return await retry_command(database, name if isinstance(name, str) else None)

    async def purge_(arguments: JsonObject) -> JsonObject:
        return await purge_command(database, datetime.fromisoformat(_text(arguments, "before")))

    return {
        "pause": pause_,
        "resume": resume_,
        "withdraw": withdraw,
        "revoke": revoke,
        "reapply": reapply,
        "retry": retry,
        "purge": purge_,
    }


async def pause_command(database: Database) -> JsonObject:
    return {"changed": await pause(database)}


async def resume_command(database: Database) -> JsonObject:
    return {"changed": await resume(database)}


async def withdraw_command(database: Database, rules: Rules, name: str) -> JsonObject:
    found, done = await database.run(cast_as_operator, name, VoteKind.WITHDRAW, rules)
    if done.refusal is not None:
        raise Conflict(
            f"Confirmation {found} is {done.refusal.state or done.row.state}: it can't be withdrawn any more."
        )
    return {"id": found, "state": str(done.row.state), "counted": done.settled}


async def revoke_command(database: Database, rules: Rules, name: str) -> JsonObject:
    """A grant has the id of the confirmation that it was given with."""
    found, done = await database.run(cast_as_operator, name, VoteKind.REVOKE, rules)
    if done.refusal is not None:
        raise Conflict(f"Confirmation {found} has no grant in force: there is nothing to revoke.")
    return {"id": found, "counted": done.settled}


async def retry_command(database: Database, name: str | None) -> JsonObject:
    """What stopped being tried is tried again."""
    found = await database.run(unpark, name)
    if name is not None and not found:
        raise NotFound(f"Nothing that begins with {name} stopped being tried. `adk-confirm pending` shows what did.")
    return {"again": [one.to_json() for one in found]}


def cast_as_operator(tx: Tx, name: str, kind: VoteKind, rules: Rules) -> tuple[str, Cast]:
    """The operator's word is a vote like another: one that was stored before it is heard before it."""
    confirmation = find_confirmation(tx, name)
    row = read_confirmation(tx, confirmation)
    if row is None:
        raise NotFound(f"Confirmation {confirmation} was purged: only its lines are left, nothing waits.")
    ballot = Ballot(
        id=uuid4().hex,
        confirmation=confirmation,
        revision=row.revision.number,
        kind=kind,
        voter=OPERATOR,
        way="command",
    )
    return confirmation, cast(tx, ballot, rules)


async def reapply_command(database: Database, people: PeopleLookup, rules: Rules, *, dry_run: bool) -> JsonObject:
    rows: list[Json] = [done.to_json() async for done in reapply_all(database, people, rules, dry_run=dry_run)]
    return {"rows": rows}


def reapply_arguments(policies: Policies, *, dry_run: bool) -> JsonObject:
    """The file as the operator's command has just read it: what it shows is what is applied."""
    return {"policies": [policy.freeze() for policy in policies.entries], "dry_run": dry_run}


async def purge_command(database: Database, before: datetime) -> JsonObject:
    return (await purge(database, before)).to_json()


def _policies(arguments: JsonObject) -> Policies:
    frozen = arguments.get("policies")
    if not isinstance(frozen, list):
        raise Invalid("The command brought no policies.")
    return Policies(tuple(Policy.thaw(one) for one in frozen))


def _text(arguments: JsonObject, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise Invalid(f"The command brought no {name}.")
    return value
