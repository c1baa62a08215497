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
@options()
def serve(call: CommandLine) -> int:
    """Run the Slack app in front of your agent, until it gets SIGTERM or SIGINT."""
    settings = call.settings
    problems = serving_problems(settings, os.environ)
    if problems:
        raise SettingsError(problems)
    configure_logs(settings.log.format, settings.log.level)
    for warning in settings.warnings:
        log.warning("%s", warning)
    return run_until_stopped(running_bot(settings, file=call.config), lambda bot: f"Listening at {bot.url}.")
