"""Keeps a session's thread in Slack up to date: ledger lines in their order, the agent's messages among them, its
status and its title. The agent goes on while Slack is slow.

A thread has one writer at a time, under its lease. Every message carries its identity in `metadata`. If Slack's answer
or this process is lost, the thread is in doubt: a message is searched for in it before it is posted.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from adk_confirm.blocks import markdown
from adk_confirm.blocks.click_ids import CardMark, LineMark, PointerMark, SaidMark, identity, parse_mark
from adk_confirm.blocks.kit import Message
from adk_confirm.blocks.mentions import mentions, with_names
from adk_confirm.blocks.notices import agent_failure_message, notice_message
from adk_confirm.blocks.shown_lines import LINES, ShownLine
from adk_confirm.blocks.thread import REMINDERS, notified_users, thread_messages
from adk_confirm.blocks.words import AGENT_FAILED
from adk_confirm.bot.audit.ledger import LedgerLine, LineKind
from adk_confirm.bot.cards.places import accounts_of
from adk_confirm.bot.config.settings import Rules
from adk_confirm.bot.confirmation.confirmation import Confirmation, State
from adk_confirm.bot.confirmation.shown import is_drift, newer_of, shown_of
from adk_confirm.bot.confirmation.shown_lines import About, thread_lines
from adk_confirm.bot.hosts.host import AgentMessage
from adk_confirm.bot.policy.redaction import mask_said
from adk_confirm.bot.slack.calls import SentMessage, Slack
from adk_confirm.bot.slack.directory import Directory
from adk_confirm.bot.slack.rate_limits import RENAME_SESSION, SET_SESSION_STATUS, Method
from adk_confirm.bot.slack.troubles import Gone, Later, RefusedBySlack, SlackTrouble, Unsure
from adk_confirm.bot.store.agent_status import AgentStatus, ShownStatus, first_words, note_status, read_status
from adk_confirm.bot.store.ledger_rows import confirmation_lines, lines_to_tell
from adk_confirm.bot.store.marks import CARDS_FIRST, SOON
from adk_confirm.bot.store.outbox import (
    NextPost,
    ThreadDone,
    ThreadLook,
    note_and_look,
    note_lost_answer,
    note_possible_copies,
    third_tries,
)
from adk_confirm.bot.store.repository import Session, session_confirmations
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.jobs import NotNow
from adk_confirm.runtime.store.lease import Lease

log = logging.getLogger(__name__)

_DECIDES = (
    *(LineKind.APPROVED, LineKind.DENIED, LineKind.EXPIRED, LineKind.WITHDRAWN),
    *(LineKind.ASKED_ANEW, LineKind.ELSEWHERE),
)
_LONGEST_FREEZE = 86_400.0
"""Seconds. What a process posts a second time after a freeze is found if the freeze was no longer than this."""

_ON_ITS_WAY = 1.0
"""Seconds that the beginning of a reply may need to arrive, after its run has ended."""


class Thread:
    """Writes in threads: ledger lines, and the agent's messages."""

    def __init__(self, slack: Slack, directory: Directory) -> None:
        self._slack, self._directory = slack, directory

    async def post_lines(
        self,
        lease: Lease,
        session: Session,
        lines: Sequence[LedgerLine],
        rows: Sequence[Confirmation],
        doubt: float | None = None,
    ) -> int:
        """Posts the lines that are meant for the thread, or as many of them as Slack's limits allow in one message.
        Returns the number of the last one. `doubt`: until when some may have been posted already."""
        if not lines:
            return session.told_seq
        last, steps = lines[-1].seq, await self._steps(lease, session, lines, rows)
        await self._settle_reminders(lease, session, lines, rows)
        if not steps:
            return last
        if doubt is not None:
            posted_to = await self._last_line_posted(session, doubt - _LONGEST_FREEZE)
            steps = [step for step in steps if step.seq > posted_to]
        messages = await self._story(session, steps) if steps else ()
        if not messages:
            return last
        await self._post(lease, session, messages[0])
        mark = parse_mark(messages[0].metadata)
        return mark.told_seq if len(messages) > 1 and isinstance(mark, LineMark) else last

    async def _settle_reminders(
        self, lease: Lease, session: Session, lines: Sequence[LedgerLine], rows: Sequence[Confirmation]
    ) -> None:
        """Draws reminders again once their call is decided, so that nobody takes them for open."""
        told = {line.confirmation for line in lines if line.kind in _DECIDES}
        ended = [row for row in rows if row.id in told and row.state is not State.WAITING]
        ended = [row for row in ended if row.escalated or row.policy.remind_after is not None]
        told_lines = [one for row in ended for one in await lease.read(confirmation_lines, row.id)]
        reminders = [one for one in told_lines if one.kind in REMINDERS and one.seq < lines[0].seq]
        if not reminders:
            return
        for sent in await self._read_messages(session, min(one.at.timestamp() for one in reminders)):
            mark = parse_mark(sent.metadata)
            if not isinstance(mark, LineMark) or mark.session != session.key:
                continue
            if any(mark.first_seq <= one.seq <= mark.told_seq for one in reminders):
                shown = await lease.read(lines_to_tell, session.key, mark.first_seq - 1)
                steps = await self._steps(lease, session, [one for one in shown if one.seq <= mark.told_seq], rows)
                messages = await self._story(session, steps)
                if len(messages) == 1:
                    with suppress(Gone, RefusedBySlack):  # a workspace can forbid late edits
                        await self._slack.at(lease).update(session.channel, sent.ts, messages[0])

    async def _steps(
        self, lease: Lease, session: Session, lines: Sequence[LedgerLine], rows: Sequence[Confirmation]
    ) -> list[ShownLine]:
        refused = any(line.kind is LineKind.VOTE_REFUSED for line in lines)
        tries = await lease.read(third_tries, lines) if refused else frozenset[int]()
        about = {line.confirmation for line in lines}
        asks = {line.confirmation for line in lines if LINES[line.kind].approvers}
        found = dict[str, About]()
        for row in rows:
            if row.id in about:
                accounts = await accounts_of(row, self._directory)
                decide = next(iter(newer_of(row, rows)), row if row.id in asks else None)
                link = None if decide is None else await self._link(decide)
                shown = await asyncio.to_thread(shown_of, row, accounts=accounts, card_link=link)
                found[row.id] = About(row, shown, accounts)
        return thread_lines(lines, found, session.thread_ts, tries)

    async def _link(self, row: Confirmation) -> str | None:
        """A link to the card that everybody can see who can see the thread."""
        card = next((one for one in row.places if one.ts and not one.pointer and one.person is None), None)
        try:
            return await self._slack.permalink(card.channel, card.ts) if card and card.ts else None
        except SlackTrouble:
            return None  # deleted, or Slack is busy

    async def _story(self, session: Session, steps: Sequence[ShownLine]) -> tuple[Message, ...]:
        messages = thread_messages(session.key, steps)
        named = frozenset(one for message in messages for one in mentions(message))
        names = await self._directory.names.of(named.difference(*map(notified_users, steps)))
        return tuple(with_names(message, names) for message in messages)

    async def say(
        self,
        lease: Lease,
        session: Session,
        said: AgentMessage,
        *,
        rows: Sequence[Confirmation] = (),
        retry: str | None = None,
        into: str | None = None,
        doubt: float | None = None,
    ) -> None:
        """Posts what the agent said, in as many messages as needed.

        What the policies of `rows` hide is masked. `retry`: a failed turn gets a button to try again. `into`: the
        message that showed it while it was written. `doubt`: until when some of it may have been posted already.
        """
        (text,) = await mask_said((row.redactor for row in rows), said.text)
        messages = _reply_messages(session, replace(said, text=text), retry)
        found = [] if doubt is None else await self._read_messages(session, doubt - _LONGEST_FREEZE)
        there = {identity(one.metadata): one.ts for one in reversed(found)}
        posted: list[str] = []
        for message in messages:
            ts = there.get(identity(message.metadata))
            if ts is None and into is not None and not posted and await self._fill(lease, session, into, message):
                ts = into
            posted.append(ts or await self._post(lease, session, message, begun=bool(posted)))
        if into is not None and into not in posted:
            await lease.run(note_possible_copies, session.key)

    async def _fill(self, lease: Lease, session: Session, ts: str, message: Message) -> bool:
        """Puts the whole reply, or its first part, into the message that showed it while it was written. Returns
        whether that is possible."""
        slack, status = self._slack.at(lease), await lease.read(read_status, session.key)
        await slack.stop_stream(session.channel, ts, status.shown and status.wanted)
        try:
            await slack.update(session.channel, ts, message)
        except (Gone, RefusedBySlack) as trouble:
            log.info("a reply is posted anew: %s", trouble)
            return False
        if status.shown is not None:
            await lease.run(note_status, session.key, status.wanted)
        return True

    async def delete_copies(self, lease: Lease, session: Session, until: float) -> None:
        """Deletes messages that should not be there: what two processes both posted, and what showed before `until` a
        growing reply that never came whole. A growing message can't carry a mark; all of our others do."""
        posted, lines = set[object](), dict[str, LineMark]()
        slack, sent = self._slack.at(lease), await self._read_messages(session, until - _LONGEST_FREEZE)
        marks = [parse_mark(one.metadata) for one in sent]
        for one, mark in zip(sent, marks, strict=True):
            told = max((earlier.told_seq for earlier in lines.values()), default=0)
            if isinstance(mark, LineMark) and mark.session == session.key and mark.told_seq > told:
                lines[one.ts] = mark  # the first that tells its last line
        for one, mark in zip(sent, marks, strict=True):
            known = identity(one.metadata)
            if isinstance(mark, CardMark | PointerMark):
                continue  # the cards' worker handles cards
            copy = known is not None and known in posted
            if isinstance(mark, LineMark) and mark.session == session.key:
                copy = one.ts not in lines or any(map(mark.is_within, lines.values()))
            if known is None and not one.metadata:
                copy = float(one.ts) < until + _ON_ITS_WAY
                if copy:
                    await slack.stop_stream(session.channel, one.ts)
            posted.add(known)
            if copy:
                log.info("a message is deleted that should not be there")
                await slack.delete(session.channel, one.ts)

    async def _post(self, lease: Lease, session: Session, message: Message, *, begun: bool = False) -> str:
        """`begun`: an earlier part of the same reply is posted, and that is not stored anywhere yet."""
        try:
            return await self._slack.at(lease).post(session.channel, message, thread_ts=session.thread_ts)
        except (SlackTrouble, asyncio.CancelledError) as trouble:  # a process that stops waits for no answer
            if begun or isinstance(trouble, Unsure | asyncio.CancelledError):
                await lease.run(note_lost_answer, session.key)
            raise

    async def _last_line_posted(self, session: Session, since: float) -> int:
        """Up to which ledger line the thread has been posted, according to its own messages."""
        sent = await self._read_messages(session, since)
        marks = [parse_mark(one.metadata) for one in sent]
        return max((m.told_seq for m in marks if isinstance(m, LineMark) and m.session == session.key), default=0)

    async def _read_messages(self, session: Session, since: float) -> list[SentMessage]:
        return await self._slack.sent(session.channel, thread_ts=session.thread_ts, since=since)


