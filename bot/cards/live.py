"""The state of a streamed reply: what the agent has sent, what people see of it, and what is due. No I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from slack_sdk.web.async_chat_stream import AsyncChatStream

from blocks.tasks import MOST_TASKS, TaskView, chunk, heading
from bot.cards import markdown
from bot.hosts.host import Task, TaskState
from runtime.jsontypes import JsonObject

SOON = 0.5
"""A reply that ends within this many seconds is posted as a whole: a stream would cost three calls."""

RUNS_FOR = 1.0
"""A tool that ends within this many seconds starts no stream and is not shown as running."""

GROWS_EVERY, EDITED_EVERY = 1.0, 3.0


@dataclass
class LiveReply:
    """A streamed reply. `invocation` is empty until the agent's host has named it. `begun`: it is in Slack, or being
    sent. `elsewhere`: calls that an earlier message shows; no stream begins for these alone."""

    invocation: str
    text: str = ""
    text_since: float = 0.0
    tasks: dict[str, Task] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)
    shown: int = 0
    sent: dict[str, TaskView] = field(default_factory=dict)
    heading: JsonObject | None = None
    last: float = 0.0
    ts: str | None = None
    stream: AsyncChatStream | None = None
    begun: bool = False
    over: bool = False
    at_slack: asyncio.Lock = field(default_factory=asyncio.Lock)

    def belongs_to(self, invocation: str) -> bool:
        return same_invocation(self.invocation, invocation)

    def add_text(self, words: str, at: float) -> None:
        self.text_since = self.text_since if self.text else at
        if len(self.text) <= markdown.LONGEST:  # a longer reply is not streamed any further
            self.text += words

    def add_task(self, task: Task, at: float) -> None:
        self.tasks[task.call_id] = task
        self.since.setdefault(task.call_id, at)

    def is_due(self, now: float) -> bool:
        if len(self.text) > markdown.LONGEST:
            return False
        if self.begun:
            return now - self.last >= (EDITED_EVERY if self.stream is None else GROWS_EVERY)
        return (bool(self.text) and now - self.text_since >= SOON) or self._takes_long(now)

    def unseen_text(self) -> tuple[str, int]:
        """The text that people don't see yet, and where it ends. Never ends within a mention."""
        end = max(self.text.rfind(" "), self.text.rfind("\n")) + 1
        return markdown.inert(self.text[self.shown : end]), end

    def shown_tasks(self, now: float) -> list[Task]:
        """The tasks to show. A task that began just now is shown only once it has ended."""
        return [
            task
            for task in self.tasks.values()
            if task.state is not TaskState.RUNNING
            or task.call_id in self.sent
            or now - self.since[task.call_id] >= RUNS_FOR
        ][:MOST_TASKS]

    def chunks(self, views: Sequence[TaskView]) -> list[JsonObject]:
        """The chunks about tasks to send to the stream."""
        changed = [view for view in views if self.sent.get(view.id) != view]
        if not changed:
            return []
        title = heading(views)
        titles = [title] if title != self.heading else []
        return titles + [chunk(view, first=not self._has_note(view)) for view in changed]

    def mark_sent(self, views: Sequence[TaskView]) -> None:
        """Notes that these were sent to the stream."""
        self.sent |= {view.id: view for view in views}
        self.heading = heading(views) if views else self.heading

    def _has_note(self, view: TaskView) -> bool:
        before = self.sent.get(view.id)
        return before is not None and bool(before.note)

    def _takes_long(self, now: float) -> bool:
        running = {key for key, task in self.tasks.items() if task.state is TaskState.RUNNING}
        return any(now - self.since[key] >= RUNS_FOR for key in running - self.elsewhere)


def same_invocation(known: str, invocation: str) -> bool:
    """Whether both are the same invocation. A reply that began before its invocation was known belongs to the next one
    named."""
    return not known or not invocation or known == invocation
