"""Shows an agent at work: a status in the thread, then its reply while it is written.

Streaming only shows the reply earlier: the reply is stored in the session and posted from there. A stream that ends
well becomes the reply's message. One that a crash or a broken connection left open is closed. The beginning of a stream
is noted in the store, so that it is found even if the process dies before it knows the message.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from blocks.kit import Message
from blocks.tasks import TaskView
from blocks.verdict import notice_message
from blocks.words import INTERRUPTED, THINKING
from bot.cards import markdown
from bot.cards.agent_sessions import AgentSessions
from bot.cards.live import LiveReply, same_invocation
from bot.cards.streams import Streams
from bot.cards.tasks import task_views
from bot.hosts.host import MessageDelta, Task
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import Gone, SlackTrouble, Unsure
from bot.slack.outbound.feature_support import Feature
from bot.slack.outbound.message_ids import SaidMark, identity
from bot.slack.outbound.methods import SET_THREAD_STATUS
from bot.store.outbox import (
    LIVE,
    UnfinishedReply,
    forget_live,
    note_begun,
    note_live,
    read_left,
    read_unfinished,
    thread_is_behind,
)
from bot.store.repository import Session, session_confirmations
from bot.store.slack_lanes import MANY_CARDS, count_due_cards
from runtime.jsontypes import Json, JsonObject
from runtime.store.lease import Lease

log = logging.getLogger(__name__)


_CLOCKS = 60.0
"""The largest difference that is expected between Slack's clock and ours, in seconds."""
_DONT_WAIT = 0.0


