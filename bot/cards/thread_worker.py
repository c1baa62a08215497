"""Keeps a session's thread up to date: decides what is posted next, ledger lines in order and the agent's messages
among them.

Each thread has one writer at a time, under a lease of its own. The agent goes on while Slack is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from adk_confirm.bot.audit.ledger import LedgerLine, LineKind
from adk_confirm.bot.cards.agent_sessions import AgentSessions
from adk_confirm.bot.cards.thread_posts import Thread
from adk_confirm.bot.confirmation.confirmation import Confirmation, State
from adk_confirm.bot.confirmation.shown import is_drift, newer_of
from adk_confirm.bot.store.marks import CARDS_FIRST, SOON
from adk_confirm.bot.store.outbox import NextPost, ThreadDone, ThreadLook, note_and_look
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
