"""Opens the store for a command, and does what a few of them change.

    async with open_to_change(settings) as store:
        await withdraw(store, "0a1b2c")

A command writes to the store itself. On SQLite it does so beside the service, if one runs, and the service notices
within a second. On PostgreSQL it works like one more replica.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

from bot.config.settings import Settings
from bot.confirmation.model import VoteKind
from bot.policy.approvers import OPERATOR, Person, operator
from bot.policy.model import Policies
from bot.store.audit_log import find_confirmation, too_short
from bot.store.casting import CastResult, SubmittedVote, cast
from bot.store.open import SCHEMAS, open_beside, sqlite_file
from bot.store.repository import lock_confirmation
from runtime.errors import Conflict, Invalid, NotFound, StoreError
from runtime.jsontypes import JsonObject
from runtime.store.database import Database, Tx
from runtime.store.schema import lay_out

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
class Operator:
    """Who runs a command, and why."""

    person: Person = OPERATOR
    reason: str | None = None

    @classmethod
    def named(cls, name: str | None, reason: str | None) -> Operator:
        return cls(OPERATOR if name is None else operator(name), reason)


NOBODY_NAMED = Operator()


# The store


@asynccontextmanager
async def open_to_change(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Database]:
    """The store, to write to it, whether or not a service runs."""
    secret = secret_of(settings)
    async with open_for_reading(settings.store_url, clock):
        pass  # it exists, and fits
    database = await open_beside(settings.store_url, secret, clock)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def open_for_reading(url: str, clock: Clock | None = None) -> AsyncIterator[Database]:
    """The store, opened read-only while another process may write to it. Raises an error with a sentence if it does not
    exist or does not fit."""
    path = sqlite_file(url)
    if path is not None and not os.path.exists(path):  # noqa: ASYNC240  (one stat)
        raise NotFound(NO_STORE.format(path=path))
    if path is not None and not os.access(path, os.R_OK):
        raise StoreError(f"{path} belongs to another user. Run this command as the user that runs the service.")
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


# What


async def withdraw(database: Database, policies: Policies, name: str, by: Operator) -> JsonObject:
    found, done = await database.run(cast_as_operator, VoteKind.WITHDRAW, name, by, policies)
    if done.refusal is not None:
        state = done.refusal.state or done.row.state
        raise Conflict(f"Confirmation {found} is already {state}, so it can't be withdrawn.")
    return {"id": found, "state": str(done.row.state), "counted": done.counted}


async def revoke(database: Database, policies: Policies, name: str, by: Operator) -> JsonObject:
    """A grant has the id of the confirmation that it was given with."""
    try:
        found, done = await database.run(cast_as_operator, VoteKind.REVOKE, name, by, policies)
    except NotFound as error:
        said = f"There is no grant {name}.{too_short(name)} `adk-confirm grants` lists those in force."
        raise NotFound(said) from error
    if done.refusal is not None:
        raise Conflict(f"Grant {found} is not in force. `adk-confirm grants` lists those that are.")
    return {"id": found, "counted": done.counted}


def cast_as_operator(tx: Tx, kind: VoteKind, name: str, by: Operator, policies: Policies) -> tuple[str, CastResult]:
    """Casts the operator's vote. It waits its turn like any other: votes stored earlier are counted first."""
    confirmation = find_confirmation(tx, name)
    try:
        _, row = lock_confirmation(tx, confirmation)
    except NotFound as error:
        raise NotFound(f"Confirmation {confirmation} was purged: only its ledger lines are left.") from error
    ballot = SubmittedVote(
        id=uuid4().hex,
        confirmation=confirmation,
        revision=row.revision.number,
        kind=kind,
        voter=by.person,
        reason=by.reason,
        way="command",
    )
    return confirmation, cast(tx, ballot, policies)
