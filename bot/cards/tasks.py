"""Turns a run's tool calls, and the confirmations behind them, into the tasks that a reply shows. Pure, and masked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from blocks import tasks as shown
from blocks import words
from blocks.content import headline
from blocks.readable import words_of
from blocks.tasks import TaskStatus, TaskView
from blocks.view import ABSENT, CardView, Face
from bot.cards.card_presenter import card_view
from bot.confirmation.model import Confirmation, OutcomeKind, State
from bot.hosts.host import Task, TaskState
from bot.hosts.tasks import one_line

_STATUS: dict[TaskState, TaskStatus] = {
    TaskState.RUNNING: "in_progress",
    TaskState.WAITING: "pending",
    TaskState.DONE: "complete",
    TaskState.FAILED: "error",
}

_FINAL = frozenset({State.DENIED, State.EXPIRED, State.WITHDRAWN, State.LAPSED})
"""States after which no outcome follows. A call answered elsewhere may still have one."""

_OPEN = (OutcomeKind.RUNNING, OutcomeKind.UNKNOWN)


def task_views(
    tasks: Iterable[Task],
    rows: Sequence[Confirmation],
    links: Mapping[str, str] | None = None,
    *,
    over: bool = False,
) -> list[TaskView]:
    """The tasks of a reply. `links`: the cards' addresses, by confirmation id. `over`: the run has ended, so only
    approved calls still run."""
    known = {row.asked.call_id: row for row in rows}  # if a call was asked about twice, the last one counts
    return [
        _without_card(task, rows, over=over)
        if (row := known.get(task.call_id)) is None
        else _with_card(task, row, (links or {}).get(row.id))
        for task in tasks
    ]


def is_open(task: Task, rows: Sequence[Confirmation]) -> bool:
    """Whether a task can still change after its run."""
    row = next((row for row in reversed(rows) if row.asked.call_id == task.call_id), None)
    if row is None:
        return False
    return row.state not in _FINAL if row.outcome is None else row.outcome.kind in _OPEN


def _with_card(task: Task, row: Confirmation, link: str | None) -> TaskView:
    view = card_view(row)
    status = shown.status_of(view.face, happened=view.happened)
    return TaskView(task.call_id, headline(view), status, _note(view, row), link)


def _note(view: CardView, row: Confirmation) -> str:
    if view.face is Face.DONE and view.result is not ABSENT:
        return one_line(view.result)
    if view.face is Face.FAILED and view.error:
        return one_line(view.error)
    if view.face is Face.SETTLED:
        return words.TASK_SETTLED[view.happened]
    if view.face is Face.WAITING and row.asked.question:
        return words.TASK_WAITS_FOR_ANSWER
    return words.TASKS[view.face]


def _without_card(task: Task, rows: Iterable[Confirmation], *, over: bool) -> TaskView:
    # A policy was added after the run began. The result is shortened, so masking might miss a cut value.
    note = "" if any(row.policy.redact for row in rows) else task.result
    tool = task.tool
    for row in rows:
        tool = row.redactor.mask_text(tool)
    status = _STATUS[task.state]
    if task.state is TaskState.WAITING:
        note = words.TASKS[Face.WAITING]
    if over and task.state is TaskState.WAITING:  # nobody is asked about this call
        status, note = "error", words.TASKS[Face.REFUSED]
    view = TaskView(task.call_id, words_of(tool), status, note)
    return shown.final_task(view) if over else view
