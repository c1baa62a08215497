"""Notices at the start that somebody put an older copy of the store back: Slack shows something that the store does not
know yet. Everything is stored before it is posted, so otherwise Slack never knows more.

Calls that were decided after the copy was made wait again in it, and would run a second time. So runs are paused until
a person has looked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from adk_confirm.blocks.click_ids import CardMark, LineMark, parse_mark
from adk_confirm.bot.audit.checkpoints import read_anchor
from adk_confirm.bot.policy.approvers import operator
from adk_confirm.bot.slack.calls import SentMessage, Slack
from adk_confirm.bot.slack.troubles import SlackTrouble
from adk_confirm.bot.store.checkpoint_rows import last_checkpoint
from adk_confirm.bot.store.ledger_rows import find_head
from adk_confirm.bot.store.pause import pause_runs, switch_runs
from adk_confirm.bot.store.repository import read_confirmation
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.runtime.store.tables import note, noted

THREADS = 20
"""The most threads that are looked at: those in which something was asked last and may still run."""

PATIENCE = 5.0
"""Seconds for all that is read from Slack. The start does not wait longer."""

_OLDER = "The store is older than what is in Slack: a copy was put back. What was decided since then waits again."
_ANCHORED, _SEEN = "anchored", "seen in Slack"
"""The names under which a store says which newer checkpoint, and which newer message in a thread, was noticed last."""

log = logging.getLogger(__name__)


class _Thread(NamedTuple):
    key: str
    channel: str
    thread_ts: str
    since: float


async def pause_an_older_copy(database: Database, slack: Slack, seal: Seal, audit_channel: str | None) -> None:
    """Pauses runs if Slack shows more than the store knows."""
    try:
        async with asyncio.timeout(PATIENCE):
            threads = [_Thread(*row) for row in await database.read(lambda tx: tx.all(_OPEN, most=THREADS))]
            asked = [_thread_is_newer(database, slack, thread) for thread in threads]
            if audit_channel is not None:
                asked.append(_anchor_is_newer(database, slack, seal, audit_channel))
            older = any(await asyncio.gather(*asked))
    except TimeoutError:
        log.warning("Slack did not say in time whether the store is an older copy; it is taken for the current one")
        return
    if older:
        log.error("%s Runs are paused: look through `adk-confirm pending`, then `adk-confirm resume`.", _OLDER)
        await switch_runs(database, pause_runs, operator("adk-confirm"), _OLDER)


_OPEN = """
    SELECT s.key, s.channel, s.thread_ts, min(c.created) AS since FROM bot_confirmations c
    JOIN bot_sessions s ON s.key = c.session
    WHERE c.state = 'waiting' OR (c.state = 'approved' AND (c.outcome IS NULL OR c.outcome = 'running'))
    GROUP BY s.key, s.channel, s.thread_ts ORDER BY max(c.created) DESC LIMIT :most
"""


async def _thread_is_newer(database: Database, slack: Slack, thread: _Thread) -> bool:
    try:
        sent = await slack.sent(thread.channel, thread_ts=thread.thread_ts, since=thread.since)
    except SlackTrouble:
        return False
    # The store is read after Slack: others may be at work meanwhile.
    older: bool = await database.read(_knows_less, thread.key, sent)
    if older:
        await database.run(_note_seen, max(one.ts for one in sent))
    return older


def _knows_less(tx: Tx, key: str, sent: Sequence[SentMessage]) -> bool:
    """Whether Slack shows more than the store knows. A pause redraws cards only: lines noticed before do not count."""
    seen = noted(tx, _SEEN) or ""
    for one in sent:
        mark = parse_mark(one.metadata)
        newer = isinstance(mark, LineMark) and mark.session == key and mark.told_seq > find_head(tx, key).seq
        if newer and one.ts > seen:
            return True
        row = read_confirmation(tx, mark.confirmation) if isinstance(mark, CardMark) else None
        if isinstance(mark, CardMark) and row is not None and mark.version > row.version:
            return True
    return False


def _note_seen(tx: Tx, ts: str) -> None:
    if ts > (noted(tx, _SEEN) or ""):
        note(tx, {_SEEN: ts})


async def _anchor_is_newer(database: Database, slack: Slack, seal: Seal, channel: str) -> bool:
    """A newer checkpoint in the channel is noticed once: afterwards the store says that somebody knows of it."""
    try:
        number = max(read_anchor(await slack.newest(channel), seal))
    except (SlackTrouble, Invalid):  # there is none yet
        return False
    return await database.run(_note_newer, number)


def _note_newer(tx: Tx, number: int) -> bool:
    last = last_checkpoint(tx)
    known = int(noted(tx, _ANCHORED) or 0)
    if number <= max(known, last.number if last else 0):
        return False
    note(tx, {_ANCHORED: str(number)})
    return True
