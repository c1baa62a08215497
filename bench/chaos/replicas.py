"""Replicas of `adk-confirm serve` as real processes. Each is started again when it ends, as by a service manager."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from adk_confirm.runtime.errors import ConfirmError

ROOT = Path(__file__).parents[2]
_LOOKS_AGAIN = 0.1
_RESTARTS_AFTER = 0.5
_LAST_LINES = 30


class NotReady(ConfirmError):
    """A replica does not start, or does not come back."""


@dataclass(frozen=True)
class Exit:
    """`served`: it had begun to listen; otherwise it could not start."""

    at: float
    replica: int
    code: int
    served: bool
    said: str


@dataclass
class Replica:
    """One process and its successors. `exits` are those that this run did not cause."""

    number: int
    port: int
    config: Path
    env: Mapping[str, str]
    exits: list[Exit] = field(default_factory=list)
    _process: asyncio.subprocess.Process | None = None
    _down_for: float | None = None

    @property
    def log(self) -> Path:
        return self.config.with_suffix(".log")

    @property
    def pid(self) -> int | None:
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    async def run(self) -> None:
        """Keeps a process running until this is cancelled or ended."""
        try:
            while True:
                await self._once()
        finally:
            self._signal(signal.SIGKILL)

    def kill(self, down_for: float) -> None:
        """Kills the process with SIGKILL. The next one starts after this many seconds."""
        self._down_for = down_for
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    async def ready(self, within: float) -> None:
        """Waits until the replica reports that it is ready."""
        try:
            async with asyncio.timeout(within), aiohttp.ClientSession() as session:
                while not await _is_ready(session, f"http://127.0.0.1:{self.port}/readyz"):
                    await asyncio.sleep(_LOOKS_AGAIN)
        except TimeoutError:
            end = "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:])
            raise NotReady(f"Replica {self.number} was not ready within {within:g} seconds. It says:\n{end}") from None

    async def _once(self) -> None:
        with self.log.open("ab") as log:
            began = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "adk_confirm.bot.cli", "serve", "--config", str(self.config)),
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src", **self.env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        code = await self._process.wait()
        pause, self._down_for = self._down_for, None
        if pause is None:
            said = self.log.read_bytes()[began:].decode(errors="replace")
            last = (said.splitlines() or [""])[-1]
            self.exits.append(Exit(time.time(), self.number, code, "Listening at " in said, last))
        await asyncio.sleep(_RESTARTS_AFTER if pause is None else pause)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


async def _is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=2)) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
