"""`adk-confirm audit`: the commands that belong to it, each in its file, and `audit purge`."""

from __future__ import annotations

from dataclasses import asdict

import click

from adk_confirm.bot.audit.ledger import stamp
from adk_confirm.bot.ops.audit_export import export
from adk_confirm.bot.ops.audit_report import report
from adk_confirm.bot.ops.audit_show import list_, show
from adk_confirm.bot.ops.audit_verify import verify
from adk_confirm.bot.ops.command import DATES, CommandLine, format_time, options, parse_time, progress
from adk_confirm.bot.store import purge as store_purge
from adk_confirm.runtime.errors import Invalid


@click.group(no_args_is_help=True)
def audit() -> None:
    """Read, export, verify or purge the audit: the append-only ledger of everything that happened."""


for command in (export, list_, show, verify, report):
    audit.add_command(command)


@audit.command()
@click.option("--before", required=True, metavar="DATE", help=f"Purge sessions that ended before then: {DATES}.")
@options(json=True)
async def purge(call: CommandLine, before: str) -> None:
    """Delete the contents of sessions that ended long ago. The ledger still verifies."""
    at = call.now()
    until = parse_time(before, "--before", at)
    if until > at:
        said = "Only what has ended can be purged: name an earlier time."
        raise Invalid(f"--before {before} is in the future. {said}")
    async with call.changing() as database:
        with progress("Purging", await database.read(store_purge.count_sessions, until)) as more:
            gone = await store_purge.purge(database, until, more)
    then = f"from before {format_time(until)}"
    lines = [f"F{then[1:]} is purged: {gone}." if gone.any else f"Nothing is left to purge {then}."]
    if gone.kept:
        lines += [f"{gone.kept} {'session is' if gone.kept == 1 else 'sessions are'} still in use, and kept whole."]
    if gone.any:
        lines += [
            "Messages in Slack, backups of the store and an agent's own server keep what they have: purge those too."
        ]
    call.tell({"before": stamp(until), **asdict(gone)}, *lines)
