"""`adk-confirm pause` and `resume`: a switch that stops all runs, and that the cards show."""

from __future__ import annotations

from bot.audit.ledger import SYSTEM, LineKind, stamp
from bot.confirmation.effects import Step
from bot.confirmation.states import Transition, next_version
from bot.policy.approvers import OPERATOR, Person
from bot.policy.redaction import own_words
from bot.store.ledger_lines import write_step
from bot.store.mailbox import PAUSED
from bot.store.repository import lock_confirmation, now, save
from runtime.jsontypes import canonical
from runtime.store.database import Database, Tx

AT_ONCE = 50
"""How many cards one transaction marks for drawing. Clicks get their turn between two of them."""


async def pause(database: Database, by: Person = OPERATOR, reason: str | None = None) -> bool:
    """Stops starting calls; running calls may finish. Returns False if runs were paused already."""
    new = await database.run(pause_runs, by, reason)
    await _redraw(database)
    return new


async def resume(database: Database, by: Person = OPERATOR, reason: str | None = None) -> bool:
    """Ends the pause. Returns False if runs were not paused."""
    changed = await database.run(resume_runs, by, reason)
    await _redraw(database)
    return changed


def pause_runs(tx: Tx, by: Person, reason: str | None) -> bool:
    at = now(tx)
    named = by.user if by != OPERATOR else None
    row = {"name": PAUSED, "value": canonical({"at": stamp(at), "by": named, "reason": reason})}
    if not tx.insert("bot_switches", row, if_absent=True):
        return False
    write_step(tx, SYSTEM, Step(kind=LineKind.PAUSED, at=at, who=by, text=own_words(reason) if reason else None))
    return True


def resume_runs(tx: Tx, by: Person, reason: str | None) -> bool:
    if not tx.run("DELETE FROM bot_switches WHERE name = :name", name=PAUSED):
        return False
    write_step(tx, SYSTEM, Step(kind=LineKind.RESUMED, at=now(tx), who=by, text=own_words(reason) if reason else None))
    return True


async def _redraw(database: Database) -> None:
    """Marks cards for drawing. Runs even if nothing changed, since an earlier command may have been stopped halfway."""
    after: str | None = ""
    while after is not None:
        after = await database.run(mark_for_drawing, after)


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
