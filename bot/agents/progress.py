"""What the thread shows while an agent runs: that it is at work, its tool calls, and its words as they come.

This happens in a task of its own, which the run never waits for and which ends with the lease.
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
"""An agent that answers within so many seconds is not shown as thinking: each status is a call to Slack."""

LOOK = 1.0
"""So often what tools do is shown, if it has changed."""

_tasks: set[asyncio.Task[None]] = set()
"""One that waits for Slack may outlive its run for a moment."""


class Stage(Protocol):
    """The thread, so far as it shows what is not stored yet."""

    async def thinking(self, lease: Lease, session: Session) -> bool:
        """Shows people who wait that the agent is at work. Returns whether it is shown."""
        ...

    async def quiet(self, session: Session) -> None:
        """It is not at work any more."""
        ...

    async def piece(self, lease: Lease, session: Session, piece: MessageDelta) -> None:
        """A part of a reply. It may be shown, or dropped."""
        ...

    def task(self, session: Session, task: Task) -> None:
        """A tool call began or ended. It may be shown."""
        ...

    async def look(self, lease: Lease, session: Session) -> None:
        """Time has passed, or something came, so show what is due."""
        ...

    def whole(self, session: Session) -> bool:
        """The reply is complete: no more parts are shown. Returns whether some were."""
        ...


class Showing:
    def __init__(self, stage: Stage, lease: Lease, session: Session) -> None:
        self._stage, self._lease, self._session = stage, lease, session
        self._pieces: list[MessageDelta] = []
        self._tasks: dict[str, Task] = {}
        self._news, self._words, self._over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._seen = False
        task = asyncio.create_task(self._show(), name="adk-confirm-showing")
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    def piece(self, piece: MessageDelta) -> None:
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
        self._stage.task(self._session, task)
        self._news.set()

    def whole(self) -> tuple[Task, ...]:
        """What was said is there as a whole. The tool calls that were shown with it; those that run are shown with what
        follows."""
        self._pieces.clear()
        seen = self._stage.whole(self._session)
        ended = tuple(task for task in self._tasks.values() if task.state is not TaskState.RUNNING)
        self._tasks = {key: task for key, task in self._tasks.items() if task.state is TaskState.RUNNING}
        for task in self._tasks.values():
            self._stage.task(self._session, task)
        return ended if seen else ()

    def end(self) -> None:
        self._over.set()
        self._words.set()
        self._news.set()
        self._seen = self._stage.whole(self._session) or self._seen

    def rest(self) -> tuple[Task, ...]:
        """After the end: the tool calls that are shown, and after which nothing was said."""
        return tuple(self._tasks.values()) if self._seen else ()

    async def _show(self) -> None:
        try:
            shown = not await _within(SOON, self._words) and await self._stage.thinking(self._lease, self._session)
            if shown and self._over.is_set():
                await self._stage.quiet(self._session)
            while not self._over.is_set():
                await _within(LOOK if self._tasks else None, self._news)
                self._news.clear()
                while self._pieces and not self._over.is_set():
                    await self._stage.piece(self._lease, self._session, self._pieces.pop(0))
                if self._tasks and not self._over.is_set():
                    await self._stage.look(self._lease, self._session)
        except ConfirmError as error:
            log.info("what the agent does is not shown: %s", error)
        except Exception:
            log.exception("what the agent does could not be shown")


async def _within(seconds: float | None, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
