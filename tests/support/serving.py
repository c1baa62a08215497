"""The bot in a process of its own, which a test can kill at the worst moment.

async with serving(slack, database_url, log, policies) as bot:      # `adk-confirm serve`
    ...
    await bot.killed()
    await bot.starts()

`stops_after` names a transaction, or several with commas between: the process stands still right after the nth commit
of each, and nothing that would follow has happened; `await bot.reached()` returns then.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from adk_confirm.bot.app import running_bot
from adk_confirm.bot.config.settings import load_settings
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.kill import Child, child, here
from tests.support.office import AT_ONCE, config, environment

P = ParamSpec("P")
R = TypeVar("R")

ANY = "*"
POINT = "stop"
AHEAD = "SERVE_AHEAD"
STANDS_BY = "SERVE_STANDS_BY"
UNIMPORTANT = {*("claim_due", "renew", "release", "pause_runs", "free_all", "_upgrade", "upgrade_ledger", "postpone")}
"""What a process does all the time. A kill there is a kill before or after something important."""


async def serve(path: str, stops_after: str = "", nth: str = "1") -> None:
    """Runs in the child."""
    seen: Counter[str] = Counter()
    points = stops_after.split(",")
    whole = Database.run

    async def run(database: Database, fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        result = await whole(database, fn, *args, **kwargs)
        name = fn.__name__
        if name not in UNIMPORTANT:
            seen.update((name, ANY))
            if any(point in points and seen[point] == int(nth) for point in (name, ANY)):
                print(name, flush=True)
                here(POINT)
        return result

    Database.run = run  # type: ignore[method-assign,assignment]  # a probe, in a process that is there to be killed
    ahead = float(os.environ.get(AHEAD, "0"))

    def clock() -> float:
        return time.time() + ahead

    settings = load_settings(Path(path), os.environ)
    if os.environ.get(STANDS_BY):
        here(STANDS_BY)
    async with running_bot(settings, file=Path(path), clock=clock if ahead else None, limits=AT_ONCE) as bot:
        print(f"Listening at {bot.url}.", flush=True)
        await asyncio.Event().wait()


class Serving:
    """A bot that is started, killed and started again, with one Slack and one database."""

    def __init__(self, slack: FakeSlack, config: Path, env: Mapping[str, str], *, socket: bool) -> None:
        self._slack, self._config, self._env, self._socket = slack, config, dict(env), socket
        self._stack = AsyncExitStack()
        self._process: Child | None = None

    async def starts(self, stops_after: str = "", nth: int = 1, *, hours_later: float = 0) -> None:
        env = {**self._env, AHEAD: str(3600 * hours_later)}
        process = await self._stack.enter_async_context(child(serve, str(self._config), stops_after, str(nth), env=env))
        await self._until_listening(process)

    async def stands_by(self) -> None:
        """Starts a process that has loaded everything and does nothing until it `joins`."""
        env = {**self._env, STANDS_BY: "1"}
        self._process = await self._stack.enter_async_context(child(serve, str(self._config), env=env))

    async def joins(self) -> None:
        assert self._process is not None
        await self._process.reached(STANDS_BY)
        self._process.go_on()
        await self._until_listening(self._process)

    async def _until_listening(self, process: Child) -> None:
        self._process = process
        (line,) = await process.next_lines(1)
        if not line.startswith("Listening at "):
            raise AssertionError(await process.finished())
        if not self._socket:
            self._slack.sends_to(f"{line.removeprefix('Listening at ').rstrip('.')}/slack/events")

    async def reached(self) -> str:
        """Waits until it stops after one of the transactions. Returns which."""
        assert self._process is not None
        await self._process.reached(POINT)
        return self._process.said[-1]

    async def until(self, happens: Awaitable[R]) -> R:
        """Waits for something that it does. Fails with its last words if it ends before."""
        assert self._process is not None
        return await self._process.until(happens)

    def freezes(self) -> None:
        assert self._process is not None
        self._process.freezes()

    def thaws(self) -> None:
        """Lets it go on."""
        assert self._process is not None
        self._process.thaws()
        self._process.go_on()

    async def stops(self) -> None:
        """Tells it to stop. It finishes its current work first."""
        assert self._process is not None
        self._process.asks_it_to_end()
        await self._process.gone()
        await self._stack.aclose()

    async def killed(self) -> None:
        """Kills it with SIGKILL: no `finally`, no `atexit`."""
        assert self._process is not None
        self._process.kill()
        await self._process.gone()
        await self._stack.aclose()

    async def ends(self) -> None:
        await self._stack.aclose()


@asynccontextmanager
async def serving(
    slack: FakeSlack,
    database_url: str,
    directory: Path,
    policies: str,
    *,
    target: str = "tests.support.lab:agent",
    socket: bool = False,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Serving]:
    """A bot that has not been started yet."""
    file = directory / "adk-confirm.toml"
    file.write_text(config(policies, target))
    variables = {
        **environment(slack, database_url, socket=socket),
        "ADK_CONFIRM_DEMO_LOG": str(directory / "tools.log"),
    }
    bot = Serving(slack, file, {**variables, **(env or {})}, socket=socket)
    try:
        yield bot
    finally:
        await bot.ends()
