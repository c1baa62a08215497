"""The commands that change something: withdraw, revoke, reapply, retry, pause and resume."""

from __future__ import annotations

import asyncio

import click

from bot.ops import command_texts
from bot.ops.command import CommandLine, options


@click.command()
@options(changes=True)
def pause(call: CommandLine) -> int:
    """Hold approved calls until `adk-confirm resume`.

    Calls that are already running continue. People can still approve and deny. Messages to the agent wait as well.
    The card of each held call says that runs are paused.
    """
    from bot.ops.pause import pause

    by = call.operator
    changed = call.change(lambda database: pause(database, by.person, by.reason))
    call.tell({"changed": changed}, command_texts.PAUSED[changed])
    return 0


@click.command()
@options(changes=True)
def resume(call: CommandLine) -> int:
    """Start approved calls again, after `adk-confirm pause`."""
    from bot.ops.pause import resume

    by = call.operator
    changed = call.change(lambda database: resume(database, by.person, by.reason))
    call.tell({"changed": changed}, command_texts.RESUMED[changed])
    return 0


@click.command()
@click.argument("id")
@options(changes=True)
def withdraw(call: CommandLine, id: str) -> int:  # noqa: A002  (the argument's name on the command line)
    """Withdraw a call that waits for approval. It does not run, and the agent learns why.

    ID is the confirmation's, or the beginning of it; `adk-confirm pending` lists them.
    """
    from bot.ops.operate import withdraw

    done = call.change(lambda database: withdraw(database, call.settings.policies, id, call.operator))
    call.tell(
        done, (command_texts.WITHDRAWN if done["counted"] else command_texts.WITHDRAWAL_WAITS).format(id=done["id"])
    )
    return 0


@click.command()
@click.argument("id")
@options(changes=True)
def revoke(call: CommandLine, id: str) -> int:  # noqa: A002  (the argument's name on the command line)
    """End a grant, so that calls like it ask again.

    ID is the grant's, or the beginning of it; `adk-confirm grants` lists them.
    """
    from bot.ops.operate import revoke

    done = call.change(lambda database: revoke(database, call.settings.policies, id, call.operator))
    call.tell(
        done, (command_texts.REVOKED if done["counted"] else command_texts.REVOCATION_WAITS).format(id=done["id"])
    )
    return 0


@click.command()
@click.argument("name", required=False)
@options(changes=True)
def retry(call: CommandLine, name: str | None) -> int:
    """Retry work that failed so often that it is not retried any more.

    NAME is what `adk-confirm pending` lists, or the beginning of it. Without one, everything is retried.
    """
    from blocks.text import visible
    from bot.ops.waiting import retry
    from runtime.errors import NotFound

    by = call.operator
    done = call.change(lambda database: database.run(retry, name, by.person, by.reason))
    if name is not None and not done:
        raise NotFound(f"No failed work has a name that begins with {name}. `adk-confirm pending` lists what failed.")
    rows = [one.to_json() for one in done]
    again = [visible(command_texts.RETRIED.format_map(row)) for row in rows]
    call.tell({"again": [*rows]}, *(again or [command_texts.NOTHING_TO_RETRY]))
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
    from bot.ops.operate import open_for_reading, open_to_change
    from bot.ops.reapply import ReapplyResult, people_of, reapply_all

    settings, clock = call.settings, call.clock

    async def run() -> list[ReapplyResult]:
        opened = open_for_reading(settings.store_url, clock) if dry_run else open_to_change(settings, clock)
        async with opened as database:
            found = reapply_all(database, people_of(settings), settings.policies, dry_run=dry_run, by=call.operator)
            return [row async for row in found]

    rows = asyncio.run(run())
    left = sum(row.trouble is not None for row in rows)
    lines = [command_texts.reapplied(row, dry_run=dry_run) for row in rows] or [command_texts.NOTHING_TO_REAPPLY]
    lines += [command_texts.LEFT.format(count=left)] if left else []
    call.tell({"rows": [row.to_json() for row in rows]}, *lines)
    return 1 if left else 0
