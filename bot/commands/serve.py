"""`adk-confirm serve`: the Slack app."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from bot.app import running
from bot.config.settings import DEFAULT_FILE, Settings, SettingsError, load_settings, serving_problems
from bot.worker.shutdown import Mark, end_now, exit_by
from runtime.telemetry.logs import configure as configure_logs
from runtime.tool import end_threads

STOPPED = 0
_LAST_TOOLS = 0.2
_TAKING_TURNS = 0.0005
"""The store's thread gives the interpreter away with each statement and has to get it back from the event loop, up to
Python's five milliseconds later each time: under many clicks that was most of what an ack took."""

log = logging.getLogger(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, default=Path(DEFAULT_FILE), help="default: %(default)s here")


def run(args: argparse.Namespace) -> int:
    settings = load_settings(args.config, os.environ)
    problems = serving_problems(settings, os.environ)
    if problems:
        raise SettingsError(problems)
    configure_logs(settings.log.format, settings.log.level)
    for warning in settings.warnings:
        log.warning("%s", warning)
    sys.setswitchinterval(_TAKING_TURNS)
    asyncio.run(_until_stopped(settings, args.config))
    if not end_threads(patience=_LAST_TOOLS) or _threads_left():
        end_now(STOPPED)  # a tool that is still at it; its call is on record as running
    return STOPPED


async def _until_stopped(settings: Settings, file: Path) -> None:
    told = _told_to_stop()
    async with running(settings, file=file) as bot:
        gc.freeze()  # what there is now stays: a full collection would look through all of it while people click
        print(f"Listening at {bot.url}.", flush=True)
        await told
        print("Stopping: what runs now has a few seconds to end; what is left goes on at the next start.", flush=True)


def _told_to_stop() -> asyncio.Future[None]:
    """Done at SIGTERM or SIGINT; from then on the process has its time to end, and a second one ends it at once.

    A handler of Python's own, not of the event loop's: it is called also while a tool blocks the loop.
    """
    loop = asyncio.get_running_loop()
    told: asyncio.Future[None] = loop.create_future()
    signals = 0

    def stop(number: int, frame: object) -> None:  # noqa: ARG001  (what a handler is called with)
        nonlocal signals
        signals += 1
        if signals > 1:
            end_now(128 + number)
        exit_by(Mark.PROCESS, STOPPED)
        loop.call_soon_threadsafe(told.set_result, None)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return told


def _threads_left() -> bool:
    """Whether a thread would keep the process from ending."""
    return any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate())
