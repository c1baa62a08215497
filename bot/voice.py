"""How an agent is heard while it thinks and speaks: a status in the thread, then its words as they come.

All of it is for speed only. What was said stands in the session, and is posted from there: a stream becomes the reply's
own message in the end, and one that a crash or a cut left behind is closed as what it is. That one begins is noted
before it does, so that it is looked for when the process died before it knew where.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from slack_sdk.web.async_chat_stream import AsyncChatStream
from slack_sdk.web.async_slack_response import AsyncSlackResponse
from sqlalchemy import delete, insert, select

from blocks.kit import Message
from blocks.verdict import notice_message
from blocks.words import INTERRUPTED, THINKING
from bot import markdown
from bot.hosts.host import Piece
from bot.marks import SaidMark, identity
from bot.row import Confirmation
from bot.rows import Session, session_confirmations
from bot.sender import Sender
from bot.slack_calls import Method, Workspace
from bot.slack_trouble import Gone, Refused, SlackTrouble, Unsure
from bot.tables import mail, spoken
from runtime.database import Tx
from runtime.jsontypes import Json
from runtime.lease import Lease

log = logging.getLogger(__name__)

STATUS = Method("assistant.threads.setStatus", 600)
START = Method("chat.startStream", 20, repeatable=False)
APPEND = Method("chat.appendStream", 100, repeatable=False)
STOP = Method("chat.stopStream", 20, repeatable=False)

SOON = 0.5
"""What is said within so many seconds is posted whole: a stream would cost three calls for it."""
GROWS_EVERY, EDITED_EVERY = 1.0, 3.0

_LIVE, _BEGUN = "live", "begun:"
_CLOCKS = 60.0
"""Slack's clock and ours may differ by so much."""
_DONT_WAIT = 0.0


@dataclass(frozen=True)
class Talk:
    """What has to be known of a session before its agent's words are shown."""

    rows: tuple[Confirmation, ...]
    retry: str | None  # the letter of somebody's words that are being answered


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


