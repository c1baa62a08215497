"""`adk-confirm check`: is everything there that `serve` needs, and how to fix what is not."""

from __future__ import annotations

import asyncio
import os

import click

from bot.commands.common import Call, options, tell


@click.command()
@options()
def check(call: Call) -> int:
    """Check settings, Slack, store and agent before starting.

    It changes nothing, and may run beside the service. The exit code is 1 if something must be fixed.
    """
    from bot.config.settings import serving_problems
    from bot.operations.check import check_all
    from bot.operations.check_slack import Finding

    settings = call.settings
    findings = [Finding("settings", ok=False, said=str(p)) for p in serving_problems(settings, os.environ)]
    findings += [Finding("settings", ok=True, said=f"warning: {warning}") for warning in settings.warnings]
    findings += asyncio.run(check_all(settings))
    width = max(len(finding.what) for finding in findings)
    tell(*(f"{finding.mark} {finding.what:<{width}}  {finding.said}" for finding in findings))
    return 0 if all(finding.ok for finding in findings) else 1
