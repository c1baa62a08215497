"""Shows the tool calls of a reply as Slack's tasks: chunks while it streams, and a plan block in the final message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import JsonValue

from blocks import words
from blocks.kit import JsonObject
from blocks.text import prose
from blocks.view import Face

TaskStatus = Literal["pending", "in_progress", "complete", "error"]

MOST_TASKS = 50
"""The most tasks that Slack accepts in one plan."""

_TITLE, _NOTE, _ID = 150, 200, 255

_STATUS: dict[Face, TaskStatus] = {
    Face.WAITING: "pending",
    Face.APPROVED: "pending",
    Face.RUNNING: "in_progress",
    Face.DONE: "complete",
}
"""The status of each state. All other states are errors."""


@dataclass(frozen=True, slots=True)
class TaskView:
    """One tool call. `note` says how it ended; `link` leads to its card."""

    id: str
    title: str
    status: TaskStatus
    note: str = ""
    link: str | None = None


def status_of(face: Face, *, happened: bool | None = None) -> TaskStatus:
    """The status of a call that has a card."""
    if face is Face.SETTLED and happened:
        return "complete"
    return _STATUS.get(face, "error")


def chunk(task: TaskView, *, first: bool = True) -> JsonObject:
    """A stream's chunk for a task. Slack adds each note to the notes before, so it is sent once."""
    chunk: JsonObject = {"type": "task_update", "id": task.id[:_ID], "title": _title(task), "status": task.status}
    if task.note and first:
        chunk["output"] = prose(task.note, _NOTE)
    if task.link and first:
        chunk["sources"] = [_source(task.link)]
    return chunk


def heading(tasks: Sequence[TaskView]) -> JsonObject:
    """The line above the tasks of a stream."""
    return {"type": "plan_update", "title": words.tasks_title(*_counts(tasks))}


def plan(tasks: Sequence[TaskView], block_id: str) -> JsonObject:
    """The tasks in a message that is not a stream."""
    cards: list[JsonValue] = [_card(task) for task in tasks[:MOST_TASKS]]
    return {"type": "plan", "block_id": block_id, "title": words.tasks_title(*_counts(tasks)), "tasks": cards}


def in_words(tasks: Sequence[TaskView]) -> str:
    """A line for each task, for screen readers and for workspaces without task blocks."""
    lines: list[str] = []
    for task in tasks[:MOST_TASKS]:
        note = f": {prose(task.note, _NOTE)}" if task.note else ""
        lines.append(words.TASK_LINE.format(sign=words.TASK_SIGNS[task.status], title=_title(task), note=note))
    return "\n".join(lines)


def final_task(task: TaskView) -> TaskView:
    """A task that will not change any more."""
    if task.status != "in_progress":
        return task
    return replace(task, status="error", note=words.TASK_NO_RESULT)


def _counts(tasks: Sequence[TaskView]) -> tuple[int, int, int]:
    return len(tasks), sum(t.status == "pending" for t in tasks), sum(t.status == "error" for t in tasks)


def _card(task: TaskView) -> JsonObject:
    card: JsonObject = {"task_id": task.id[:_ID], "title": _title(task), "status": task.status}
    if task.note:
        section: JsonObject = {
            "type": "rich_text_section", "elements": [{"type": "text", "text": prose(task.note, _NOTE)}]
        }  # fmt: skip
        card["output"] = {"type": "rich_text", "elements": [section]}
    if task.link:
        card["sources"] = [_source(task.link)]
    return card


def _source(link: str) -> JsonObject:
    return {"type": "url", "url": link, "text": words.TASK_CARD}


def _title(task: TaskView) -> str:
    return prose(task.title, _TITLE)
