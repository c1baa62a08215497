"""`adk-confirm serve`: the Slack app."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
from pathlib import Path

from bot.app import running
from bot.settings import DEFAULT_FILE, Settings, SettingsError, load_settings, serving_problems


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, default=Path(DEFAULT_FILE), help="default: %(default)s here")


def run(args: argparse.Namespace) -> int:
    settings = load_settings(args.config, os.environ)
    problems = serving_problems(settings, os.environ)
    if problems:
        raise SettingsError(problems)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    for warning in settings.warnings:
        logging.getLogger(__name__).warning("%s", warning)
    asyncio.run(_until_stopped(settings))
    return 0


async def _until_stopped(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with running(settings) as bot:
        print(f"Listening at {bot.url}.", flush=True)
        await stop.wait()
        print("Stopping: what runs now has a few seconds to end; what is left goes on at the next start.", flush=True)
