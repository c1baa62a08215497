"""Shows an agent at work, and its reply while it is written, in a message that grows. A display: it stores nothing.

The whole reply is stored and posted from the outbox, into the message that grew if there is one. A message that no
reply takes over is deleted by the thread's worker, which is told to look for what should not be there: before the run's
lease ends, or by whoever takes the lease over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field

from adk_confirm.blocks import markdown
from adk_confirm.bot.hosts.host import MessageDelta
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.slack.rate_limits import APPEND_STREAM, START_STREAM, Method
from adk_confirm.bot.slack.troubles import Later, SlackTrouble, Unsure
from adk_confirm.bot.store.agent_status import begin_work
from adk_confirm.bot.store.outbox import note_possible_copies, thread_is_behind
from adk_confirm.bot.store.repository import Session, session_confirmations
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.lease import Lease

log = logging.getLogger(__name__)

AT_WORK = 1.0
"""An agent that answers within this many seconds is not shown at work, since each status costs a call to Slack."""
SOON, EVERY = 0.5, 1.0
"""Seconds: a reply that ends within `SOON` is posted whole, any other grows once every `EVERY`."""
_LATE = 10.0
"""Seconds in which Slack may still show what was sent to it: no call takes longer."""

_tasks: set[asyncio.Task[None]] = set()
"""Keeps references to running tasks: one that waits for Slack may outlive its run for a moment."""


@dataclass
class Reply:
    """A reply that is being written. `ts`: the message that shows it. `begun`: it may exist, even without a `ts`."""

    text: str = ""
    shown: str = ""
    begun: bool = False
    ts: str | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)


class RunDisplay:
    """What people see of one run before it is stored. The run never waits for Slack."""

    def __init__(self, slack: Slack, database: Database, lease: Lease, session: Session, letter: int) -> None:
        self._slack, self._database, self._lease, self._session = slack, database, lease, session
        self._letter = letter
        self._reply: Reply | None = None
        self._left = set[str | None]()  # messages whose reply is not stored yet; None: its `ts` is not known yet
        self._over = asyncio.Event()
        _begin(self._show_at_work())

    def add_part(self, piece: MessageDelta) -> None:
        if self._reply is None:
            self._reply = Reply()
            _begin(self._stream(self._reply))
        if len(self._reply.text) <= markdown.LONGEST:  # a longer reply does not grow any further
            self._reply.text += piece.text

    def end_reply(self) -> str | None:
        """Ends the reply. Returns the message that shows it, or None if Slack has not named one yet."""
        reply, self._reply = self._reply, None
        if reply is None:
            return None
        reply.over.set()
        if reply.begun:
            self._left.add(reply.ts)
        return reply.ts

    def taken_over(self, ts: str | None) -> None:
        """Notes that this message stays: its reply is stored, or will be, and is put into it."""
        self._left.discard(ts)

    async def end(self) -> None:
        """Ends the display of the run. That messages should not stay is noted before the lease ends: whoever has the
        lease later knows nothing of them. Slack may still post one that it has not named yet."""
        self._over.set()
        self.end_reply()
        if self._left:
            self._left.clear()
            await self._lease.run(note_possible_copies, self._session.key, _LATE)

    async def _show_at_work(self) -> None:
        """Shows after a while that the agent works. Not yet if the store is slow, since the run may then be as well."""
        clock = asyncio.get_running_loop().time
        began = clock()
        while not await _happens_within(AT_WORK, self._over):
            asked = clock()

            def begin_in_time(tx: Tx, key: str, asked: float = asked) -> bool:
                late = clock() - asked > (asked - began) / 2
                if not late and not self._over.is_set():
                    begin_work(tx, key, self._letter)
                return not late

            if await self._lease.run(begin_in_time, self._session.key):
                return

    async def _stream(self, reply: Reply) -> None:
        while not await _happens_within(EVERY if reply.begun else SOON, reply.over):
            may_grow = reply.begun or await self._lease.read(may_stream, self._session.key)
            if may_grow and not reply.over.is_set():
                await self._grow(reply)

    async def _grow(self, reply: Reply) -> None:
        end = max(reply.text.rfind(" "), reply.text.rfind("\n")) + 1  # never within a mention or a link
        shown = markdown.inert(reply.text[:end])
        fresh = shown[len(reply.shown) :]
        if not fresh.strip():
            return
        try:
            await (self._ask(APPEND_STREAM, fresh, ts=reply.ts) if reply.ts else self._start(reply, fresh))
        except Later as later:
            log.info("a reply grows later: %s", later)
            return
        reply.shown = shown

    async def _start(self, reply: Reply, fresh: str) -> None:
        session, where = self._session, {"thread_ts": self._session.thread_ts}
        if not session.channel.startswith("D"):
            where |= {"recipient_team_id": session.team, "recipient_user_id": session.starter.user}
        reply.begun = True
        try:
            reply.ts = str((await self._ask(START_STREAM, fresh, **where))["ts"])
        except SlackTrouble as trouble:
            reply.begun = isinstance(trouble, Unsure)
            raise
        finally:
            if reply.begun and reply.over.is_set():  # now it is known when Slack got it
                await self._database.run(note_possible_copies, self._session.key)

    async def _ask(self, method: Method, words: str, **args: str) -> JsonObject:
        slack = self._slack.at(self._lease)
        return await slack.call(method, channel=self._session.channel, markdown_text=words, **args)


def may_stream(tx: Tx, key: str) -> bool:
    """Whether a reply may be shown while it is written: the lines about what led to it come first, and the bot knows
    only at the end what the policies of these calls hide."""
    return not thread_is_behind(tx, key) and not any(row.policy.redact for row in session_confirmations(tx, key))


def _begin(work: Coroutine[object, object, None]) -> None:
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


async def _happens_within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
