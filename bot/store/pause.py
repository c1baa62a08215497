"""Pauses and resumes all runs, and has the cards say so. Transaction functions."""

from __future__ import annotations

from collections.abc import Callable

from adk_confirm.bot.audit.ledger import SYSTEM, LineKind, stamp
from adk_confirm.bot.confirmation.states import Step, Transition, next_version
from adk_confirm.bot.policy.approvers import OPERATOR, Person
from adk_confirm.bot.policy.redaction import own_words
from adk_confirm.bot.store.ledger_rows import write_steps
from adk_confirm.bot.store.letters import PAUSED
from adk_confirm.bot.store.repository import lock_confirmation, now, save
from adk_confirm.runtime.jsontypes import canonical
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.lease import topic_of
from adk_confirm.runtime.store.tables import forget

AT_ONCE = 50
"""How many cards one transaction marks for drawing. Clicks get their turn between two transactions."""


async def switch_runs(
    database: Database,
    turn: Callable[[Tx, Person, str | None], bool],
    by: Person = OPERATOR,
    reason: str | None = None,
) -> bool:
    """Pauses or resumes runs, by `turn`, and has the cards drawn. Returns False if nothing changed."""
    changed = await database.run(turn, by, reason)
    after: str | None = ""
    while after is not None:  # even if nothing changed, since an earlier command may have been stopped halfway
        after = await database.run(mark_for_drawing, after)
    return changed


def pause_runs(tx: Tx, by: Person, reason: str | None) -> bool:
    """Stops starting calls; running calls may finish. Returns False if runs were paused already."""
    named = by.user if by != OPERATOR else None
    row = {"name": PAUSED, "value": canonical({"at": stamp(now(tx)), "by": named, "reason": reason})}
    if not tx.insert("adk_confirm_store", row, if_absent=True):
        return False
    write_operation(tx, LineKind.PAUSED, by, reason)
    return True


def resume_runs(tx: Tx, by: Person, reason: str | None) -> bool:
    """Ends the pause: the letters that agents have still to get are due now. Returns False if runs were not paused."""
    if not forget(tx, PAUSED):
        return False
    tx.run(_NO_LONGER_PUT_OFF, now=tx.now())
    tx.notify(topic_of("session"))
    write_operation(tx, LineKind.RESUMED, by, reason)
    return True


_NO_LONGER_PUT_OFF = """
    UPDATE jobs SET due_at = :now
    WHERE kind = 'session' AND due_at > :now AND key IN (SELECT session FROM bot_mail WHERE done_at IS NULL)
"""


def mark_for_drawing(tx: Tx, after: str, at_once: int = AT_ONCE) -> str | None:
    """Marks the cards of calls that wait, or are approved and have not started, for drawing. Returns where to
    continue."""
    ids = tx.column(_OPEN, after=after, most=at_once)
    for confirmation in ids:
        session, row = lock_confirmation(tx, confirmation)
        save(tx, session, Transition(row=next_version(row, now(tx))))
    return str(ids[-1]) if len(ids) == at_once else None


_OPEN = """
    SELECT id FROM bot_confirmations
    WHERE (state = 'waiting' OR (state = 'approved' AND outcome IS NULL)) AND id > :after ORDER BY id LIMIT :most
"""


def write_operation(tx: Tx, kind: LineKind, by: Person, said: str | None) -> None:
    """What an operator did, as a line of the ledger."""
    write_steps(tx, SYSTEM, Step(kind=kind, at=now(tx), who=by, text=own_words(said) if said else None))
