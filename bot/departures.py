"""Workspaces that removed the app: marked until it is installed there again, so that nothing is tried for them.

These are transaction functions. A mark stands in `bot_switches`, and counts as long as no other installation serves the
workspace.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Table, delete, select, update

from bot.attempts import begin
from bot.installations import Installed, forget, serving
from bot.ledger import SYSTEM, LineKind, stamp
from bot.rows import CONFIRMATIONS, REPLIES, SESSIONS, now, write_step
from bot.slack_calls import Workspace
from bot.steps import Step
from bot.tables import ATTENDED, mail, replies, sessions, switches
from runtime.database import Tx, for_update
from runtime.jsontypes import canonical
from runtime.upsert import insert_if_absent

DEPARTURES = "bot:departures"
"""Topic: somebody removed the app, and what belonged to them is to be closed."""

_MARK = "removed:"


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What was heard of an app that is not there any more; the sentence has room for the `{place}`.

    `event` names what Slack may tell several times; `before`: what was installed later is not meant.
    """

    at: Workspace
    sentence: str
    event: str = ""
    before: float | None = None


def departed(tx: Tx) -> list[str]:
    """The ids of the workspaces and organisations that removed the app."""
    found = select(switches.c.name).where(switches.c.name.startswith(_MARK, autoescape=True))
    return [name.removeprefix(_MARK) for name in tx.execute(found).scalars()]


def gone(tx: Tx, at: Workspace, *, lock: bool = False) -> bool:
    """Whether a workspace has removed the app, and nothing else serves it. `lock`: nobody comes back meanwhile."""
    names = [f"{_MARK}{id_}" for id_ in (at.team, at.enterprise) if id_]
    found = select(switches.c.name).where(switches.c.name.in_(names))
    marked = tx.execute(for_update(found) if lock else found).first() is not None
    return marked and serving(tx, at) is None


def depart(tx: Tx, one: Installed, removal: Removal) -> bool:
    """The installation's token goes, and what was about to be told there is told to nobody. False: known, or stale."""
    if removal.before is not None and removal.before < int(one.at):
        return False  # it has been installed again since
    if removal.event and begin(tx, SYSTEM, f"event:{removal.event}"[:300]) is not None:
        return False
    forget(tx, one)
    mark = {"name": f"{_MARK}{one.id}", "value": canonical({"at": stamp(now(tx)), "why": removal.sentence})}
    tx.execute(insert_if_absent(tx.dialect, switches), mark)
    write_step(tx, SYSTEM, Step(kind=LineKind.UNINSTALLED, at=now(tx), text=removal.sentence))
    _say_nothing_more(tx, one)
    tx.notify(DEPARTURES)
    return True


def arrive(tx: Tx, one: Installed, sentence: str) -> None:
    """It is installed, perhaps again: what was put aside for it is taken up."""
    tx.execute(delete(switches).where(switches.c.name == f"{_MARK}{one.id}"))
    write_step(tx, SYSTEM, Step(kind=LineKind.INSTALLED, at=now(tx), text=sentence))
    for table in ATTENDED:
        aside = update(table).where(_theirs(table, one), table.c.failures > 0)
        tx.execute(aside.values(due_at=tx.now(), parked_at=None, failures=0))
    for topic in (CONFIRMATIONS, SESSIONS, REPLIES):
        tx.notify(topic)


def _say_nothing_more(tx: Tx, one: Installed) -> None:
    """Words that its people said are not told to the agent any more, nor anything to those who voted."""
    keys = select(sessions.c.key).where(_theirs(sessions, one))
    unheard = update(mail).where(mail.c.kind == "words", mail.c.done_at.is_(None), mail.c.session.in_(keys))
    tx.execute(unheard.values(done_at=tx.now()))
    untold = update(replies).where(_theirs(replies, one), replies.c.told_at.is_(None))
    tx.execute(untold.values(due_at=None, told_at=tx.now()))


def _theirs(table: Table, one: Installed) -> ColumnElement[bool]:
    here: ColumnElement[bool] = table.c.team == one.team if one.team else table.c.enterprise == one.enterprise
    return here
