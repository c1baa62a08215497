"""The commands that change a store. They run in the service that owns the store, or in the command's own process.

    done = await operate(settings, "pause", {"by": "lee"})

Only one process writes to a SQLite store. While the service runs, the command asks it through the control socket;
otherwise the command opens the store itself. On PostgreSQL a command works like one more replica. `OPERATIONS` has the
functions for both ways.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from bot.audit.fingerprint import Fingerprints
from bot.config.reload import PolicyReloader, same_policies
from bot.config.rules import Rules, RulesInForce
from bot.config.settings import Settings
from bot.confirmation.model import VoteKind
from bot.operations.control import Handler, ask
from bot.operations.pause import pause, resume
from bot.operations.pending import retry
from bot.operations.reapply import reapply_all
from bot.policy.approvers import OPERATOR, Person, operator
from bot.policy.model import Policies, Policy
from bot.store.audit_log import find_confirmation, too_short
from bot.store.casting import CastResult, SubmittedVote, cast
from bot.store.open import SCHEMAS, open_beside, socket_path
from bot.store.purge import purge
from bot.store.repository import read_confirmation
from bot.telemetry.tallies import leave_for_scraping
from runtime.errors import Conflict, Invalid, NotFound
from runtime.jsontypes import Json, JsonObject
from runtime.store.database import Database, Tx
from runtime.store.schema import lay_out

if TYPE_CHECKING:
    from bot.worker.background_lookup import PeopleLookup

Clock = Callable[[], float]

UNSIGNED = (
    "There is no secret to sign the ledger with. Set ADK_CONFIRM_SECRET as the service has it (or the "
    "SLACK_SIGNING_SECRET or SLACK_BOT_TOKEN that it uses instead)."
)
NO_STORE = (
    "There is no store at {path} yet. `adk-confirm serve` makes it when it first starts. If the service uses another "
    "one, name its settings with --config."
)


@dataclass(frozen=True)
class OperatorContext:
    """What an operation works with. In the service these are the service's own parts."""

    database: Database
    rules: RulesInForce
    people: PeopleLookup
    reloading: PolicyReloader | None = None


@dataclass(frozen=True)
class CommandRequest:
    """What an operator asks for: the arguments from the control socket or from the command itself."""

    arguments: JsonObject

    @property
    def by(self) -> Person:
        """The operator."""
        name = self.arguments.get("by")
        if name is None:
            return OPERATOR
        try:
            return operator(str(name))
        except ValueError as error:
            raise Invalid(f"The operator's name {error}.") from error

    @property
    def reason(self) -> str | None:
        return self.maybe("reason")

    def maybe(self, name: str) -> str | None:
        value = self.arguments.get(name)
        return value if isinstance(value, str) and value else None

    def text(self, name: str) -> str:
        if (value := self.maybe(name)) is None:
            raise Invalid(f"The command has no {name}.")
        return value


Operation = Callable[[OperatorContext, CommandRequest], Awaitable[JsonObject]]


# Where


async def operate(
    settings: Settings, name: str, arguments: JsonObject, *, read_only: bool = False, clock: Clock | None = None
) -> JsonObject:
    """Lets the service that owns the store run the operation. Runs it here if no service owns the store."""
    owner = socket_path(settings.store_url)
    if owner is not None and (done := await ask(owner, name, arguments)) is not None:
        return done
    secret, rules = secret_of(settings), rules_of(settings)

    async def work(database: Database) -> JsonObject:
        people = _people(settings)
        return await OPERATIONS[name](OperatorContext(database, RulesInForce(rules), people), CommandRequest(arguments))

    async with open_for_reading(settings.store_url, clock) as database:
        if read_only:
            return await work(database)
    database = await open_beside(settings.store_url, secret, clock)  # `reading` has just seen that it is up to date
    try:
        return await leave_for_scraping(database, work)
    finally:
        await database.close()


def operator_handlers(context: OperatorContext) -> Mapping[str, Handler]:
    """The service's function for each operation, for `serve_control`."""

    async def handle(run: Operation, arguments: JsonObject) -> JsonObject:
        return await run(context, CommandRequest(arguments))

    return {name: partial(handle, run) for name, run in OPERATIONS.items()}


@asynccontextmanager
async def open_for_reading(url: str, clock: Clock | None = None) -> AsyncIterator[Database]:
    """The store, opened read-only while another process may write to it. Raises an error with a sentence if it does not
    exist or does not fit."""
    path = Path(url.partition("///")[2]) if url.startswith("sqlite") else None
    if path is not None and not path.exists():
        raise NotFound(NO_STORE.format(path=path))
    database = await Database.open(url, clock=clock, read_only=True)
    try:
        for schema in SCHEMAS:
            await lay_out(database, schema)
        yield database
    finally:
        await database.close()


