"""What the demo's page does to the bot: start, crash and restart it, and move its clock."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from adk_confirm.demo.orders import AHEAD, CRASH_IN_CALL, FRAGILE
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.sandbox.page.controls import BotState
from adk_confirm.sandbox.refusals import Invalid, Refused
from adk_confirm.sandbox.server.server import FakeSlack

_LOOK_AGAIN = 0.05
_REST = 5.0
"""Seconds that unfinished work gets before the clock moves."""
_END = 5.0
"""Seconds that the bot gets to end."""


class BotDidNotStart(ConfirmError, Refused):
    """The bot's process ended before it listened."""


class DemoBot:
    """The bot's process. `environment` is its whole environment, `settings` its configuration file."""

    def __init__(self, slack: FakeSlack, settings: Path, environment: Mapping[str, str]) -> None:
        self._slack, self._settings, self.environment = slack, settings, environment
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()
        self._ahead = 0.0
        self._fragile = False
        self.state = BotState.DOWN
        self.crashes_in_call = False
        self.database: Database | None = None
        """The bot's store, for reading. `running_demo` opens it once the bot has created it."""

    @property
    def minutes_ahead(self) -> int:
        return round(self._ahead / 60)

    async def start(self) -> None:
        async with self._changing:
            if self.state is BotState.RUNNING:
                return
            self._set_state(BotState.STARTING)
            self._process = process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "adk_confirm.demo.bot_process", str(self._settings), str(self._ahead)),
                env=self.environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the demo, which then ends the bot
            )
            assert process.stdout is not None
            address, _, can_crash = (await process.stdout.readline()).decode().strip().partition(" ")
            if not address:
                self._set_state(BotState.DOWN)
                raise BotDidNotStart("The bot ended before it was ready. Its output is above.")
            self._fragile = can_crash == FRAGILE
            self._slack.sends_to(f"{address}/slack/events")
            self.crashes_in_call = False
            self._set_state(BotState.RUNNING)
            self._slack.outbox.app_is_there()
            self._watching = asyncio.create_task(self._watch(process))

    async def crash(self) -> None:
        process, watching = self._require_running()
        process.kill()
        await watching

    async def crash_in_call(self) -> None:
        self._require_running()
        if not self._fragile:
            raise Invalid("Only calls of adk-confirm's own runtime can crash at that moment. Use “Crash now”.")
        self._tell(CRASH_IN_CALL)
        self.crashes_in_call = True
        self._set_state(self.state)

    async def pass_time(self, minutes: int) -> None:
        """Unfinished work ends first: otherwise the jump would take the lease from whoever works on it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_REST):
                await self._slack.settled()
                while self.database is not None and self.state is BotState.RUNNING:
                    if not await self.database.read(is_busy):
                        break
                    await asyncio.sleep(_LOOK_AGAIN)
        self._ahead += 60 * minutes
        self._slack.clock.advance(60 * minutes)
        if self.state is BotState.RUNNING:
            self._tell(f"{AHEAD} {self._ahead}")
        self._set_state(self.state)

    async def end(self) -> None:
        """Tells the bot to end; kills it if it does not."""
        if self._process is None or self._watching is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END):
                await asyncio.shield(self._watching)
        if self._process.returncode is None:
            self._process.kill()
        await self._watching

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        self._slack.sends_to("")
        self.crashes_in_call = False
        self._set_state(BotState.DOWN)

    def _tell(self, order: str) -> None:
        process, _ = self._require_running()
        assert process.stdin is not None
        process.stdin.write(f"{order}\n".encode())

    def _require_running(self) -> tuple[asyncio.subprocess.Process, asyncio.Task[None]]:
        if self.state is not BotState.RUNNING or self._process is None or self._watching is None:
            raise Invalid("The bot is not running. Start it first.")
        return self._process, self._watching

    def _set_state(self, state: BotState) -> None:
        self.state = state
        self._slack.workspace.changes.tell("stage")


def is_busy(tx: Tx) -> bool:
    """Whether something is due now, or being worked on."""
    return tx.first(_BUSY, now=tx.now()) is not None


_BUSY = "SELECT 1 FROM jobs WHERE parked_at IS NULL AND (due_at <= :now OR lease_until > :now) LIMIT 1"
