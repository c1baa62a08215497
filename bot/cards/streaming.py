"""Shows an agent at work: a status in the thread, then its reply as it is written.

Streaming is for speed only: the reply is stored in the session, and posted from there. A stream that ends well becomes
the reply's message; one that a crash or a broken connection left open is closed. Before a stream begins, that is noted
in the store, so that it is found even if the process dies before it knows the message.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from slack_sdk.web.async_chat_stream import AsyncChatStream
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from blocks.kit import Message
from blocks.verdict import notice_message
from blocks.words import INTERRUPTED, THINKING
from bot.cards import markdown
from bot.cards.agent_sessions import AgentSessions
from bot.hosts.host import Piece
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import Gone, RefusedBySlack, SlackTrouble, Unsure
from bot.slack.outbound.message_ids import SaidMark, identity
from bot.slack.outbound.methods import APPEND_STREAM, SET_THREAD_STATUS, START_STREAM, STOP_STREAM
from bot.slack.outbound.taken import Feature
from bot.store.outbox import LIVE, forget_live, is_left_from_before, note_live, read_left, thread_is_behind
from bot.store.repository import Session, session_confirmations
from bot.store.slack_lanes import MANY_CARDS, cards_owed
from runtime.jsontypes import Json
from runtime.store.database import Tx
from runtime.store.lease import Lease

log = logging.getLogger(__name__)


SOON = 0.5
"""What is said within so many seconds is posted whole: a stream would cost three calls for it."""
GROWS_EVERY, EDITED_EVERY = 1.0, 3.0

_BEGUN = "begun:"
_CLOCKS = 60.0
"""Slack's clock and ours may differ by so much."""
_DONT_WAIT = 0.0


@dataclass
class _Live:
    invocation: str
    began: float
    text: str = ""
    shown: int = 0
    last: float = 0.0
    ts: str | None = None
    stream: AsyncChatStream | None = None
    over: bool = False
    at_slack: asyncio.Lock = field(default_factory=asyncio.Lock)


