"""`adk-confirm check`: check everything that `serve` needs, and say how to fix it."""

from __future__ import annotations

import asyncio
import os

import click

from bot.ops.command import CommandLine, options, paint

_COLOURS = {"ok": "green", "note": "cyan", "warn": "yellow", "FIX": "red"}


@click.command()
@options(json=True)
def check(call: CommandLine) -> int:
    """Check settings, Slack, store and agent before starting.

    It changes nothing, and may run beside the service. The exit code is 1 if something must be fixed.
    """
    from blocks.text import visible
    from bot.config.settings import serving_problems
    from bot.ops.check import check_all
    from bot.ops.coverage import table
    from bot.ops.findings import Severity, fix, warn

    settings = call.settings
    findings = [fix("settings", str(problem)) for problem in serving_problems(settings, os.environ)]
    findings += [warn("settings", str(warning)) for warning in settings.warnings]
    checked = asyncio.run(check_all(settings))
    findings += checked.findings
    width = max(len(finding.what) for finding in findings)
    lines = [
        f"{paint(f'{finding.mark:<4}', _COLOURS[finding.mark])} "
        + visible(f"{finding.what:<{width}}  {finding.said}", keep="\n")  # servers choose the names of their tools
        for finding in findings
    ]
    if checked.coverage:
        lines += ["", *map(visible, table(checked.coverage, checked.names.of))]
    broken = sum(finding.mark is Severity.FIX for finding in findings)
    lines += ["", f"{broken} to fix." if broken else "Nothing to fix."]
    call.tell(
        {
            "findings": [{"what": one.what, "mark": str(one.mark), "said": one.said} for one in findings],
            "tools": [one.to_json() for one in checked.coverage],
        },
        *lines,
    )
    return 1 if broken else 0
