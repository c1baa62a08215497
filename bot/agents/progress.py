"""Shows in the thread what a running agent does: that it is at work, its tool calls, and its reply as it is written.

This happens in a task of its own. The run never waits for it, and it ends with the lease.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Protocol

from blocks.tasks import MOST_TASKS
from bot.hosts.host import MessageDelta, Task, TaskState
from bot.store.repository import Session
from runtime.errors import ConfirmError
from runtime.store.lease import Lease

log = logging.getLogger(__name__)

SOON = 1.0
"""An agent that answers within this many seconds is not shown as thinking, since each status costs a call to Slack."""

LOOK = 1.0
"""Seconds between updates of the tool calls, if they changed."""

_tasks: set[asyncio.Task[None]] = set()
"""Keeps references to running tasks: one that waits for Slack may outlive its run for a moment."""


class LiveDisplay(Protocol):
    """The thread's live display: everything that is shown before it is stored."""

    async def show_thinking(self, lease: Lease, session: Session) -> bool:
        """Shows that the agent is at work. Returns whether Slack shows it."""
        ...

    async def clear_status(self, session: Session) -> None:
        """Removes the status that `show_thinking` set."""
        ...

    async def add_part(self, lease: Lease, session: Session, piece: MessageDelta) -> None:
        """Adds a part of a reply. The display may drop it."""
        ...

    def task(self, session: Session, task: Task) -> None:
        """Reports that a tool call began or ended. The display may show it."""
        ...

    async def show_due(self, lease: Lease, session: Session) -> None:
        """Sends what is due. Called when time has passed or something new came."""
        ...

    def end_reply(self, session: Session) -> bool:
        """Says that the reply is complete and no more parts follow. Returns whether parts were shown."""
        ...


class ProgressDisplay:
    """Passes the progress of one run on to the thread, in a background task."""

    def __init__(self, display: LiveDisplay, lease: Lease, session: Session) -> None:
        self._display, self._lease, self._session = display, lease, session
        self._pieces: list[MessageDelta] = []
        self._tasks: dict[str, Task] = {}
        self._news, self._words, self._over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._seen = False
        task = asyncio.create_task(self._show(), name="adk-confirm-showing")
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    def add_part(self, piece: MessageDelta) -> None:
        if self._pieces and self._pieces[-1].invocation_id == piece.invocation_id:
            piece = replace(piece, text=self._pieces.pop().text + piece.text)
        self._pieces.append(piece)
        self._words.set()
        self._news.set()

    def task(self, task: Task) -> None:
        before = self._tasks.get(task.call_id)
        if before is None and len(self._tasks) >= MOST_TASKS:
            return
        task = self._tasks[task.call_id] = task if before is None else before.then(task)
        self._display.task(self._session, task)
        self._news.set()

    def end_reply(self) -> tuple[Task, ...]:
        """Ends the current reply. Returns the finished tool calls that were shown with it. Calls that still run are
        shown with the next reply."""
        self._pieces.clear()
        seen = self._display.end_reply(self._session)
        ended = tuple(task for task in self._tasks.values() if task.state is not TaskState.RUNNING)
        self._tasks = {key: task for key, task in self._tasks.items() if task.state is TaskState.RUNNING}
        for task in self._tasks.values():
            self._display.task(self._session, task)
        return ended if seen else ()

    def end(self) -> None:
        self._over.set()
        self._words.set()
        self._news.set()
        self._seen = self._display.end_reply(self._session) or self._seen

    def unanswered_tasks(self) -> tuple[Task, ...]:
        """The tool calls that are shown and have no reply after them. Call this after `end`."""
        return tuple(self._tasks.values()) if self._seen else ()

    async def _show(self) -> None:
        try:
            shown = not await _happens_within(SOON, self._words) and await self._display.show_thinking(
                self._lease, self._session
            )
            if shown and self._over.is_set():
                await self._display.clear_status(self._session)
            while not self._over.is_set():
                await _happens_within(LOOK if self._tasks else None, self._news)
                self._news.clear()
                while self._pieces and not self._over.is_set():
                    await self._display.add_part(self._lease, self._session, self._pieces.pop(0))
                if self._tasks and not self._over.is_set():
                    await self._display.show_due(self._lease, self._session)
        except ConfirmError as error:
            log.info("what the agent does is not shown: %s", error)
        except Exception:
            log.exception("what the agent does could not be shown")


async def _happens_within(seconds: float | None, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
