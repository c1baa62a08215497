"""Keeps a session's thread up to date: ledger lines in order, and the agent's messages at the right place among them.

Each thread has one writer at a time, under a lease of its own. The agent goes on while Slack is slow.
"""

from __future__ import annotations

from collections.abc import Sequence

from adk_confirm.bot.audit.ledger import LedgerLine, LineKind
from adk_confirm.bot.cards.agent_sessions import AgentSessions
from adk_confirm.bot.cards.thread_posts import Thread
from adk_confirm.bot.confirmation.model import Confirmation, State
from adk_confirm.bot.store.due_posts import CARDS_FIRST, SOON
from adk_confirm.bot.store.outbox import (
    NextPost,
    SaidInThread,
    ThreadLook,
    look_at_thread,
    mark_all_posted,
    mark_posted,
    note_copy_search,
    with_thread_look,
)
from adk_confirm.bot.store.repository import Session
from adk_confirm.runtime.store.jobs import NotNow
from adk_confirm.runtime.store.lease import Lease


class ThreadWorker:
    def __init__(self, thread: Thread, agent_sessions: AgentSessions) -> None:
        self._thread, self._agent_sessions = thread, agent_sessions

    async def attend(self, key: str, lease: Lease) -> None:
        look = await lease.read(look_at_thread, key)
        while look.next_post is not None:
            if look.card_under_way and any(map(_has_no_card, look.rows)):
                raise NotNow(CARDS_FIRST, "A card of the session is about to be posted.")
            look = await self._post_next(lease, look, look.next_post)
        if look.copies_until is not None:
            await self._thread.delete_copies(lease, look.session, look.copies_until)
            await lease.run(note_copy_search, key)
        status = await self._agent_sessions.show(lease, look.session)
        await lease.finish(mark_all_posted, key, status)

    async def _post_next(self, lease: Lease, look: ThreadLook, post: NextPost) -> ThreadLook:
        """Posts what is next, and returns the thread as it is afterwards."""
        session, rows, lines, said = look.session, look.rows, post.lines, post.said
        if not lines:
            assert said is not None
            ts = await self._thread.say(lease, session, said, rows=rows, retry=post.retry, into=post.into)
            return await _record_posted(lease, session, None, SaidInThread(said.event, ts))
        if (wait := seconds_until_end(lines, rows, look.at.timestamp())) > 0:
            raise NotNow(wait, "A call was approved just now, and may end in a moment.")
        return await _record_posted(lease, session, await self._thread.post_lines(lease, session, lines, rows))


async def _record_posted(
    lease: Lease, session: Session, seq: int | None, said: SaidInThread | None = None
) -> ThreadLook:
    return await lease.run(with_thread_look(mark_posted), session.key, seq, said)


def _has_no_card(row: Confirmation) -> bool:
    return row.state is State.WAITING and not row.quiet and not row.card_channels


def seconds_until_end(lines: Sequence[LedgerLine], rows: Sequence[Confirmation], at: float) -> float:
    """Seconds to wait for the end of a call that was just approved, so that one line says both."""
    approved = {line.confirmation for line in lines if line.kind is LineKind.APPROVED}
    still = [row for row in rows if row.id in approved and row.runs]
    return max((row.decision.at.timestamp() + SOON - at for row in still if row.decision), default=0.0)
