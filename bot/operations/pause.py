"""`adk-confirm pause` and `resume`: a switch that every session's worker looks at, and cards that say so."""

from __future__ import annotations

from sqlalchemy import and_, delete, or_, select

from bot.audit.ledger import SYSTEM, LineKind, stamp
from bot.confirmation.effects import Step
from bot.confirmation.model import State
from bot.confirmation.states import Transition, changed
from bot.policy.approvers import OPERATOR
from bot.policy.versioned import NewerVersion
from bot.store.repository import lock_confirmation, now, save, write_step
from bot.store.tables import confirmations, switches
from runtime.jsontypes import canonical
from runtime.store.database import Database, Tx
from runtime.store.upsert import insert_if_absent

PAUSED = "paused"
AT_ONCE = 50
"""So many confirmations are owed a drawing in one transaction: no click waits long for its turn between two."""


async def pause(database: Database) -> bool:
    """No call begins from here on; what runs may end. False: runs were paused already."""
    new = await database.run(pause_runs)
    await _redraw(database)
    return new


async def resume(database: Database) -> bool:
    """False: runs were not paused."""
    changed = await database.run(resume_runs)
    await _redraw(database)
    return changed


def pause_runs(tx: Tx) -> bool:
    at = now(tx)
    row = {"name": PAUSED, "value": canonical({"at": stamp(at), "by": OPERATOR.user})}
    if tx.execute(insert_if_absent(tx.dialect, switches), row).rowcount != 1:
        return False
    write_step(tx, SYSTEM, Step(kind=LineKind.PAUSED, at=at, who=OPERATOR))
    return True


def resume_runs(tx: Tx) -> bool:
    if tx.execute(delete(switches).where(switches.c.name == PAUSED)).rowcount != 1:
        return False
    write_step(tx, SYSTEM, Step(kind=LineKind.RESUMED, at=now(tx), who=OPERATOR))
    return True


async def _redraw(database: Database) -> None:
    """Again also when nothing changed: who ran the command before may have been stopped halfway."""
    after: str | None = ""
    while after is not None:
        after = await database.run(owe_drawings, after)


def owe_drawings(tx: Tx, after: str, at_once: int = AT_ONCE) -> str | None:
    """The cards of what waits, or is approved and has not begun, are owed a drawing; where to go on."""
    open_ = or_(
        confirmations.c.state == str(State.WAITING),
        and_(confirmations.c.state == str(State.APPROVED), confirmations.c.outcome.is_(None)),
    )
    found = select(confirmations.c.id).where(open_, confirmations.c.id > after).order_by(confirmations.c.id)
    ids = tx.execute(found.limit(at_once)).scalars().all()
    for confirmation in ids:
        try:
            session, row = lock_confirmation(tx, confirmation)
        except NewerVersion:
            continue  # the replica that wrote it draws it
        save(tx, session, Transition(row=changed(row, now(tx))))
    return str(ids[-1]) if len(ids) == at_once else None
