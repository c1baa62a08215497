"""`adk-confirm serve` runs the Slack app."""

from __future__ import annotations

import logging
import os

import click

from adk_confirm.bot.app import running_bot
from adk_confirm.bot.config.settings import SettingsError, serving_problems
from adk_confirm.bot.ops.command import CommandLine, options
from adk_confirm.bot.ops.stopping import run_until_stopped
from adk_confirm.runtime.telemetry.logs import configure as configure_logs

log = logging.getLogger(__name__)


@click.command()
@click.option("--renamed-from", metavar="AGENT", help="The old name of the agent, whose store it takes over.")
@options()
def serve(call: CommandLine, renamed_from: str | None) -> int:
    """Run the Slack app in front of your agent, until it gets SIGTERM or SIGINT."""
    settings = call.settings
    problems = serving_problems(settings, os.environ)
    if problems:
        raise SettingsError(problems)
    configure_logs(settings.log.format, settings.log.level)
    log.info("starting, with %s", call.config)
    for warning in settings.warnings:
        log.warning("%s", warning)
    serving = running_bot(settings, file=call.config, renamed_from=renamed_from)
    tell = log.info if settings.log.format == "json" else None  # then whoever reads the log reads nothing else
    return run_until_stopped(serving, lambda bot: f"Listening at {bot.url}.", tell, settings.serve.drain)
