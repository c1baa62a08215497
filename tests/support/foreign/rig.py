"""A foreign server in a test: starts, kills and restarts it, reads what its tools did, opens the bot's host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from adk_confirm.bot.hosts.adk_host import AdkHost
from adk_confirm.bot.hosts.remote import RemoteServer
from adk_confirm.runtime.jsontypes import JsonObject
from tests.support.foreign.fifos import hold, let_go
from tests.support.forked import BOT, Begun, ForkServer
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
ADK = (
    *("google.adk.cli.fast_api", "google.adk.apps", "google.adk.agents", "google.adk.tools.function_tool"),
    *("google.adk.sessions.database_session_service", "adk_confirm.runtime.adk_plugin", "uvicorn"),
)
_REPLAYS = ForkServer("tests.support.foreign.replay")
FORK_SERVERS = {
    "tests.support.foreign.google": ForkServer(*ADK),
    "tests.support.foreign.ours": BOT,
    **{f"tests.support.foreign.{which}": _REPLAYS for which in ("go", "java")},
}
_words = count(1)


@dataclass
class Foreign:
    """One server, and what its tools did since the test began to count."""

    command: Sequence[str]
    room: Path
    env: Mapping[str, str]
    port: int = 0
    process: subprocess.Popen[str] | Begun | None = None
    counted: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def host(self, app: str = "clerk", *, secret: str | None = None, timeout: float = 30.0) -> AdkHost:
        """The bot's host for one of its apps, as `open_host` makes it."""
        return AdkHost(RemoteServer(self.url, app, timeout=timeout), secret=secret)

    def ran(self) -> list[JsonObject]:
        return self._log_lines()[self.counted :]

    def count_anew(self) -> None:
        self.counted = len(self._log_lines())

    def _log_lines(self) -> list[JsonObject]:
        log = self.room / "tools.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def start(self) -> None:
        """Starts it on the same port, so that its clients find it again."""
        env = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT}/src",
            "PORT": str(self.port),
            "TOOL_LOG": str(self.room / "tools.log"),
            "TOOL_FIFO": str(self.room / "fifo"),
            **self.env,
        }
        loud = bool(os.environ.get("FOREIGN_LOUD"))
        program, name = self.command[0], self.command[-1]
        if program == sys.executable and name in FORK_SERVERS:
            self.process = FORK_SERVERS[name].begin(name, env=env, loud=loud)
        else:
            errors = None if loud else subprocess.DEVNULL
            self.process = subprocess.Popen(
                self.command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self.process.stdout is not None
        said = self.process.stdout.readline().strip()
        assert said, "the server did not start; FOREIGN_LOUD=1 shows what it says"
        self.port = int(said)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            if isinstance(self.process, subprocess.Popen):
                self.process.communicate()
            self.process = None

    def holds(self, word: str | None = None) -> str:
        """Lets the tool wait when it gets to this word, or to a new one."""
        word = word or f"w{next(_words)}"
        hold(self.room, word)
        return word

    def lingered(self, word: str) -> list[str]:
        """How far the lingering tool got with this word: begun, ended."""
        lines = [line for line in self._log_lines() if line["tool"] == "linger"]
        return [step for line in lines for step in ("begun", "ended") if line.get(step) == word]

    async def has_begun(self, word: str) -> None:
        """Waits until the tool has begun and not ended."""
        await until(lambda: self.lingered(word))  # another process writes the log

    def go_on(self, word: str) -> None:
        """Lets the lingering tool end, now or when it gets there."""
        let_go(self.room, word)


@contextmanager
def foreign(room: Path, *command: str, **env: str) -> Iterator[Foreign]:
    room.mkdir(parents=True, exist_ok=True)
    server = Foreign(command, room, env)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def google_adk(python: str = sys.executable) -> tuple[str, ...]:
    return python, "-m", "tests.support.foreign.google"


def replay(which: str) -> tuple[str, ...]:
    """`go` or `java`: they start at once."""
    return sys.executable, "-m", f"tests.support.foreign.{which}"
