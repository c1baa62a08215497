"""Draws a reply together with the tool calls that led to it: when the reply is complete, and when a call changes."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import astuple, replace

from blocks import tasks as shown
from blocks.kit import Message
from blocks.tasks import TaskView
from blocks.text import MESSAGE_TEXT, escape, fit
from bot.cards import markdown
from bot.cards.streams import Streams
from bot.cards.tasks import is_open, task_views
from bot.confirmation.model import Confirmation
from bot.hosts.host import Task
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import OVERSIZE_OR_ODD, Gone, RefusedBySlack, SlackTrouble
from bot.slack.outbound.message_ids import SaidMark
from bot.store.plans import Plan, record_plan_shown
from bot.store.repository import Session
from runtime.jsontypes import JsonObject
from runtime.store.lease import Lease

log = logging.getLogger(__name__)


class Plans:
    def __init__(self, sender: Sender, streams: Streams) -> None:
        self._sender, self._streams = sender, streams

    async def views(self, session: Session, tasks: Sequence[Task], rows: Sequence[Confirmation]) -> list[TaskView]:
        """The calls of a finished run, with links to their cards."""
        links, called = {}, {task.call_id for task in tasks}
        for row in rows if called and self._streams.show_tasks(session) else ():
            link = await self._link(session, row) if row.asked.call_id in called else None
            if link is not None:
                links[row.id] = link
        return task_views(tasks, rows, links, over=True)

    def plan(
        self, event: str, ts: str, words: str, tasks: Sequence[Task], rows: Sequence[Confirmation], shows: str
    ) -> Plan | None:
        """What to store about a message of which a call can still change. Otherwise None."""
        if not any(is_open(task, rows) for task in tasks):
            return None
        return Plan(event=event, ts=ts, words=words, tasks=tuple(tasks), shows=shows)

    async def put(
        self, lease: Lease, session: Session, ts: str, message: Message, views: Sequence[TaskView]
    ) -> bool | None:
        """Puts the whole reply, or its first part, into the message that was streamed. Returns whether it shows the
        calls as tasks, or None if the message is gone. A message without blocks stands for a reply without text."""
        sender, at = self._sender.under(lease.sure), Workspace.of(session)
        try:
            if views and self._streams.show_tasks(session):
                try:
                    with_tasks = _with_tasks(message, views)
                    await sender.update(at, session.channel, ts, with_tasks, or_plain=False)
                    return True
                except RefusedBySlack as trouble:
                    if trouble.code not in OVERSIZE_OR_ODD:
                        raise
                    await self._streams.refuse_tasks(session, trouble)
            if not message.blocks:
                message = markdown.message(shown.in_words(views), message.metadata)
            await sender.update(at, session.channel, ts, message)
        except Gone:
            return None
        return False

    async def redraw(self, lease: Lease, session: Session, plan: Plan, rows: Sequence[Confirmation]) -> None:
        """Updates a message whose calls have changed."""
        views = await self.views(session, plan.tasks, rows)
        still_open, shows = any(is_open(task, rows) for task in plan.tasks), digest(views)
        if shows != plan.shows:
            words = plan.words
            for row in rows:
                words = row.redactor.mask_text(words)
            message = (
                markdown.message(words, mark(session, plan.event))
                if words
                else message_without_text(session, plan.event)
            )
            try:
                still_open = await self.put(lease, session, plan.ts, message, views) is True and still_open
            except RefusedBySlack as trouble:
                log.info("could not update the tool calls in a message: %s", trouble)
                still_open = False
        if shows != plan.shows or not still_open:
            await lease.run(record_plan_shown, session.key, replace(plan, shows=shows), still_open=still_open)

    async def _link(self, session: Session, row: Confirmation) -> str | None:
        """A link to the card, if everybody can see the card."""
        cards = [place for place in row.places if place.ts is not None and not place.pointer and place.person is None]
        for place in cards[:1]:
            try:
                at = Workspace.of(session)
                return await self._sender.permalink(at, place.channel, place.ts or "")
            except SlackTrouble as trouble:
                log.info("a task has no link to its card: %s", trouble)
        return None


def digest(views: Sequence[TaskView]) -> str:
    return hashlib.sha256(json.dumps([astuple(view) for view in views]).encode()).hexdigest()[:16]


def mark(session: Session, event: str) -> JsonObject:
    return SaidMark(session.key, event, 0).metadata()


def message_without_text(session: Session, event: str) -> Message:
    """A reply without words."""
    return Message("", (), mark(session, event))


def _with_tasks(message: Message, views: Sequence[TaskView]) -> Message:
    """The message's text: the reply, then the calls. Screen readers read it."""
    text = "\n\n".join(filter(None, [message.text, escape(shown.in_words(views))]))
    block = shown.plan(views, f"tasks.{digest(views)}")
    return replace(message, text=fit(text, MESSAGE_TEXT).text, blocks=(block, *message.blocks))
