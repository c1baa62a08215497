"""The demo's bot, in a process of its own so that the page can crash it.

    python -P -m adk_confirm.demo.bot_process SETTINGS.toml [seconds that the clock is ahead]

It prints the address where it listens, and whether it can crash in a call. Then it obeys orders, one a line, from its
input:

    ahead 600        the clock is 600 seconds ahead of the real one from now on
    crash-in-call    the process kills itself in the middle of the next approved call

It ends when its input ends, so that nothing is left when the demo itself is killed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path

from adk_confirm import ToolContext
from adk_confirm.bot.app import running_bot
from adk_confirm.bot.cli import find_users_modules
from adk_confirm.bot.config.settings import SettingsError, load_settings, serving_problems
from adk_confirm.bot.slack.calls import CallLimits
from adk_confirm.bot.store.repository import JOBS
from adk_confirm.demo.orders import AHEAD, CRASH_IN_CALL, FRAGILE
from adk_confirm.runtime.agent import Agent
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.lease import topic_of
from adk_confirm.runtime.target import load_object
from adk_confirm.runtime.tool import Tool, Toolset

LIMITS = CallLimits(posts=100)


class Crash:
    """Whether the next approved call crashes the process."""

    armed = False

    def now(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def make_fragile(tool: Tool, crash: Crash) -> None:
    """Lets the process crash during this tool: after the effect, and before anything is stored about it."""
    whole = tool.run

    async def run(args: JsonObject, context: ToolContext) -> Json:
        result = await whole(args, context)
        if crash.armed and context.tool_confirmation is not None:
            crash.now()
        return result

    tool.run = run  # type: ignore[method-assign]  # everything else of the tool stays as it is


async def serve(file: Path, ahead: float) -> None:
    settings = load_settings(file, os.environ)
    if problems := serving_problems(settings, os.environ):
        raise SettingsError(problems)
    settings = settings.model_copy(update={"slack": settings.slack.model_copy(update={"listen": "127.0.0.1:0"})})
    crash, fragile = Crash(), False
    target = settings.agent.target if settings.agent else None
    found = load_object(target) if target else None
    for agent in found.walk() if isinstance(found, Agent) else ():
        fragile = True
        for tool in agent.tools:
            if not isinstance(tool, Toolset):
                make_fragile(tool, crash)
    orders = await _input()

    def clock() -> float:
        return time.time() + ahead

    async with running_bot(settings, file=file, clock=clock, limits=LIMITS) as bot:
        print(f"{bot.url} {FRAGILE if fragile else ''}", flush=True)
        while line := (await orders.readline()).decode():
            order, _, value = line.strip().partition(" ")
            if order == AHEAD:
                ahead = float(value)
                await bot.database.run(wake)
            elif order == CRASH_IN_CALL:
                crash.armed = True


def wake(tx: Tx) -> None:
    """Wakes everything that waits for a time, so that it looks at the clock again."""
    for kind in JOBS:
        tx.notify(topic_of(kind))


async def _input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    find_users_modules()
    try:
        asyncio.run(serve(Path(sys.argv[1]), float(sys.argv[2])))
    except ConfirmError as error:
        sys.exit(str(error))
