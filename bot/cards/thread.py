"""Writes in a session's thread: ledger lines in their order, and the agent's messages. One writer at a time.

Every message carries its identity in `metadata`, and every post is noted in `attempts` before it is made. If Slack's
answer or this process is lost, the message is searched for in the thread and not posted twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from blocks.ids import CardMark, LineMark, parse_mark
from blocks.kit import Message
from blocks.step_views import StepView
from blocks.text import MESSAGE_TEXT, fit, units
from blocks.thread import named_users, thread_messages
from blocks.verdict import agent_failure_message, notice_message
from blocks.words import AGENT_FAILED
from bot.audit.ledger import LedgerLine, LineKind
from bot.cards import markdown
from bot.cards.ledger_presenter import thread_steps
from bot.cards.plans import Plans, digest, message_without_text
from bot.cards.streaming import Streaming
from bot.cards.tasks import is_open
from bot.confirmation.model import Confirmation
from bot.hosts.host import AgentMessage, Attachment, Task
from bot.slack.directory.names import NameLookup
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.client import Sender
from bot.slack.outbound.downloads import attachments
from bot.slack.outbound.errors import SlackTrouble, Unsure
from bot.slack.outbound.history import SentMessage
from bot.slack.outbound.message_ids import SaidMark, identity, lines_in
from bot.store.attempts import Attempts
from bot.store.outbox import third_tries
from bot.store.plans import Plan
from bot.store.repository import Session
from runtime.jsontypes import JsonObject
from runtime.store.lease import Lease

log = logging.getLogger(__name__)

SHORT = 3_000
"""A longer reply gets a message of its own."""


@dataclass(frozen=True)
class PostedMessage:
    """The first message that was posted, and what to keep of the tool calls that it shows."""

    ts: str
    plan: Plan | None = None


class Thread:
    """`display`: what is shown before it is stored. `plans`: the messages that show tool calls."""

    def __init__(self, sender: Sender, names: NameLookup, streaming: Streaming) -> None:
        self._sender, self._names, self.display = sender, names, streaming
        self.plans = Plans(sender, streaming.streams)

    async def post_lines(
        self, lease: Lease, session: Session, lines: Sequence[LedgerLine], rows: Iterable[Confirmation]
    ) -> int:
        """Posts the lines that are meant for the thread, as one message or as few as Slack's limits allow. Returns the
        number of the last line."""
        if not lines:
            return session.told_seq
        last, steps = lines[-1].seq, await self._steps(lease, session, lines, rows)
        if not steps:
            return last
        mark = f"lines:{lines[0].seq}"
        before = await Attempts(lease).begin(session.key, mark)
        if before is not None:
            posted_to = await self._last_line_posted(session, before.at)
            steps = [step for step in steps if step.seq > posted_to]
        for index, message in enumerate(await self._story(session, steps) if steps else ()):
            await self._post(lease, session, message, mark, first=before is None and index == 0)
        return last

    async def say_below(
        self,
        lease: Lease,
        session: Session,
        lines: Sequence[LedgerLine],
        said: AgentMessage,
        rows: Sequence[Confirmation],
    ) -> str | None:
        """Posts lines and the agent's reply to them as one message, and returns it. Returns None if two are needed: the
        reply is long, or a part of either may have been posted already."""
        parts = markdown.parts(_mask(said, rows).text)
        short = len(parts) == 1 and units(parts[0]) <= SHORT
        if said.failed or not short:
            return None
        steps = await self._steps(lease, session, lines, rows)
        above = await self._story(session, steps) if steps else ()
        marks = (f"lines:{lines[0].seq}", f"said:{said.event}"[:300])
        if len(above) != 1 or not await Attempts(lease).begin_together(session.key, *marks):
            return None
        mark = SaidMark(session.key, said.event, 0, (lines[0].seq, steps[-1].seq))
        message = _append_below(above[0], markdown.message(parts[0], mark.metadata()))
        return await self._post(lease, session, message, *marks, first=True)

    async def _steps(
        self, lease: Lease, session: Session, lines: Sequence[LedgerLine], rows: Iterable[Confirmation]
    ) -> list[StepView]:
        refused = any(line.kind is LineKind.VOTE_REFUSED for line in lines)
        tries = await lease.read(third_tries, lines) if refused else frozenset[int]()
        return thread_steps(lines, {row.id: row for row in rows}, session.thread_ts, tries)

    async def _story(self, session: Session, steps: Sequence[StepView]) -> tuple[Message, ...]:
        names = await self._names.of(Workspace.of(session), named_users(steps))
        return thread_messages(session.key, steps, names)

    async def say(
        self,
        lease: Lease,
        session: Session,
        said: AgentMessage,
        *,
        rows: Sequence[Confirmation] = (),
        retry: str | None = None,
        tasks: Sequence[Task] = (),
    ) -> PostedMessage:
        """Posts what the agent said, in as many messages as needed.

        What the policies of `rows` hide is masked. `retry`: a failed turn gets a button to try again. `tasks`: the tool
        calls that were shown with it; they stay in the message that showed them.
        """
        plans = self.plans
        views = await plans.views(session, tasks, rows)
        live = await self.display.finish(lease, session, said.invocation_id, views)
        said = _mask(said, rows)
        messages = _reply_messages(session, said, retry)
        if not messages and not views:
            await self._end_stream(lease, session, live)
            return PostedMessage("")
        mark = f"said:{said.event}"[:300]
        before = await Attempts(lease).begin(session.key, mark)
        there = await self._posted_by_identity(session, before.at) if before is not None else {}
        first = messages[0] if messages else message_without_text(session, said.event)
        posted = [ts for ts in [there.get(identity(first.metadata))] if ts is not None]
        shows = "" if posted else None
        if live is not None and not there:
            shown_tasks = [] if said.failed and any(is_open(task, rows) for task in tasks) else views
            with_tasks = await plans.put(lease, session, live, first, shown_tasks)
            posted = [] if with_tasks is None else [live]
            shows = digest(views) if with_tasks else None
        await self._end_stream(lease, session, live, replaced=bool(posted) and not there)
        for message in messages[len(posted) :]:
            ts = there.get(identity(message.metadata))
            posted.append(ts or await self._post(lease, session, message, mark, first=before is None and not posted))
        if not posted or shows is None:
            return PostedMessage(posted[0] if posted else "")
        words = "" if said.failed or not messages else markdown.parts(said.text)[0]
        return PostedMessage(posted[0], plans.plan(said.event, posted[0], words, tasks, rows, shows))

    async def delete_copies(self, lease: Lease, session: Session, since: float) -> None:
        """Deletes what two processes posted twice: lines that repeat lines above, and second copies of an agent's
        message."""
        posted_to, posted = 0, set[object]()
        sender = self._sender.under(lease.sure)
        sent = await self._read_messages(session, since)
        stays = {identity(one.metadata): one for one in reversed(sent)}  # the first of several copies
        with_reply = [
            one
            for one in sent
            if not isinstance(parse_mark(one.metadata), LineMark) and stays[identity(one.metadata)] is one
        ]
        repeated = {seq for one in with_reply for seq in lines_in(one.metadata, session.key)}
        for one in sent:
            mark, known = parse_mark(one.metadata), identity(one.metadata)
            if isinstance(mark, CardMark):
                continue  # the cards' worker handles cards
            copy = known is not None and known in posted
            if isinstance(mark, LineMark) and mark.session == session.key:
                copy = mark.told_seq <= posted_to or mark.told_seq in repeated
                posted_to = max(posted_to, mark.told_seq)
            posted.add(known)
            if copy:
                log.info("another copy of a message is deleted")
                await sender.history.delete(Workspace.of(session), session.channel, one.ts)

    async def _end_stream(self, lease: Lease, session: Session, live: str | None, *, replaced: bool = False) -> None:
        """The message that showed a part of a reply. It is replaced by the whole reply, or closed."""
        if live is not None:
            await (self.display.forget_reply if replaced else self.display.close_left)(lease, session)

    async def fetch(self, files: Sequence[JsonObject]) -> tuple[Attachment, ...]:
        """Downloads the files that came with a person's message. An unreadable file becomes a sentence that says
        why."""
        if not files:
            return ()
        return await attachments(self._sender.client(), files)

    async def _post(self, lease: Lease, session: Session, message: Message, *marks: str, first: bool) -> str:
        """Posts messages. `first`: if this fails, no earlier attempt has to be searched for."""
        at = Workspace.of(session)
        try:
            return await self._sender.under(lease.sure).post(at, session.channel, message, thread_ts=session.thread_ts)
        except SlackTrouble as trouble:
            if first and not isinstance(trouble, Unsure):
                for mark in marks:
                    await Attempts(lease).forget(session.key, mark)
            raise

    async def _last_line_posted(self, session: Session, since: float) -> int:
        """Up to which ledger line the thread has been posted, according to its own messages."""
        sent = await self._read_messages(session, since)
        return max((seq for one in sent for seq in lines_in(one.metadata, session.key)), default=0)

    async def _posted_by_identity(self, session: Session, since: float) -> dict[object, str]:
        return {identity(one.metadata): one.ts for one in reversed(await self._read_messages(session, since))}

    async def _read_messages(self, session: Session, since: float) -> list[SentMessage]:
        at = Workspace.of(session)
        return await self._sender.history.sent(at, session.channel, thread_ts=session.thread_ts, since=since)


def _append_below(above: Message, said: Message) -> Message:
    text = fit(f"{above.text}\n{said.text}", MESSAGE_TEXT).text
    return Message(text, (*above.blocks, *said.blocks), said.metadata)


def _mask(said: AgentMessage, rows: Iterable[Confirmation]) -> AgentMessage:
    text = said.text
    for row in rows:
        text = row.redactor.mask_text(text)
    return replace(said, text=text)


def _reply_messages(session: Session, said: AgentMessage, retry: str | None) -> list[Message]:
    def mark(part: int) -> JsonObject:
        return SaidMark(session.key, said.event, part).metadata()

    if said.failed:
        failed = agent_failure_message(retry, said.text or None) if retry else notice_message(said.text or AGENT_FAILED)
        return [replace(failed, metadata=mark(0))]
    return [markdown.message(part, mark(index)) for index, part in enumerate(markdown.parts(said.text))]
