"""`adk-confirm serve` as a service manager runs it: started, stopped by SIGTERM, its log and exit code read."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.forked import ROOT
from tests.support.office import config, environment
from tests.support.waiting import until


@dataclass(frozen=True)
class Stopped:
    seconds: float
    code: int
    log: str


class Service:
    def __init__(self, slack: FakeSlack, file: Path, env: Mapping[str, str], *, socket: bool) -> None:
        self._slack, self._file, self._env, self._socket = slack, file, dict(env), socket
        self._log = file.with_name("serve.log")
        self._process: asyncio.subprocess.Process | None = None

    async def starts(self) -> str:
        """Starts it. Returns its address."""
        with self._log.open("w") as log:
            self._process = process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "adk_confirm.bot.cli", "serve", "--config", str(self._file)),
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src", **self._env},
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        if not line.startswith("Listening at "):
            raise AssertionError(f"{line}{self._log.read_text()}")
        url = line.removeprefix("Listening at ").rstrip(".\n")
        if not self._socket:
            self._slack.sends_to(f"{url}/slack/events")
        return url

    async def begins_to_stop(self) -> None:
        """Sends SIGTERM, and waits until the log says that it stops."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.send_signal(signal.SIGTERM)
        assert (await self._process.stdout.readline()).startswith(b"Stopping: ")

    async def stops(self) -> Stopped:
        assert self._process is not None
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        code = await self._process.wait()
        return Stopped(time.monotonic() - began, code, self._log.read_text())

    async def logs(self, words: str) -> str:
        """The line of the log that contains this, once it is there."""
        await until(lambda: words in self._log.read_text())
        return next(line for line in self._log.read_text().splitlines() if words in line)

    async def ends(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def service(
    slack: FakeSlack,
    database_url: str,
    directory: Path,
    policies: str,
    *,
    target: str = "tests.support.hanging:agent",
    socket: bool = False,
) -> AsyncIterator[Service]:
    """A service that has not been started yet."""
    file = directory / "adk-confirm.toml"
    file.write_text(config(policies, target))
    variables = environment(slack, database_url, socket=socket)
    variables |= {"ADK_CONFIRM_DEMO_LOG": str(directory / "tools.log"), "LAB_GATE": str(directory / "gate")}
    running = Service(slack, file, variables, socket=socket)
    try:
        yield running
    finally:
        await running.ends()