def _reply_messages(session: Session, said: AgentMessage, retry: str | None) -> list[Message]:
    def mark(part: int) -> JsonObject:
        return SaidMark(session.key, said.event, part).metadata()

    if said.failed:
        failed = agent_failure_message(retry, said.text or None) if retry else notice_message(said.text or AGENT_FAILED)
        return [replace(failed, metadata=mark(0))]
    return [markdown.message(part, mark(index)) for index, part in enumerate(markdown.parts(said.text))]


LONGEST_TITLE = 80
_NO_STOP = "missing_agent_session_stopped_event_subscription"


class AgentSessions:
    """Sets the status and the title of a thread in Slack's agent sessions. Where Slack refuses, nothing is shown."""

    def __init__(self, slack: Slack, rules: Rules) -> None:
        self._slack, self._rules = slack, rules

    async def show(self, lease: Lease, session: Session, status: ShownStatus) -> None:
        """Has Slack show the status that is wanted."""
        assert status.change is not None
        await lease.run(note_status, session.key, status.change)  # before the call, since its answer may be lost
        try:
            await self._set(lease, session, status.change, is_new=status.shown is None)
        except SlackTrouble as trouble:
            if not isinstance(trouble, Later) or trouble.limited:
                await lease.run(note_status, session.key, status.shown)
            if isinstance(trouble, Later) and trouble.limited:
                raise
            log.info("no status or title is shown: %s", trouble)

    async def _set(self, lease: Lease, session: Session, status: AgentStatus, *, is_new: bool) -> None:
        title = await self._title(lease, session)
        args: JsonObject = {"status": str(status)}
        if is_new:
            args |= {"initiator_user_id": session.starter.user} | ({"title": title} if title else {})
        answer = await self._ask(lease, session, SET_SESSION_STATUS, args)
        if answer.get("warning") == _NO_STOP:
            log.warning(
                "People in %s see no stop button: the app is not subscribed to agent_session_stopped. "
                "Take the event from `adk-confirm manifest`.",
                session.team,
            )
        if title and answer.get("title") == "":  # it was a session before, or nobody knew yet what to hide
            with suppress(SlackTrouble):
                await self._ask(lease, session, RENAME_SESSION, {"title": title})

    async def _title(self, lease: Lease, session: Session) -> str:
        """The first words of the thread, without what the policies hide. Empty before the first request if any policy
        hides something, since it is not known yet which policy applies."""
        rows = await lease.read(session_confirmations, session.key)
        if not rows and any(policy.redact for policy in self._rules.policies.entries):
            return ""
        words = title_of(await lease.read(first_words, session.key))
        (title,) = await mask_said((row.redactor for row in rows), words)
        return title

    async def _ask(self, lease: Lease, session: Session, method: Method, args: JsonObject) -> JsonObject:
        slack = self._slack.at(lease)
        return await slack.call(method, channel_id=session.channel, thread_ts=session.thread_ts, **args)