def secret_of(settings: Settings) -> str:
    if settings.secret is None:
        raise Invalid(UNSIGNED)
    return settings.secret.get_secret_value()


def rules_of(settings: Settings) -> Rules:
    return Rules(settings.policies, Fingerprints(secret_of(settings), "call"))


def _people(settings: Settings) -> PeopleLookup:
    """A directory of the command's own. It asks Slack only when an operation needs it."""
    from bot.slack.directory.directory import Directory
    from bot.slack.identity import slack_client
    from bot.slack.outbound.calls import Calls
    from bot.slack.outbound.client import Sender

    return Directory(Sender(Calls(slack_client(settings))))


# What


async def _pause(context: OperatorContext, command: CommandRequest) -> JsonObject:
    return {"changed": await pause(context.database, command.by, command.reason)}


async def _resume(context: OperatorContext, command: CommandRequest) -> JsonObject:
    return {"changed": await resume(context.database, command.by, command.reason)}


async def _withdraw(context: OperatorContext, command: CommandRequest) -> JsonObject:
    found, done = await context.database.run(cast_as_operator, VoteKind.WITHDRAW, command, context.rules.now)
    if done.refusal is not None:
        state = done.refusal.state or done.row.state
        raise Conflict(f"Confirmation {found} is already {state}, so it can't be withdrawn.")
    return {"id": found, "state": str(done.row.state), "counted": done.counted}


async def _revoke(context: OperatorContext, command: CommandRequest) -> JsonObject:
    """A grant has the id of the confirmation that it was given with."""
    try:
        found, done = await context.database.run(cast_as_operator, VoteKind.REVOKE, command, context.rules.now)
    except NotFound as error:
        name = command.text("id")
        said = f"There is no grant {name}.{too_short(name)} `adk-confirm grants` lists those in force."
        raise NotFound(said) from error
    if done.refusal is not None:
        raise Conflict(f"Grant {found} is not in force. `adk-confirm grants` lists those that are.")
    return {"id": found, "counted": done.counted}


async def _retry(context: OperatorContext, command: CommandRequest) -> JsonObject:
    """Retries what is parked."""
    name = command.maybe("name")
    found = await context.database.run(retry, name, command.by, command.reason)
    if name is not None and not found:
        raise NotFound(f"No failed work has a name that begins with {name}. `adk-confirm pending` lists what failed.")
    return {"again": [one.to_json() for one in found]}


async def _reapply(context: OperatorContext, command: CommandRequest) -> JsonObject:
    policies, dry_run = _policies(command.arguments), command.arguments.get("dry_run") is True
    if context.reloading is not None:
        await context.reloading.look()  # new calls come under the file's policies first, then those that wait
    rules = replace(context.rules.now, policies=policies)
    found = reapply_all(context.database, context.people, rules, dry_run=dry_run, by=command.by, reason=command.reason)
    rows: list[Json] = [done.to_json() async for done in found]
    restart = not dry_run and not same_policies(policies, context.rules.now.policies)
    return {"rows": rows, "restart": restart}


async def _purge(context: OperatorContext, command: CommandRequest) -> JsonObject:
    return (await purge(context.database, datetime.fromisoformat(command.text("before")))).to_json()


OPERATIONS: Mapping[str, Operation] = {
    "pause": _pause,
    "resume": _resume,
    "withdraw": _withdraw,
    "revoke": _revoke,
    "retry": _retry,
    "reapply": _reapply,
    "purge": _purge,
}


def cast_as_operator(tx: Tx, kind: VoteKind, command: CommandRequest, rules: Rules) -> tuple[str, CastResult]:
    """Casts the operator's vote. It waits its turn like any other: votes stored earlier are counted first."""
    confirmation = find_confirmation(tx, command.text("id"))
    row = read_confirmation(tx, confirmation)
    if row is None:
        raise NotFound(f"Confirmation {confirmation} was purged: only its ledger lines are left.")
    ballot = SubmittedVote(
        id=uuid4().hex,
        confirmation=confirmation,
        revision=row.revision.number,
        kind=kind,
        voter=command.by,
        reason=command.reason,
        way="command",
    )
    return confirmation, cast(tx, ballot, rules)


def reapply_arguments(policies: Policies, *, dry_run: bool) -> JsonObject:
    """The policies that the command has just read, so that the service applies what the command shows."""
    return {"policies": [policy.freeze() for policy in policies.entries], "dry_run": dry_run}


def _policies(arguments: JsonObject) -> Policies:
    frozen = arguments.get("policies")
    if not isinstance(frozen, list):
        raise Invalid("The command has no policies.")
    return Policies(tuple(Policy.thaw(one) for one in frozen))
