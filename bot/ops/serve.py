"""`adk-confirm serve` runs the Slack app."""

from __future__ import annotations

import logging
import os

import click

from adk_confirm.bot.app import running_bot
from adk_confirm.bot.config.settings import SettingsError, serving_problems
from adk_confirm.bot.ops.command import CommandLine, options
from adk_confirm.bot.ops.stopping import run_until_stopped
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.telemetry.logs import configure as configure_logs

log = logging.getLogger(__name__)


@click.command()
@click.option("--renamed-from", metavar="AGENT", help="The old name of the agent, whose store it takes over.")
@options()
def serve(call: CommandLine, renamed_from: str | None) -> int:
    """Run the Slack app in front of your agent, until it gets SIGTERM or SIGINT."""
    settings = call.settings
    configure_logs(settings.log.format, settings.log.level)
    log.info("starting, with %s", call.config)
    for warning in settings.warnings:
        log.warning("%s", warning)
    serving = running_bot(settings, file=call.config, renamed_from=renamed_from)
    logs_all = settings.log.format == "json"  # then whoever reads the log reads nothing else
    try:
        if problems := serving_problems(settings, os.environ):
            raise SettingsError(problems)
        tell = log.info if logs_all else None
        return run_until_stopped(serving, lambda bot: f"Listening at {bot.url}.", tell, settings.serve.drain)
    except ConfirmError as error:
        if not logs_all:
            raise
        log.error("%s", error)
        return 2  # as of any command that could not be done