def title_of(words: str) -> str:
    """
    >>> title_of("<@U0BOT> please  deploy\\ncheckout")
    'please deploy checkout'
    >>> len(title_of("word " * 100))
    75
    """
    title = " ".join(re.sub(r"<[@!#][^>]*>", "", words).split())
    if len(title) <= LONGEST_TITLE:
        return title
    cut = title[: LONGEST_TITLE - 1].rpartition(" ")[0]
    return f"{cut or title[: LONGEST_TITLE - 1]}…"


class ThreadWorker:
    """Decides what is posted next, until nothing is left."""

    def __init__(self, thread: Thread, agent_sessions: AgentSessions) -> None:
        self._thread, self._agent_sessions = thread, agent_sessions

    async def attend(self, key: str, lease: Lease, look: ThreadLook) -> None:
        done = ThreadDone()
        while not look.up_to_date:
            done = replace(done, seq=None, said=None)
            if look.next_post is not None:
                done = await self._post_next(lease, look, look.next_post, done)
            elif look.copies_until is not None and not done.searched:
                await self._thread.delete_copies(lease, look.session, look.copies_until)
                done = replace(done, searched=True)
            elif look.status.change not in (None, done.asked):
                await self._agent_sessions.show(lease, look.session, look.status)
                done = replace(done, asked=look.status.change)
            look = await lease.finish_if(lambda look: look.up_to_date, note_and_look, key, done)

    async def _post_next(self, lease: Lease, look: ThreadLook, post: NextPost, done: ThreadDone) -> ThreadDone:
        """Posts what is next. Lines that no thread shows count as posted with what comes after."""
        session, rows, lines, said = look.session, look.rows, post.lines, post.said
        if look.card_under_way and any(map(_has_no_card, rows)):
            raise NotNow(CARDS_FIRST, "A card of the session is about to be posted.")
        if said is not None and not post.tells:
            await self._thread.say(
                lease, session, said, rows=rows, retry=post.retry, into=post.into, doubt=look.copies_until
            )
            return replace(done, seq=lines[-1].seq if lines else None, said=said.event)
        if (wait := _seconds_until_next(lines, rows) - look.at.timestamp()) > 0:
            raise NotNow(wait, "A call was approved or asked about anew just now: more of it may follow in a moment.")
        return replace(done, seq=await self._thread.post_lines(lease, session, lines, rows, look.copies_until))


def _has_no_card(row: Confirmation) -> bool:
    return row.state is State.WAITING and not row.quiet and not row.card_channels


def _seconds_until_next(lines: Sequence[LedgerLine], rows: Sequence[Confirmation]) -> float:
    """Until when to wait: for the end of a call that was just approved, so that one line says both; or for the request
    that replaces one whose preview had changed, so that the older one's line leads to the newer card."""
    told = {(line.confirmation, line.kind) for line in lines}
    still = [row.decision for row in rows if (row.id, LineKind.APPROVED) in told and row.runs]
    drifted = [row for row in rows if (row.id, LineKind.REFUSED) in told and is_drift(row)]
    alone = [row.outcome for row in drifted if not newer_of(row, rows)]
    return max((one.at.timestamp() + SOON for one in (*still, *alone) if one), default=0.0)