class Streaming:
    def __init__(
        self, sender: Sender, clock: Callable[[], float] = time.monotonic, sessions: AgentSessions | None = None
    ) -> None:
        self._sender, self._clock = sender, clock
        self._sessions = sessions or AgentSessions(sender)
        self._live: dict[str, _Live] = {}

    async def tidy(self, lease: Lease, session: Session) -> None:
        """Ends a reply that an earlier run left unfinished."""
        if await lease.read(is_left_from_before, session.key):
            await self.close_left(lease, session)

    async def thinking(self, lease: Lease, session: Session) -> bool:
        """Shows that the agent works, unless Slack refused that lately. While many cards are owed they come first."""
        if await lease.read(cards_owed) > MANY_CARDS:
            return False
        if self._sessions.taken(session) and await self._sessions.processing(lease, session):
            return True
        if self._sessions.taken(session) or not self._sender.taken.takes(_at(session), Feature.STATUS, session.channel):
            return False
        return await self._status(self._sender.under(lease.sure), session, THINKING)

    async def quiet(self, session: Session) -> None:
        """For a status that came after the words which end it. A session's status is corrected with its thread."""
        if self._sessions.taken(session):
            return
        await self._status(self._sender, session, "")

    async def _status(self, sender: Sender, session: Session, status: str) -> bool:
        try:
            await sender.ask(
                _at(session),
                SET_THREAD_STATUS,
                lambda client: client.assistant_threads_setStatus(
                    channel_id=session.channel, thread_ts=session.thread_ts, status=status
                ),
                patience=_DONT_WAIT,
            )
        except SlackTrouble as trouble:
            if not await self._sender.taken.failed(_at(session), Feature.STATUS, trouble, session.channel):
                log.info("no status is shown: %s", trouble)
            return False
        return True

    async def piece(self, lease: Lease, session: Session, piece: Piece) -> None:
        """Shown once it takes a while; never where a policy of the session hides something, nor while what was said
        before is still on its way."""
        live = self._live.get(session.key)
        if live is None or live.invocation != piece.invocation_id:
            if await lease.read(read_left, session.key) is not None:
                return
            hides = any(row.policy.redact for row in await lease.read(session_confirmations, session.key))
            live = self._live[session.key] = _Live(piece.invocation_id, self._clock(), over=hides)
        live.text += piece.text
        if live.over or len(live.text) > markdown.LONGEST or not self._due(live):
            return
        if live.ts is None and await lease.read(thread_is_behind, session.key):
            return  # the lines about what led to it come first
        live.last = self._clock()
        async with live.at_slack:
            try:
                await self._show(lease, session, live)
            except SlackTrouble as trouble:
                log.info("an agent's words are not shown as they come: %s", trouble)
                live.over = True

    def whole(self, session: Session) -> None:
        """All of it is there, and is posted by whoever tells it: no piece is shown after that."""
        live = self._live.get(session.key)
        if live is not None:
            live.over = True

    async def finish(self, lease: Lease, session: Session, invocation: str) -> str | None:
        """The message in which the words stood as they came, for the whole of them to take its place: `over`, then.
        They may have been shown by another process."""
        ts: str | None = None
        live = self._live.get(session.key)
        if live is not None and live.invocation == invocation:
            live.over = True
            async with live.at_slack:  # what is on its way to Slack arrives first
                ts = live.ts
            self._live.pop(session.key, None)
        left = await lease.read(read_left, session.key)
        if left is None or left.invocation != invocation or not invocation:
            return None
        ts = ts or next(iter(await self._unfinished(session, left.ts)), None)
        if ts is None:
            await self.over(lease, session)
        elif live is None or live.stream is not None:
            await self._stop_at(lease, session, ts)
        return ts

    async def over(self, lease: Lease, session: Session) -> None:
        await lease.run(forget_live, session.key)

    def _due(self, live: _Live) -> bool:
        now = self._clock()
        if live.ts is None:
            return now - live.began >= SOON
        return now - live.last >= (EDITED_EVERY if live.stream is None else GROWS_EVERY)

    async def _show(self, lease: Lease, session: Session, live: _Live) -> None:
        end = max(live.text.rfind(" "), live.text.rfind("\n")) + 1  # a mention that is half there is not seen as one
        fresh = markdown.inert(live.text[live.shown : end])
        if not fresh.strip():
            return
        sender = self._sender.under(lease.sure)
        if live.ts is None:
            await self._begin(lease, session, live, fresh, end)
        elif live.stream is not None and live.shown:
            stream = live.stream
            await sender.ask(_at(session), APPEND_STREAM, lambda _: _grown(stream, fresh), patience=_DONT_WAIT)
        elif live.stream is None:
            await sender.update(_at(session), session.channel, live.ts, _so_far(session, live, end))
        live.shown = end

    async def _begin(self, lease: Lease, session: Session, live: _Live, fresh: str, end: int) -> None:
        await lease.run(note_begun, session.key, live.invocation)
        try:
            if self._sender.taken.takes(_at(session), Feature.STREAM, session.channel):
                try:
                    await self._start(lease, session, live, fresh)
                except (Gone, RefusedBySlack) as trouble:
                    await self._sender.taken.failed(_at(session), Feature.STREAM, trouble, session.channel)
            if live.ts is None:
                live.ts = await self._sender.under(lease.sure).post(
                    _at(session), session.channel, _so_far(session, live, end), thread_ts=session.thread_ts
                )
        except SlackTrouble as trouble:
            if not isinstance(trouble, Unsure):
                await lease.run(forget_live, session.key)
            raise
        await lease.run(note_live, session.key, live.invocation, live.ts)

    async def _start(self, lease: Lease, session: Session, live: _Live, text: str) -> None:
        direct = session.channel.startswith("D")
        client = await self._sender.client(_at(session))
        stream = await client.chat_stream(
            channel=session.channel,
            thread_ts=session.thread_ts,
            recipient_team_id=None if direct else session.team,
            recipient_user_id=None if direct else session.starter.user,
            buffer_size=1,
        )
        await self._sender.under(lease.sure).ask(
            _at(session), START_STREAM, lambda _: _grown(stream, text), into=session.channel, patience=_DONT_WAIT
        )
        live.stream, live.ts = stream, stream.ts

    async def _stop_at(self, lease: Lease, session: Session, ts: str) -> None:
        try:
            await self._sender.under(lease.sure).ask(
                _at(session), STOP_STREAM, lambda client: client.chat_stopStream(channel=session.channel, ts=ts)
            )
        except (Gone, RefusedBySlack) as trouble:
            log.info("a stream had ended: %s", trouble)

    async def close_left(self, lease: Lease, session: Session) -> None:
        """What somebody was saying when a process died, or when a run was cut."""
        self._live.pop(session.key, None)
        left = await lease.read(read_left, session.key)
        if left is None:
            return
        for ts in await self._unfinished(session, left.ts):
            await self._interrupt(lease, session, ts)
        await self.over(lease, session)

    async def _unfinished(self, session: Session, left: str) -> list[str]:
        """What was begun, if it came to stand in the thread, and unless the whole reply stands in its place by now."""
        since = float(left.removeprefix(_BEGUN))
        sent = await self._sender.history.sent(_at(session), session.channel, thread_ts=session.thread_ts, since=since)
        shown = [one.ts for one in sent if not one.files and _on_its_way(one.metadata)]
        if not left.startswith(_BEGUN):
            return [ts for ts in shown if ts == left]
        return [ts for ts in shown if float(ts) > since - _CLOCKS][-1:]  # a stream has no mark of its own

    async def _interrupt(self, lease: Lease, session: Session, ts: str) -> None:
        await self._stop_at(lease, session, ts)
        mark = SaidMark(session.key, f"{LIVE}:{ts}", 0)
        message = replace(notice_message(INTERRUPTED), metadata=mark.metadata())
        try:
            await self._sender.under(lease.sure).update(_at(session), session.channel, ts, message)
        except Gone as gone:
            log.info("nothing is left of what was interrupted: %s", gone)


def _at(session: Session) -> Workspace:
    return Workspace(session.team, session.enterprise)


async def _grown(stream: AsyncChatStream, text: str) -> AsyncSlackResponse:
    response = await stream.append(markdown_text=text)
    assert response is not None  # it buffers nothing
    return response


def _on_its_way(metadata: Json) -> bool:
    """Whether a message of ours may show words on their way: it has no mark, or that of one that is edited."""
    match identity(metadata):
        case ("said", _, str() as event, _):
            return event.startswith(f"{LIVE}:")
    return not metadata


def _so_far(session: Session, live: _Live, end: int) -> Message:
    mark = SaidMark(session.key, f"{LIVE}:{live.invocation}", 0)
    message = markdown.message(live.text[:end], mark.metadata())
    return replace(message, text=message.text or " ")


# Transactions


def note_begun(tx: Tx, key: str, invocation: str) -> None:
    note_live(tx, key, invocation, f"{_BEGUN}{tx.now():.3f}")
