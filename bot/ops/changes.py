"""The commands that change something: withdraw, revoke, reapply, retry, pause and resume."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from adk_confirm.bot.ops.command import CommandLine, options

if TYPE_CHECKING:
    from adk_confirm.bot.confirmation.model import VoteKind
    from adk_confirm.bot.store.cast_vote import CastResult
    from adk_confirm.runtime.jsontypes import JsonObject


@click.command()
@options(changes=True)
def pause(call: CommandLine) -> int:
    """Hold approved calls until `adk-confirm resume`.

    Calls that are already running continue. People can still approve and deny. Messages to the agent wait as well.
    The card of each held call says that runs are paused.
    """
    from adk_confirm.bot.ops.operate import pause_runs, switch_runs

    changed = call.change(lambda database: switch_runs(database, pause_runs, call.person, call.reason))
    now = "Runs are paused. Approved calls start once you run `adk-confirm resume`; the cards say so."
    call.tell({"changed": changed}, now if changed else "Runs were already paused.")
    return 0


@click.command()
@options(changes=True)
def resume(call: CommandLine) -> int:
    """Start approved calls again, after `adk-confirm pause`."""
    from adk_confirm.bot.ops.operate import resume_runs, switch_runs

    changed = call.change(lambda database: switch_runs(database, resume_runs, call.person, call.reason))
    now = "Runs are resumed. Approved calls start now."
    call.tell({"changed": changed}, now if changed else "Runs were not paused.")
    return 0


@click.command()
@click.argument("id")
@options(changes=True)
def withdraw(call: CommandLine, id: str) -> int:  # noqa: A002  (the argument's name on the command line)
    """Withdraw a call that waits for approval. It does not run, and the agent learns why.

    ID is the confirmation's, or the beginning of it; `adk-confirm pending` lists them.
    """
    from adk_confirm.bot.confirmation.model import VoteKind
    from adk_confirm.runtime.errors import Conflict

    found, done = _cast(call, VoteKind.WITHDRAW, id)
    state = done.row.state
    if done.refusal is not None:
        raise Conflict(f"Confirmation {found} is already {done.refusal.state or state}, so it can't be withdrawn.")
    now = f"Confirmation {found} is withdrawn. The call did not run, and the agent learns why."
    said = now if done.counted else _WAITS.format(what="withdrawal of confirmation", id=found)
    call.tell({"id": found, "state": str(state), "counted": done.counted}, said)
    return 0


@click.command()
@click.argument("id")
@options(changes=True)
def revoke(call: CommandLine, id: str) -> int:  # noqa: A002  (the argument's name on the command line)
    """End a grant, so that calls like it ask again.

    ID is the grant's, or the beginning of it; `adk-confirm grants` lists them.
    """
    from adk_confirm.bot.confirmation.model import VoteKind
    from adk_confirm.bot.store.audit_log import too_short
    from adk_confirm.runtime.errors import Conflict, NotFound

    try:
        found, done = _cast(call, VoteKind.REVOKE, id)
    except NotFound as error:
        said = f"There is no grant {id}.{too_short(id)} `adk-confirm grants` lists those in force."
        raise NotFound(said) from error
    if done.refusal is not None:
        raise Conflict(f"Grant {found} is not in force. `adk-confirm grants` lists those that are.")
    now = f"Grant {found} is revoked. Calls like it ask again."
    said = now if done.counted else _WAITS.format(what="revocation of grant", id=found)
    call.tell({"id": found, "counted": done.counted}, said)
    return 0


_WAITS = (
    "The {what} {id} is stored. Votes that came before it are counted first; `adk-confirm audit show {id}` shows the "
    "result."
)


def _cast(call: CommandLine, kind: VoteKind, name: str) -> tuple[str, CastResult]:
    from adk_confirm.bot.ops.operate import cast_as_operator

    ballot = (kind, name, call.person, call.reason, call.settings.policies)
    return call.change(lambda database: database.run(cast_as_operator, *ballot))


@click.command()
@click.argument("name", required=False)
@options(changes=True)
def retry(call: CommandLine, name: str | None) -> int:
    """Retry work that failed so often that it is not retried any more.

    NAME is what `adk-confirm pending` lists, or the beginning of it. Without one, everything is retried.
    """
    from adk_confirm.blocks.text import visible
    from adk_confirm.bot.ops.operate import retry
    from adk_confirm.runtime.errors import NotFound

    rows = call.change(lambda database: database.run(retry, name, call.person, call.reason))
    if name is not None and not rows:
        raise NotFound(f"No failed work has a name that begins with {name}. `adk-confirm pending` lists what failed.")
    lines = [f"{one['kind']} {one['name']} is retried. It had stopped because: {one['trouble']}" for one in rows]
    call.tell({"again": [*rows]}, *(map(visible, lines) if lines else ["Nothing needs a retry."]))
    return 0


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@options(changes=True)
def reapply(call: CommandLine, dry_run: bool) -> int:
    """Put waiting calls under the policies as they are in the file now.

    New calls come under a changed file at once. A call that waits stays under the policy that it was asked under,
    until you run this. An approval by somebody who may no longer decide stops counting. The exit code is 1 if a call
    could not be changed.
    """
    from adk_confirm.bot.ops.operate import open_to_change
    from adk_confirm.bot.ops.reapply import people_of, reapplied_line, reapply_all

    settings = call.settings

    async def run() -> list[JsonObject]:
        async with call.reading() if dry_run else open_to_change(settings, call.clock) as database:
            people = people_of(settings)
            found = reapply_all(database, people, settings.policies, call.person, call.reason, dry_run=dry_run)
            return [row async for row in found]

    rows = asyncio.run(run())
    left = sum(row["trouble"] is not None for row in rows)
    lines = [reapplied_line(row, dry_run=dry_run) for row in rows]
    lines = lines or ["Every waiting call is already under the policies in the file."]
    lines += [f"{left} left as they were: fix what is said above, then run this again."] if left else []
    call.tell({"rows": [*rows]}, *lines)
    return 1 if left else 0
