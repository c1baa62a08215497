"""`adk-confirm serve` runs the Slack app, `adk-confirm api` serves agents over ADK's HTTP API."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from adk_confirm.bot.ops.command import PORT, CommandLine, options

if TYPE_CHECKING:
    from adk_confirm.bot.config.settings import Settings

STOPPED = 0
_LAST_TOOLS = 0.2

log = logging.getLogger(__name__)


@click.command()
@options()
def serve(call: CommandLine) -> int:
    """Run the Slack app in front of your agent, until it gets SIGTERM or SIGINT."""
    from adk_confirm.bot.config.settings import SettingsError, serving_problems
    from adk_confirm.bot.worker.supervision import end_now
    from adk_confirm.runtime.telemetry.logs import configure as configure_logs
    from adk_confirm.runtime.tool import end_threads

    settings = call.settings
    problems = serving_problems(settings, os.environ)
    if problems:
        raise SettingsError(problems)
    configure_logs(settings.log.format, settings.log.level)
    for warning in settings.warnings:
        log.warning("%s", warning)
    asyncio.run(_until_stopped(settings, call.config))
    if not end_threads(patience=_LAST_TOOLS) or _has_threads_left():
        end_now(STOPPED)  # a tool still runs; its call is stored as running
    return STOPPED


async def _until_stopped(settings: Settings, file: Path) -> None:
    from adk_confirm.bot.app import running_bot

    stopping = _stop_future()
    async with running_bot(settings, file=file) as bot:
        print(f"Listening at {bot.url}.", flush=True)
        await stopping
        print("Stopping: what runs has a few seconds to end. What is left continues at the next start.", flush=True)


def _stop_future() -> asyncio.Future[None]:
    """A future that is done at SIGTERM or SIGINT. From then on the process has a few seconds to end; a second signal
    ends it at once.

    The signal handler is Python's own, not the event loop's, so that it is called even while a tool blocks the loop.
    """
    from adk_confirm.bot.worker.supervision import StopDeadline, end_now, exit_by

    loop = asyncio.get_running_loop()
    stopping: asyncio.Future[None] = loop.create_future()
    signals = 0

    def stop(number: int, frame: object) -> None:  # noqa: ARG001  (what a handler is called with)
        nonlocal signals
        signals += 1
        if signals > 1:
            end_now(128 + number)
        exit_by(StopDeadline.PROCESS, STOPPED)
        loop.call_soon_threadsafe(stopping.set_result, None)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return stopping


def _has_threads_left() -> bool:
    """Whether a thread would keep the process from ending."""
    return any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate())


# The API


@click.command()
@click.option("--agent", "agents", multiple=True, required=True, metavar="MODULE:NAME", help="An agent; repeatable.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Other machines need ADK_CONFIRM_API_TOKEN set.")
@click.option("--port", type=PORT, default=8000, show_default=True, help="0 takes a free one.")
@click.option(
    "--store", default="sqlite:///adk-confirm.db", metavar="URL", show_default=True, help="Where sessions are kept."
)
@click.option(
    "--dialect",
    type=click.Choice(["call", "response"]),
    default="call",
    show_default=True,
    help="How requests for confirmation look: as a call, or as a response.",
)
@click.option(
    "--shared-state", is_flag=True, help="Clients may write app: state that a bot on this store uses in Slack."
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="A page that may use the API from a browser, such as http://localhost:4200; repeatable.",
)
def api(
    agents: tuple[str, ...],
    host: str,
    port: int,
    store: str,
    dialect: Literal["call", "response"],
    shared_state: bool,
    origins: tuple[str, ...],
) -> int:
    """Serve agents over ADK's HTTP API, such as --agent adk_confirm.examples.oncall:agent."""
    from adk_confirm.bot.config.settings import Environment
    from adk_confirm.runtime.rest.guard import TOKEN_VARIABLE, Guard
    from adk_confirm.runtime.rest.serve import ServerOptions, serve_until_stopped
    from adk_confirm.runtime.store.seal import Seal
    from adk_confirm.runtime.target import load_agent

    secret = Environment.read(os.environ).sealing_secret
    seal = None if secret is None else Seal(secret.get_secret_value())
    guard = Guard.of(host, os.environ.get(TOKEN_VARIABLE), origins)
    loaded = [load_agent(target) for target in agents]
    return serve_until_stopped(ServerOptions(loaded, guard, port, store, dialect, shared_state, seal))
