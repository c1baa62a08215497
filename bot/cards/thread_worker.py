"""Keeps a session's thread up to date: ledger lines in order, and the agent's messages at the right place among them.

Each thread has one writer at a time, under a lease of its own. The agent goes on while Slack is slow.
"""

from __future__ import annotations

from collections.abc import Sequence

from bot.audit.ledger import LedgerLine, LineKind
from bot.cards.agent_sessions import AgentSessions
from bot.cards.reactions import Reactions
from bot.cards.thread import Thread
from bot.confirmation.model import Confirmation, State
from bot.leasing.lease_loop import NotNow
from bot.store.outbox import NextPost, SaidInThread, mark_all_posted, mark_posted, note_copy_search
from bot.store.repository import Session
from bot.store.slack_lanes import CARDS_FIRST, REPLY_SOON, SOON, reply_may_follow
from bot.store.thread_look import ThreadLook, look_at_thread, with_thread_look
from runtime.store.lease import Lease

_ANSWERED = frozenset({LineKind.DONE, LineKind.FAILED, LineKind.DENIED, LineKind.EXPIRED, LineKind.WITHDRAWN})


class ThreadWorker:
    def __init__(
        self, thread: Thread, reactions: Reactions | None = None, agent_sessions: AgentSessions | None = None
    ) -> None:
        self._thread, self._reactions, self._agent_sessions = thread, reactions, agent_sessions

    async def attend(self, key: str, lease: Lease) -> None:
        look = await lease.read(look_at_thread, key)
        while look.next_post is not None:
            if look.card_under_way and any(map(_has_no_card, look.rows)):
                raise NotNow(CARDS_FIRST, "A card of the session is about to be posted.")
            look = await self._post_next(lease, look, look.next_post)
        session, rows = look.session, look.rows
        if look.copies_since is not None:
            await self._thread.delete_copies(lease, session, look.copies_since)
            await lease.run(note_copy_search, key)
        if look.unfinished.stale:
            await self._thread.display.close_left(lease, session)
        for plan in look.unfinished.plans:
            await self._thread.plans.redraw(lease, session, plan, rows)
        if self._reactions is not None:
            await self._reactions.show(lease, session, rows)
        again = None if self._agent_sessions is None else await self._agent_sessions.show(lease, session)
        await lease.finish(mark_all_posted, key, again)

    async def _post_next(self, lease: Lease, look: ThreadLook, post: NextPost) -> ThreadLook:
        """Posts what is next, and returns the thread as it is afterwards."""
        session, rows, lines, said = look.session, look.rows, post.lines, post.said
        if not lines:
            assert said is not None
            shown = await self._thread.say(lease, session, said, rows=rows, retry=post.retry, tasks=post.tasks)
            return await _record_posted(lease, session, None, SaidInThread(said.event, shown.ts, shown.plan))
        at = look.at.timestamp()
        if (wait := seconds_until_end(lines, rows, at)) > 0:
            raise NotNow(wait, "A call was approved just now, and may end in a moment.")
        if (
            said is None
            and (wait := seconds_until_reply(lines, at)) > 0
            and await lease.read(reply_may_follow, session.key)
        ):
            raise NotNow(wait, "A call ended just now, and the agent may answer in a moment.")
        if said is not None and not post.tasks and not look.unfinished.live:
            ts = await self._thread.say_below(lease, session, lines, said, rows)
            if ts is not None:
                return await _record_posted(lease, session, lines[-1].seq, SaidInThread(said.event, ts))
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


def seconds_until_reply(lines: Sequence[LedgerLine], at: float) -> float:
    """Seconds to wait for the agent's reply to a call that just ended, so that both are one message."""
    return lines[-1].at.timestamp() + REPLY_SOON - at if lines[-1].kind in _ANSWERED else 0.0