class Streaming:
    """Streams the replies of this process's runs. `tasks`: show the tool calls that lead to a reply."""

    def __init__(
        self,
        sender: Sender,
        sessions: AgentSessions,
        clock: Callable[[], float] = time.monotonic,
        *,
        tasks: bool = True,
    ) -> None:
        self._sender, self._clock, self.streams = sender, clock, Streams(sender, tasks=tasks)
        self._sessions = sessions
        self._live: dict[str, LiveReply] = {}
        self._ended: dict[str, LiveReply] = {}  # complete replies whose streams are not finished yet

    async def show_thinking(self, lease: Lease, session: Session) -> bool:
        """Shows that the agent works, unless Slack refused that recently or many cards are due."""
        if await lease.read(count_due_cards) > MANY_CARDS:
            return False
        if self._sessions.is_supported(session) and await self._sessions.show_processing(lease, session):
            return True
        if self._sessions.is_supported(session) or not self._sender.features.accepts(
            Workspace.of(session), Feature.STATUS, session.channel
        ):
            return False
        return await self._status(self._sender.under(lease.sure), session, THINKING)

    async def clear_status(self, session: Session) -> None:
        """Clears a status that arrived after the message which should end it. A session's status is corrected with its
        thread."""
        if self._sessions.is_supported(session):
            return
        await self._status(self._sender, session, "")

    async def _status(self, sender: Sender, session: Session, status: str) -> bool:
        try:
            await sender.ask(
                Workspace.of(session),
                SET_THREAD_STATUS,
                lambda client: client.assistant_threads_setStatus(
                    channel_id=session.channel, thread_ts=session.thread_ts, status=status
                ),
                patience=_DONT_WAIT,
            )
        except SlackTrouble as trouble:
            if not await self._sender.features.note_refusal(
                Workspace.of(session), Feature.STATUS, trouble, session.channel
            ):
                log.info("no status is shown: %s", trouble)
            return False
        return True

    async def add_part(self, lease: Lease, session: Session, piece: MessageDelta) -> None:
        """Shows a part of a reply that takes a while. Shows none if a policy of the session hides something, or while
        earlier messages are still being sent."""
        live = self._current(session, piece.invocation_id)
        live.add_text(piece.text, self._clock())
        await self._show(lease, session, live)

    def task(self, session: Session, task: Task) -> None:
        """Notes that a tool call began or ended. `show_due` shows it."""
        if self.streams.show_tasks(session):
            self._current(session, task.invocation_id).add_task(task, self._clock())

    async def show_due(self, lease: Lease, session: Session) -> None:
        """Shows what is due."""
        if (live := self._live.get(session.key)) is not None:
            await self._show(lease, session, live)

    def end_reply(self, session: Session) -> bool:
        """Ends the streaming of a reply that is complete. Returns whether people see its beginning."""
        live = self._live.pop(session.key, None)
        if live is None:
            return False
        live.over = True
        if live.begun:
            self._ended[session.key] = live
        return live.begun

    async def finish(
        self, lease: Lease, session: Session, invocation: str, tasks: Sequence[TaskView] = ()
    ) -> str | None:
        """The message that showed the streamed reply, to be replaced with the whole reply. Call `forget_reply`
        afterwards. Another process may have streamed it. `tasks`: the results of the tool calls that it shows."""
        if not invocation:
            return None
        live, ts = self._ended.get(session.key) or self._live.get(session.key), None
        if live is not None and live.belongs_to(invocation):
            live.over = True
            async with live.at_slack:  # wait until what is being sent has arrived
                ts = live.ts
            self._forget(session)
        else:
            live = None
        left = await lease.read(read_left, session.key)
        if left is None or left.cut or not same_invocation(left.invocation, invocation):
            return None
        ts = ts or next(iter(await self._find_unfinished(session, left)), None)
        if ts is None:
            await self.forget_reply(lease, session)
        elif live is None or live.stream is not None:
            known = [task for task in tasks if live is not None and task.id in live.sent]
            await self.streams.stop(lease, session, ts, live.chunks(known) if live is not None else [])
        return ts

    async def forget_reply(self, lease: Lease, session: Session) -> None:
        await lease.run(forget_live, session.key)

    def _current(self, session: Session, invocation: str) -> LiveReply:
        live = self._live.get(session.key)
        if live is not None and not live.belongs_to(invocation):
            self.end_reply(session)
            live = None
        if live is None:
            live = self._live[session.key] = LiveReply(invocation)
        live.invocation = live.invocation or invocation
        return live

    def _forget(self, session: Session) -> None:
        if self._ended.pop(session.key, None) is None:
            self._live.pop(session.key, None)

    async def _show(self, lease: Lease, session: Session, live: LiveReply) -> None:
        if live.over or not live.is_due(self._clock()):
            return
        if not live.begun and not await self._may_begin(lease, session, live):
            return
        async with live.at_slack:
            try:
                await self._send(lease, session, live)
            except SlackTrouble as trouble:
                log.info("an agent's words are not shown as they come: %s", trouble)
                live.over = True

    async def _may_begin(self, lease: Lease, session: Session, live: LiveReply) -> bool:
        left = await lease.read(read_unfinished, session.key)
        live.elsewhere = {task.call_id for plan in left.plans for task in plan.tasks}
        if left.live or not live.is_due(self._clock()):
            return False  # another reply is being streamed, or an earlier message shows all of this
        rows = await lease.read(session_confirmations, session.key)
        if any(row.policy.redact for row in rows):
            live.over = True
        elif any(row.runs and row.asked.call_id in live.tasks for row in rows):
            return False  # its card shows that it runs, and the line about the decision comes first
        elif await lease.read(thread_is_behind, session.key):
            return False  # the lines about what led to it come first
        return not live.over

    async def _send(self, lease: Lease, session: Session, live: LiveReply) -> None:
        views = await self._views(lease, session, live)
        chunks, (fresh, end) = live.chunks(views), live.unseen_text()
        if live.over or not (chunks or fresh.strip()):
            return
        live.last = self._clock()
        if not live.begun:
            live.begun = True
            await self._begin(lease, session, live, chunks, end)
        elif live.stream is not None:
            await self.streams.append(lease, session, live, chunks, fresh)
        elif live.ts is not None and fresh.strip():
            await self._sender.under(lease.sure).update(
                Workspace.of(session), session.channel, live.ts, _partial_message(session, live, end)
            )
        if self.streams.show_tasks(session):
            live.mark_sent(views)
        if fresh.strip():
            live.shown = end

    async def _views(self, lease: Lease, session: Session, live: LiveReply) -> list[TaskView]:
        tasks = live.shown_tasks(self._clock()) if live.tasks and self.streams.show_tasks(session) else []
        return task_views(tasks, await lease.read(session_confirmations, session.key)) if tasks else []

    async def _begin(self, lease: Lease, session: Session, live: LiveReply, chunks: list[JsonObject], end: int) -> None:
        await lease.run(note_begun, session.key, live.invocation)
        fresh, _ = live.unseen_text()
        try:
            if self._sender.features.accepts(Workspace.of(session), Feature.STREAM, session.channel):
                await self.streams.start(lease, session, live, chunks, fresh)
            if live.ts is None and fresh.strip():
                live.ts = await self._sender.under(lease.sure).post(
                    Workspace.of(session),
                    session.channel,
                    _partial_message(session, live, end),
                    thread_ts=session.thread_ts,
                )
        except SlackTrouble as trouble:
            if not isinstance(trouble, Unsure):
                await self._forget_stream(lease, session, live)
            raise
        if live.ts is None:
            await self._forget_stream(lease, session, live)
        else:
            await lease.run(note_live, session.key, live.invocation, live.ts)

    async def _forget_stream(self, lease: Lease, session: Session, live: LiveReply) -> None:
        live.begun = False
        await lease.run(forget_live, session.key)

    async def close_left(self, lease: Lease, session: Session) -> None:
        """Closes the streamed reply of a run that died or ended early. If another run has begun, keeps what it has not
        sent yet."""
        if (live := self._live.get(session.key)) is not None and live.begun:
            del self._live[session.key]
        self._ended.pop(session.key, None)
        left = await lease.read(read_left, session.key)
        if left is None:
            return
        for ts in await self._find_unfinished(session, left):
            await self._interrupt(lease, session, ts)
        await self.forget_reply(lease, session)

    async def _find_unfinished(self, session: Session, left: UnfinishedReply) -> list[str]:
        """The message of a streamed reply that reached the thread and was not replaced by the whole reply."""
        sent = await self._sender.history.sent(
            Workspace.of(session), session.channel, thread_ts=session.thread_ts, since=left.since
        )
        shown = [one.ts for one in sent if not one.files and _is_unfinished(one.metadata)]
        if left.ts is not None:
            return [ts for ts in shown if ts == left.ts]
        return [ts for ts in shown if float(ts) > left.since - _CLOCKS][-1:]  # streams carry no metadata

    async def _interrupt(self, lease: Lease, session: Session, ts: str) -> None:
        await self.streams.stop(lease, session, ts)
        mark = SaidMark(session.key, f"{LIVE}:{ts}", 0)
        message = replace(notice_message(INTERRUPTED), metadata=mark.metadata())
        try:
            await self._sender.under(lease.sure).update(Workspace.of(session), session.channel, ts, message)
        except Gone as gone:
            log.info("the rest of an interrupted reply could not be closed: %s", gone)


def _is_unfinished(metadata: Json) -> bool:
    """Whether one of our messages may show an unfinished reply: it has no mark, or that of an edited reply."""
    match identity(metadata):
        case ("said", _, str() as event, _):
            return event.startswith(f"{LIVE}:")
    return not metadata


def _partial_message(session: Session, live: LiveReply, end: int) -> Message:
    mark = SaidMark(session.key, f"{LIVE}:{live.invocation}", 0)
    message = markdown.message(live.text[:end], mark.metadata())
    return replace(message, text=message.text or " ")
