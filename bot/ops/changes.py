"""The commands that change something: pause and resume, withdraw and revoke, retry."""

from __future__ import annotations

from uuid import uuid4

import click

from adk_confirm.blocks.text import visible
from adk_confirm.bot.audit.ledger import LineKind, stamp
from adk_confirm.bot.confirmation.confirmation import VoteKind
from adk_confirm.bot.ops.audit_show import calls_in
from adk_confirm.bot.ops.command import CommandLine, completed_from_store, options
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.store.audit_log import find_confirmation, too_short
from adk_confirm.bot.store.cast_vote import CastResult, SubmittedVote, cast
from adk_confirm.bot.store.grants_in_force import all_grants
from adk_confirm.bot.store.pause import pause_runs, resume_runs, switch_runs, write_operation
from adk_confirm.bot.store.repository import lock_confirmation, moment
from adk_confirm.runtime.errors import Conflict, NotFound
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.lease import topic_of

# Pause and resume: a switch that stops all runs, and that the cards show


@click.command()
@options(changes=True)
async def pause(call: CommandLine) -> None:
    """Hold approved calls until `adk-confirm resume`.

    Calls that are already running continue. People can still approve and deny. Messages to the agent wait as well.
    The card of each held call says that runs are paused.
    """
    async with call.changing() as database:
        changed = await switch_runs(database, pause_runs, call.person, call.reason)
    said = "Runs are paused. Approved calls start once you run `adk-confirm resume`; the cards say so."
    call.tell({"changed": changed}, said if changed else "Runs were already paused.")


@click.command()
@options(changes=True)
async def resume(call: CommandLine) -> None:
    """Start approved calls again, after `adk-confirm pause`."""
    async with call.changing() as database:
        changed = await switch_runs(database, resume_runs, call.person, call.reason)
    said = "Runs are resumed. Approved calls start now."
    call.tell({"changed": changed}, said if changed else "Runs were not paused.")


# Withdraw and revoke


@click.command()
@click.argument("id", shell_complete=calls_in("waiting"))
@options(changes=True)
async def withdraw(call: CommandLine, id: str) -> None:  # noqa: A002  (the argument's name on the command line)
    """Withdraw a call that waits for approval. It does not run, and the agent learns why.

    ID is the confirmation's, or the beginning of it; `adk-confirm pending` lists them.
    """
    found, done = await _cast(call, VoteKind.WITHDRAW, id)
    state = done.row.state
    if done.refusal is not None:
        raise Conflict(f"Confirmation {found} is already {done.refusal.state or state}, so it can't be withdrawn.")
    now = f"Confirmation {found} is withdrawn. The call did not run, and the agent learns why."
    said = now if done.counted else _WAITS.format(what="withdrawal of confirmation", id=found)
    call.tell({"id": found, "state": str(state), "counted": done.counted}, said)


@click.command()
@click.argument(
    "id", shell_complete=completed_from_store(lambda tx: ((one.id[:8], one.tool) for one in all_grants(tx)))
)
@options(changes=True)
async def revoke(call: CommandLine, id: str) -> None:  # noqa: A002  (the argument's name on the command line)
    """End a grant, so that calls like it ask again.

    ID is the grant's, or the beginning of it; `adk-confirm grants` lists them.
    """
    try:
        found, done = await _cast(call, VoteKind.REVOKE, id)
    except NotFound as error:
        said = f"There is no grant {id}.{too_short(id)} `adk-confirm grants` lists those in force."
        raise NotFound(said) from error
    if done.refusal is not None:
        raise Conflict(f"Grant {found} is not in force. `adk-confirm grants` lists those that are.")
    now = f"Grant {found} is revoked. Calls like it ask again."
    said = now if done.counted else _WAITS.format(what="revocation of grant", id=found)
    call.tell({"id": found, "counted": done.counted}, said)


_WAITS = (
    "The {what} {id} is stored. Votes that came before it are counted first; `adk-confirm audit show {id}` shows the "
    "result."
)


async def _cast(call: CommandLine, kind: VoteKind, name: str) -> tuple[str, CastResult]:
    """Casts the operator's vote, to withdraw a confirmation or to revoke a grant, which has the id of the confirmation
    that it was given with. It waits its turn like any other: votes stored earlier are counted first."""
    policies = call.settings.policies

    def cast_as_operator(tx: Tx) -> tuple[str, CastResult]:
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
            voter=call.person,
            reason=call.reason,
            way="command",
        )
        return confirmation, cast(tx, ballot, policies)

    async with call.changing() as database:
        return await database.run(cast_as_operator)


# Retry


@click.command()
@click.argument(
    "name",
    required=False,
    shell_complete=completed_from_store(lambda tx: ((str(one["name"]), str(one["kind"])) for one in read_parked(tx))),
)
@options(changes=True)
async def retry(call: CommandLine, name: str | None) -> None:
    """Retry work that failed so often that it is not retried any more.

    NAME is what `adk-confirm pending` lists, or the beginning of it. Without one, everything is retried.
    """
    async with call.changing() as database:
        rows = await database.run(_retry, name, call.person, call.reason)
    if name is not None and not rows:
        raise NotFound(f"No failed work has a name that begins with {name}. `adk-confirm pending` lists what failed.")
    lines = [f"{one['kind']} {one['name']} is retried. It had stopped because: {one['trouble']}" for one in rows]
    call.tell({"again": [*rows]}, *(map(visible, lines) if lines else ["Nothing needs a retry."]))


NAMED = 20
"""How many rows a ledger line names when all are retried."""

_PARKED = "SELECT kind, key, parked_at, trouble FROM jobs WHERE parked_at IS NOT NULL ORDER BY parked_at, kind"
_UNPARK = """
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


def _retry(tx: Tx, name: str | None, by: Person, reason: str | None) -> list[JsonObject]:
    """Retries parked rows whose name begins with `name`, or all of them, as if they had never failed."""
    found = [one for one in read_parked(tx) if name is None or str(one["name"]).startswith(name)]
    for one in found:
        tx.run(_UNPARK, kind=one["kind"], key=one["name"], now=tx.now())
        tx.notify(topic_of(str(one["kind"])))
    if found:
        named = ", ".join(f"{one['kind']} {one['name']}" for one in found[:NAMED])
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        write_operation(tx, LineKind.RETRIED, by, f"{named}{more}" + (f": {reason}" if reason else ""))
    return found
