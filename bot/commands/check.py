"""`adk-confirm check`: whether everything that `serve` needs is there, and how to mend what is not."""

from __future__ import annotations

import argparse
import asyncio
import os

from bot.commands.common import add_config, settings_of, tell
from bot.config.settings import serving_problems
from bot.operations.check import check_all
from bot.operations.check_slack import Finding


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    findings = [Finding("settings", ok=False, said=str(p)) for p in serving_problems(settings, os.environ)]
    findings += [Finding("settings", ok=True, said=f"warning: {warning}") for warning in settings.warnings]
    findings += asyncio.run(check_all(settings))
    width = max(len(finding.what) for finding in findings)
    tell(*(f"{finding.mark} {finding.what:<{width}}  {finding.said}" for finding in findings))
    return 0 if all(finding.ok for finding in findings) else 1
