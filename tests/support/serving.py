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
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from adk_confirm.bot.app import running_bot
from adk_confirm.bot.config.settings import load_settings
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.forked import ROOT, adk_confirm
from tests.support.kill import Child, child, here
from tests.support.office import AT_ONCE, LAB, config, environment
from tests.support.waiting import until

P = ParamSpec("P")
R = TypeVar("R")

ANY = "*"
LEASE = 1.0
POINT = "stop"
AHEAD = "SERVE_AHEAD"
STANDS_BY = "SERVE_STANDS_BY"
UNIMPORTANT = {
    *("claim_due", "renew", "release", "pause_runs", "_upgrade", "upgrade_ledger", "postpone", "take_store"),
    *("_belong_to_secret", "_note_seen", "_note_newer"),
}
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
            self._slack.sends_to(events_of(line))

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


@dataclass(frozen=True)
class Stopped:
    seconds: float
    code: int
    log: str


class Service:
    """`adk-confirm serve` as a service manager runs it: ended by SIGTERM, its log and exit code read."""

    def __init__(self, slack: FakeSlack, config: Path, env: Mapping[str, str], *, socket: bool) -> None:
        self._slack, self._config, self._env, self._socket = slack, config, env, socket
        self._log = config.with_name("serve.log")
        self._stack = AsyncExitStack()

    async def starts(self) -> None:
        command, env = ("serve", "--config", str(self._config)), {**os.environ, **self._env}
        with self._log.open("wb") as log:
            running = adk_confirm(*command, cwd=ROOT, env=env, anew=True, errors=log)
            self._process = await self._stack.enter_async_context(running)
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode()
        if not line.startswith("Listening at "):
            raise AssertionError(f"{line}{self._log.read_text()}")
        self._listens = line.rstrip("\n")
        self.gets_events()

    def gets_events(self) -> None:
        """Slack sends its events here from now on, if it does not use a socket."""
        if not self._socket:
            self._slack.sends_to(events_of(self._listens))

    async def begins_to_stop(self) -> None:
        """Sends SIGTERM, and waits until it says that it stops."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.stdout is not None
        assert (await self._process.stdout.readline()).startswith(b"Stopping: ")

    async def stops(self) -> Stopped:
        self._process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> Stopped:
        began = time.monotonic()
        code = await self._process.wait()
        return Stopped(time.monotonic() - began, code, self._log.read_text())

    async def logs(self, words: str) -> str:
        """The line of the log that contains this, once it is there."""
        await until(lambda: words in self._log.read_text())
        return next(line for line in self._log.read_text().splitlines() if words in line)

    async def ends(self) -> None:
        await self._stack.aclose()


def events_of(line: str) -> str:
    """Where Slack sends events to, from what a bot says first."""
    return f"{line.removeprefix('Listening at ').rstrip('.')}/slack/events"


def settled(
    slack: FakeSlack, database_url: str, directory: Path, policies: str, target: str, *, socket: bool
) -> tuple[Path, dict[str, str]]:
    """The file and the environment with which a process begins. What it leaves when it is killed goes on soon."""
    file = directory / "adk-confirm.toml"
    file.write_text(f'{config(policies, target)}\n[store]\nlease = "{LEASE:g}s"\n')
    env = environment(slack, database_url, socket=socket)
    return file, {**env, "ADK_CONFIRM_DEMO_LOG": str(directory / "tools.log"), "LAB_GATE": str(directory / "gate")}


@asynccontextmanager
async def service(
    slack: FakeSlack, database_url: str, directory: Path, policies: str, *, socket: bool = False
) -> AsyncIterator[Service]:
    """A service that has not been started yet. Its agent is the lab."""
    file, env = settled(slack, database_url, directory, policies, LAB, socket=socket)
    running = Service(slack, file, env, socket=socket)
    try:
        yield running
    finally:
        await running.ends()


@asynccontextmanager
async def serving(
    slack: FakeSlack,
    database_url: str,
    directory: Path,
    policies: str,
    *,
    target: str = LAB,
    socket: bool = False,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Serving]:
    """A bot that has not been started yet."""
    file, variables = settled(slack, database_url, directory, policies, target, socket=socket)
    bot = Serving(slack, file, {**variables, **(env or {})}, socket=socket)
    try:
        yield bot
    finally:
        await bot.ends()
