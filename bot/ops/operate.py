"""Opens the store for a command, and does what operators change.

    async with open_to_change(settings) as store:
        await switch_runs(store, pause_runs)

A command writes to the store itself. On SQLite it does so beside the service, if one runs, and the service notices
within a second. On PostgreSQL it works like one more replica.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

from adk_confirm.bot.audit.ledger import SYSTEM, LineKind, stamp
from adk_confirm.bot.config.settings import Settings
from adk_confirm.bot.confirmation.effects import Step
from adk_confirm.bot.confirmation.model import VoteKind
from adk_confirm.bot.confirmation.states import Transition, next_version
from adk_confirm.bot.policy.approvers import OPERATOR, Person
from adk_confirm.bot.policy.model import Policies
from adk_confirm.bot.policy.redaction import own_words
from adk_confirm.bot.store.audit_log import find_confirmation
from adk_confirm.bot.store.cast_vote import CastResult, SubmittedVote, cast
from adk_confirm.bot.store.ledger_lines import write_step
from adk_confirm.bot.store.mailbox import PAUSED
from adk_confirm.bot.store.open import SCHEMAS, open_beside, sqlite_file
from adk_confirm.bot.store.repository import lock_confirmation, moment, now, save
from adk_confirm.runtime.errors import Invalid, NotFound, StoreError
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.lease import topic_of
from adk_confirm.runtime.store.schema_version import lay_out

Clock = Callable[[], float]

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
        raise NotFound(
            f"There is no store at {path} yet. `adk-confirm serve` makes it when it first starts. If the service uses "
            "another one, name its settings with --config."
        )
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
    if settings.environment.sealing_secret is None:
        raise Invalid(
            "There is no secret to sign the ledger with. Set ADK_CONFIRM_SECRET as the service has it (or the "
            "SLACK_SIGNING_SECRET or SLACK_BOT_TOKEN that it uses instead)."
        )
    return settings.environment.sealing_secret.get_secret_value()


# Withdraw and revoke


def cast_as_operator(
    tx: Tx, kind: VoteKind, name: str, by: Person, reason: str | None, policies: Policies
) -> tuple[str, CastResult]:
    """Casts the operator's vote, to withdraw a confirmation or to revoke a grant, which has the id of the confirmation
    that it was given with. It waits its turn like any other: votes stored earlier are counted first."""
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
        voter=by,
        reason=reason,
        way="command",
    )
    return confirmation, cast(tx, ballot, policies)


# Pause and resume: a switch that stops all runs, and that the cards show

AT_ONCE = 50
"""How many cards one transaction marks for drawing. Clicks get their turn between two of them."""


async def switch_runs(
    database: Database,
    turn: Callable[[Tx, Person, str | None], bool],
    by: Person = OPERATOR,
    reason: str | None = None,
) -> bool:
    """Pauses or resumes, and has the cards drawn. Returns False if nothing changed."""
    changed = await database.run(turn, by, reason)
    after: str | None = ""
    while after is not None:  # even if nothing changed, since an earlier command may have been stopped halfway
        after = await database.run(mark_for_drawing, after)
    return changed


def pause_runs(tx: Tx, by: Person, reason: str | None) -> bool:
    """Stops starting calls; running calls may finish. Returns False if runs were paused already."""
    named = by.user if by != OPERATOR else None
    row = {"name": PAUSED, "value": canonical({"at": stamp(now(tx)), "by": named, "reason": reason})}
    if not tx.insert("bot_switches", row, if_absent=True):
        return False
    _write(tx, LineKind.PAUSED, by, reason)
    return True


def resume_runs(tx: Tx, by: Person, reason: str | None) -> bool:
    """Ends the pause. Returns False if runs were not paused."""
    if not tx.run("DELETE FROM bot_switches WHERE name = :name", name=PAUSED):
        return False
    _write(tx, LineKind.RESUMED, by, reason)
    return True


def mark_for_drawing(tx: Tx, after: str, at_once: int = AT_ONCE) -> str | None:
    """Marks the cards of calls that wait, or are approved and have not started, for drawing. Returns where to
    continue."""
    ids = tx.column(_OPEN, after=after, most=at_once)
    for confirmation in ids:
        session, row = lock_confirmation(tx, confirmation)
        save(tx, session, Transition(row=next_version(row, now(tx))))
    return str(ids[-1]) if len(ids) == at_once else None


_OPEN = """
    SELECT id FROM bot_confirmations
    WHERE (state = 'waiting' OR (state = 'approved' AND outcome IS NULL)) AND id > :after ORDER BY id LIMIT :most
"""


def _write(tx: Tx, kind: LineKind, by: Person, said: str | None) -> None:
    write_step(tx, SYSTEM, Step(kind=kind, at=now(tx), who=by, text=own_words(said) if said else None))


# Retry

NAMED = 20
"""How many rows a ledger line names when all are retried."""

_PARKED = "SELECT kind, key, parked_at, trouble FROM jobs WHERE parked_at IS NOT NULL ORDER BY parked_at, kind"
_RETRY = """
    UPDATE jobs SET parked_at = NULL, failures = 0, trouble = NULL, due_at = :now WHERE kind = :kind AND key = :key
"""


def read_parked(tx: Tx) -> list[JsonObject]:
    """What failed so often that it is not retried."""
    return [
        {
            "kind": row.kind,
            "name": row.key,
            "since": stamp(moment(row.parked_at)),
            "trouble": row.trouble or "it does not say why",
        }
        for row in tx.all(_PARKED)
    ]


def retry(tx: Tx, name: str | None, by: Person, reason: str | None) -> list[JsonObject]:
    """Retries parked rows whose name begins with `name`, or all of them, as if they had never failed."""
    found = [one for one in read_parked(tx) if name is None or str(one["name"]).startswith(name)]
    for one in found:
        tx.run(_RETRY, kind=one["kind"], key=one["name"], now=tx.now())
        tx.notify(topic_of(str(one["kind"])))
    if found:
        named = ", ".join(f"{one['kind']} {one['name']}" for one in found[:NAMED])
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        _write(tx, LineKind.RETRIED, by, f"{named}{more}" + (f": {reason}" if reason else ""))
    return found
