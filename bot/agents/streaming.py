"""Shows an agent at work, and its reply while it is written, in a message that grows. A display: it stores nothing.

The whole reply is stored and posted from the outbox, into the message that grew if there is one. A message that no
reply takes over is deleted: by the thread's worker, which is told to look for what should not be there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from blocks import markdown
from bot.hosts.host import MessageDelta
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import Later, SlackTrouble, Unsure
from bot.slack.outbound.methods import APPEND_STREAM, START_STREAM
from bot.store.agent_sessions import begin_work
from bot.store.outbox import note_possible_copies, thread_is_behind
from bot.store.repository import Session, session_confirmations
from runtime.errors import ConfirmError
from runtime.store.database import Database, Tx
from runtime.store.lease import Lease

log = logging.getLogger(__name__)

AT_WORK = 1.0
"""An agent that answers within this many seconds is not shown at work, since each status costs a call to Slack."""
SOON, EVERY = 0.5, 1.0
"""A reply that ends within the first number of seconds is posted whole. Others grow once in so many seconds."""
_DONT_WAIT = 0.0

_tasks: set[asyncio.Task[None]] = set()
"""Keeps references to running tasks: one that waits for Slack may outlive its run for a moment."""


@dataclass
class Reply:
    """A reply that is being written. `ts`: the message that shows it. `kept`: it is stored, to be put there."""

    text: str = ""
    shown: str = ""
    begun: bool = False
    ts: str | None = None
    kept: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class RunDisplay:
    """What people see of one run before it is stored. The run never waits for it."""

    def __init__(self, sender: Sender, database: Database, lease: Lease, session: Session) -> None:
        self._sender, self._database, self._lease, self._session = sender, database, lease, session
        self._reply: Reply | None = None
        self._over = asyncio.Event()
        self._begun = [_begin(self._show_at_work())]

    def add_part(self, piece: MessageDelta) -> None:
        if self._reply is None:
            self._reply = Reply()
            self._begun.append(_begin(self._stream(self._reply)))
        if len(self._reply.text) <= markdown.LONGEST:  # a longer reply does not grow any further
            self._reply.text += piece.text

    @contextmanager
    def whole_reply(self) -> Iterator[Reply]:
        """The reply is complete. Whoever stores it, to be put into the message `ts`, sets `kept`."""
        reply, self._reply = self._reply or Reply(), None
        reply.over.set()
        whole = Reply(ts=reply.ts)  # a message that Slack names later is not meant
        try:
            yield whole
        finally:
            reply.kept = whole.kept and whole.ts is not None
            reply.settled.set()

    def end(self) -> None:
        self._over.set()
        with self.whole_reply():
            pass  # what is left is part of a reply that does not come

    async def ended(self) -> None:
        """Waits until the display has done everything. For a run that is cancelled, as the process stops."""
        await asyncio.wait(self._begun)

    async def _show_at_work(self) -> None:
        if not await _happens_within(AT_WORK, self._over):
            await self._lease.run(begin_work, self._session.key)

    async def _stream(self, reply: Reply) -> None:
        try:
            while not await _happens_within(EVERY if reply.begun else SOON, reply.over):
                if reply.begun or await self._lease.read(may_stream, self._session.key):
                    await self._grow(reply)
        except ConfirmError as error:
            log.info("an agent's words are not shown as they come: %s", error)
        await reply.settled.wait()
        if reply.begun and not reply.kept:
            await self._database.run(note_possible_copies, self._session.key)

    async def _grow(self, reply: Reply) -> None:
        end = max(reply.text.rfind(" "), reply.text.rfind("\n")) + 1  # never within a mention or a link
        shown = markdown.inert(reply.text[:end])
        fresh = shown[len(reply.shown) :]
        if not fresh.strip():
            return
        try:
            await (self._append(reply.ts, fresh) if reply.ts else self._start(reply, fresh))
        except Later as later:
            log.info("a reply grows later: %s", later)
            return
        reply.shown = shown

    async def _start(self, reply: Reply, fresh: str) -> None:
        session, direct = self._session, self._session.channel.startswith("D")
        reply.begun = True
        try:
            answer = await self._sender.under(self._lease.sure).ask(
                START_STREAM,
                lambda client: client.chat_startStream(
                    channel=session.channel,
                    thread_ts=session.thread_ts,
                    markdown_text=fresh,
                    recipient_team_id=None if direct else session.team,
                    recipient_user_id=None if direct else session.starter.user,
                ),
                into=session.channel,
                patience=_DONT_WAIT,
            )
        except SlackTrouble as trouble:
            reply.begun = isinstance(trouble, Unsure)
            raise
        reply.ts = str(answer["ts"])

    async def _append(self, ts: str, fresh: str) -> None:
        await self._sender.under(self._lease.sure).ask(
            APPEND_STREAM,
            lambda client: client.chat_appendStream(channel=self._session.channel, ts=ts, markdown_text=fresh),
            patience=_DONT_WAIT,
        )


def may_stream(tx: Tx, key: str) -> bool:
    """Whether a reply may be shown while it is written: the lines about what led to it come first, and the bot knows
    only at the end what the policies of these calls hide."""
    return not thread_is_behind(tx, key) and not any(row.policy.redact for row in session_confirmations(tx, key))


def _begin(work: Coroutine[object, object, None]) -> asyncio.Task[None]:
    async def guarded() -> None:
        try:
            await work
        except ConfirmError as error:
            log.info("what the agent does is not shown: %s", error)
        except Exception:
            log.exception("what the agent does could not be shown")

    task = asyncio.create_task(guarded(), name="adk-confirm-showing")
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task


async def _happens_within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
