"""Keeps messages that show an agent's tool calls until none of the calls can change any more."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import update

from bot.hosts.host import Task, TaskState
from bot.store.tables import spoken
from runtime.jsontypes import Json, JsonObject, canonical, objects
from runtime.store.database import Tx


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A message with tool calls that can still change: its text, its calls, and a digest of what it shows."""

    event: str
    ts: str
    words: str
    tasks: tuple[Task, ...]
    shows: str


def record_plan_shown(tx: Tx, key: str, plan: Plan, *, still_open: bool) -> None:
    """Records that the plan's message was updated. A plan that can't change any more is deleted."""
    here = update(spoken).where(spoken.c.session == key, spoken.c.event == plan.event, spoken.c.plan.is_not(None))
    tx.execute(here.values(plan=stored_plan(plan) if still_open else None))


def task_json(task: Task) -> JsonObject:
    return {"call": task.call_id, "tool": task.tool, "state": str(task.state), "result": task.result}


def tasks_from(stored: Json) -> tuple[Task, ...]:
    return tuple(
        Task(
            call_id=str(one["call"]),
            tool=str(one["tool"]),
            state=TaskState(str(one["state"])),
            result=str(one["result"]),
        )
        for one in objects(stored)
    )


def stored_plan(plan: Plan | None) -> str | None:
    if plan is None:
        return None
    part: JsonObject = {"words": plan.words, "shows": plan.shows, "tasks": [task_json(task) for task in plan.tasks]}
    return canonical(part)


def plan_from(event: str, ts: str, stored: str) -> Plan:
    part = json.loads(stored)
    return Plan(event=event, ts=ts, words=str(part["words"]), shows=str(part["shows"]), tasks=tasks_from(part["tasks"]))
