"""`adk-confirm audit`: the commands that belong to it, each in its file."""

from __future__ import annotations

import click

from adk_confirm.bot.ops.audit_export import export
from adk_confirm.bot.ops.audit_purge import purge
from adk_confirm.bot.ops.audit_report import report
from adk_confirm.bot.ops.audit_show import list_, show
from adk_confirm.bot.ops.audit_verify import verify


@click.group(no_args_is_help=True)
def audit() -> None:
    """Read, export, verify or purge the audit: the append-only ledger of everything that happened."""


for command in (export, list_, show, verify, report, purge):
    audit.add_command(command)
