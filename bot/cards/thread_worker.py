"""Keeps a session's thread up to date: ledger lines in order, and the agent's messages at the right place among them.

Each thread has one writer at a time, under a lease of its own. The agent goes on while Slack is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from adk_confirm.bot.audit.ledger import LedgerLine, LineKind
from adk_confirm.bot.cards.agent_sessions import AgentSessions
from adk_confirm.bot.cards.thread_posts import Thread
from adk_confirm.bot.confirmation.model import Confirmation, State
from adk_confirm.bot.store.marks import CARDS_FIRST, SOON
from adk_confirm.bot.store.outbox import (
    NextPost,
    SaidInThread,
    ThreadDone,
    ThreadLook,
    note_and_look,
)
from adk_confirm.runtime.store.jobs import NotNow
from adk_confirm.runtime.store.lease import Lease


class ThreadWorker:
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
            look = await lease.finish_if(_is_up_to_date, note_and_look, key, done)

    async def _post_next(self, lease: Lease, look: ThreadLook, post: NextPost, done: ThreadDone) -> ThreadDone:
        """Posts what is next. Lines that no thread shows pass with what comes after them."""
        session, rows, lines, said = look.session, look.rows, post.lines, post.said
        if look.card_under_way and any(map(_has_no_card, rows)):
            raise NotNow(CARDS_FIRST, "A card of the session is about to be posted.")
        if said is not None and not post.tells:
            ts = await self._thread.say(
                lease, session, said, rows=rows, retry=post.retry, into=post.into, doubt=look.copies_until
            )
            return replace(done, seq=lines[-1].seq if lines else None, said=SaidInThread(said.event, ts))
        if (wait := seconds_until_end(lines, rows, look.at.timestamp())) > 0:
            raise NotNow(wait, "A call was approved just now, and may end in a moment.")
        return replace(done, seq=await self._thread.post_lines(lease, session, lines, rows, look.copies_until))


def _is_up_to_date(look: ThreadLook) -> bool:
    return look.up_to_date


def _has_no_card(row: Confirmation) -> bool:
    return row.state is State.WAITING and not row.quiet and not row.card_channels


def seconds_until_end(lines: Sequence[LedgerLine], rows: Sequence[Confirmation], at: float) -> float:
    """Seconds to wait for the end of a call that was just approved, so that one line says both."""
    approved = {line.confirmation for line in lines if line.kind is LineKind.APPROVED}
    still = [row for row in rows if row.id in approved and row.runs]
    return max((row.decision.at.timestamp() + SOON - at for row in still if row.decision), default=0.0)