class Voice:
    def __init__(self, sender: Sender, clock: Callable[[], float] = time.monotonic) -> None:
        self._sender, self._clock = sender, clock
        self._live: dict[str, _Live] = {}
        self._without_status: set[str] = set()
        self._without_streams: set[str] = set()

    async def talk(self, lease: Lease, session: Session) -> Talk:
        return await lease.read(read_talk, session.key)

    async def thinking(self, lease: Lease, session: Session) -> None:
        """Where Slack does not show a status it is not asked again."""
        await self.close_left(lease, session)
        if session.channel in self._without_status:
            return
        try:
            await self._sender.under(lease.sure).ask(
                _at(session),
                STATUS,
                lambda client: client.assistant_threads_setStatus(
                    channel_id=session.channel, thread_ts=session.thread_ts, status=THINKING
                ),
                patience=_DONT_WAIT,
            )
        except SlackTrouble as trouble:
            if isinstance(trouble, Gone | Refused):
                self._without_status.add(session.channel)
            log.info("no status is shown: %s", trouble)

    async def piece(self, lease: Lease, session: Session, piece: Piece) -> None:
        """Shown once it takes a while; never where a policy of the session hides something."""
        live = self._live.get(session.key)
        if live is None or live.invocation != piece.invocation_id:
            await self.close_left(lease, session)
            hides = any(row.policy.redact for row in (await self.talk(lease, session)).rows)
            live = self._live[session.key] = _Live(piece.invocation_id, self._clock(), over=hides)
        live.text += piece.text
        if live.over or len(live.text) > markdown.LONGEST or not self._due(live):
            return
        live.last = self._clock()
        try:
            await self._show(lease, session, live)
        except SlackTrouble as trouble:
            log.info("an agent's words are not shown as they come: %s", trouble)
            live.over = True

    async def finish(self, lease: Lease, session: Session) -> str | None:
        """The message in which the words stood as they came, for the whole of them to take its place: `over`, then."""
        live = self._live.pop(session.key, None)
        if live is None or live.ts is None:
            await self.close_left(lease, session)
            return None
        await self._stop(lease, session, live)
        return live.ts

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
            await sender.ask(_at(session), APPEND, lambda _: _grown(stream, fresh), patience=_DONT_WAIT)
        elif live.stream is None:
            await sender.update(_at(session), session.channel, live.ts, _so_far(session, live, end))
        live.shown = end

    async def _begin(self, lease: Lease, session: Session, live: _Live, fresh: str, end: int) -> None:
        await lease.run(note_begun, session.key)
        try:
            if session.channel not in self._without_streams:
                try:
                    await self._start(lease, session, live, fresh)
                except (Gone, Refused) as trouble:
                    log.info("replies are edited instead of streamed: %s", trouble)
                    self._without_streams.add(session.channel)
            if live.ts is None:
                live.ts = await self._sender.under(lease.sure).post(
                    _at(session), session.channel, _so_far(session, live, end), thread_ts=session.thread_ts
                )
        except SlackTrouble as trouble:
            if not isinstance(trouble, Unsure):
                await lease.run(forget_live, session.key)
            raise
        await lease.run(note_live, session.key, live.ts)

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
            _at(session), START, lambda _: _grown(stream, text), into=session.channel, patience=_DONT_WAIT
        )
        live.stream, live.ts = stream, stream.ts

    async def _stop(self, lease: Lease, session: Session, live: _Live) -> None:
        """One that has expired at Slack's end is stopped already."""
        if live.stream is not None and live.ts is not None:
            await self._stop_at(lease, session, live.ts)

    async def _stop_at(self, lease: Lease, session: Session, ts: str) -> None:
        try:
            await self._sender.under(lease.sure).ask(
                _at(session), STOP, lambda client: client.chat_stopStream(channel=session.channel, ts=ts)
            )
        except (Gone, Refused) as trouble:
            log.info("a stream had ended: %s", trouble)

    async def close_left(self, lease: Lease, session: Session) -> None:
        """What somebody was saying when a process died, or when a run was cut."""
        self._live.pop(session.key, None)
        left = await lease.read(left_live, session.key)
        if left is None:
            return
        for ts in await self._unfinished(session, left):
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
        mark = SaidMark(session.key, f"{_LIVE}:{ts}", 0)
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
            return event.startswith(f"{_LIVE}:")
    return not metadata


def _so_far(session: Session, live: _Live, end: int) -> Message:
    mark = SaidMark(session.key, f"{_LIVE}:{live.invocation}", 0)
    message = markdown.message(live.text[:end], mark.metadata())
    return replace(message, text=message.text or " ")


# Transactions


def read_talk(tx: Tx, key: str) -> Talk:
    waiting = select(mail.c.id, mail.c.kind).where(mail.c.session == key, mail.c.done_at.is_(None))
    letter = tx.execute(waiting.order_by(mail.c.id).limit(1)).one_or_none()
    retry = str(letter.id) if letter is not None and letter.kind == "words" else None
    return Talk(tuple(session_confirmations(tx, key)), retry)


def note_live(tx: Tx, key: str, ts: str) -> None:
    forget_live(tx, key)
    tx.execute(insert(spoken).values(session=key, event=_LIVE, ts=ts))


def note_begun(tx: Tx, key: str) -> None:
    note_live(tx, key, f"{_BEGUN}{tx.now():.3f}")


def left_live(tx: Tx, key: str) -> str | None:
    found: str | None = tx.execute(
        select(spoken.c.ts).where(spoken.c.session == key, spoken.c.event == _LIVE)
    ).scalar_one_or_none()
    return found


def forget_live(tx: Tx, key: str) -> None:
    tx.execute(delete(spoken).where(spoken.c.session == key, spoken.c.event == _LIVE))
