"""Marks workspaces that removed the app, so that nothing is tried for them until they install it again.

These are transaction functions. The mark is a row in `bot_switches`; it counts while no other installation serves the
workspace. A workspace that installs the app again before everything is closed keeps its mark: what was asked before the
removal is still closed, since nobody knows whether it is still wanted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, delete, or_, select, update

from bot.audit.ledger import SYSTEM, LineKind, stamp
from bot.confirmation.effects import Step
from bot.confirmation.model import State
from bot.leasing.put_off import PutAside
from bot.policy.redaction import own_words
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.errors import NotInstalled
from bot.slack.workspaces.installed import WITHHELD, InstalledApp, bots, find_serving, forget
from bot.store.attempts import begin
from bot.store.ledger_lines import write_step
from bot.store.repository import CONFIRMATIONS, REPLIES, SESSIONS, now
from bot.store.slack_lanes import CARDS, THREADS
from bot.store.tables import ATTENDED, confirmations, grants, mail, replies, sessions, switches
from runtime.jsontypes import JsonObject, canonical
from runtime.store.database import Tx, for_update
from runtime.store.upsert import insert_if_absent

DEPARTURES = "bot:departures"
"""Topic: somebody removed the app, and what belonged to them must be closed."""

_REMOVED, _RETURNED, _GRANTED = "removed:", "returned:", "granted:"

OPEN = or_(
    confirmations.c.state == str(State.WAITING),
    and_(confirmations.c.state == str(State.APPROVED), confirmations.c.outcome.is_(None)),
)
"""What may still begin, or waits for people."""


@dataclass(frozen=True, kw_only=True)
class Removal:
    """Slack's report that the app was removed from a place. The sentence has a field for the `{place}`.

    `event` identifies the report, which Slack may send several times. `before`: installations after this time are not
    affected.
    """

    at: Workspace
    sentence: str
    event: str = ""
    before: float | None = None


@dataclass(frozen=True, kw_only=True)
class AccessChange:
    """Slack's report at the time `at`: workspaces in which an organisation may use its token, or no longer may."""

    enterprise: str
    teams: tuple[str, ...]
    granted: bool
    at: float


@dataclass(frozen=True, kw_only=True)
class Departure:
    """A workspace or organisation that removed the app, and perhaps came `back` with the installation `by`. Its open
    work must be closed."""

    id: str
    back: float | None = None
    by: str | None = None

    def ends(self, tx: Tx, at: Workspace, asked: float) -> bool:
        """Whether a request of this time and workspace must be closed. Another installation may have served it."""
        if self.back is None:
            return has_left(tx, at)
        return asked < self.back and find_serving(tx, at, besides=self.by) is None


def find_departures(tx: Tx) -> list[Departure]:
    """The workspaces and organisations that removed the app and may have open work."""
    return [
        *(Departure(id=id_) for id_, _ in _marked_switches(tx, _REMOVED)),
        *(Departure(id=id_, back=value["back"], by=value["by"]) for id_, value in _marked_switches(tx, _RETURNED)),
    ]


def record_closed(tx: Tx, departure: Departure) -> None:
    """Records that everything is closed. The mark of one that left and is not back stays."""
    if departure.back is not None:
        tx.execute(delete(switches).where(*_is_this(departure)))


def has_left(tx: Tx, at: Workspace, *, lock: bool = False) -> bool:
    """Whether a workspace has removed the app, and no other installation serves it. `lock`: it can't come back
    meanwhile."""
    names = [f"{_REMOVED}{id_}" for id_ in (at.team, at.enterprise) if id_]
    found = select(switches.c.name).where(switches.c.name.in_(names))
    marked = tx.execute(for_update(found) if lock else found).first() is not None
    return marked and find_serving(tx, at) is None


def waits_for_installation(tx: Tx, error: PutAside) -> bool:
    """Whether to leave work alone because the app was removed. It is due again once the app is installed there."""
    return isinstance(error, NotInstalled) and has_left(tx, Workspace.of(error), lock=True)


def record_departure(tx: Tx, one: InstalledApp, removal: Removal) -> bool:
    """Deletes the installation's token and the messages of its people. Returns False if the removal was known, or is
    stale."""
    if removal.before is not None and removal.before < int(one.at):
        return _is_late(tx, one, removal)
    if removal.event and begin(tx, SYSTEM, f"event:{removal.event}"[:300]) is not None:
        return False
    forget(tx, one)
    _record_leaving(tx, one, removal.sentence)
    return True


def note_removal(tx: Tx, removal: Removal) -> bool:
    """Writes a ledger line about a removal. Returns False if the same event has a line already."""
    if begin(tx, SYSTEM, f"event:{removal.event}"[:300]) is not None:
        return False
    place = removal.at.team or removal.at.enterprise or "this workspace"
    write_step(
        tx, SYSTEM, Step(kind=LineKind.UNINSTALLED, at=now(tx), text=own_words(removal.sentence.format(place=place)))
    )
    return True


def withhold(tx: Tx, organisation: InstalledApp, team: str, access: AccessChange) -> bool:
    """Records that a workspace of an organisation removed the app, which for that workspace is the same as
    uninstalling. False: known, or stale."""
    if access.at < int(organisation.at) or not _store_if_newest(tx, team, access):
        return False
    one = InstalledApp(team=team, enterprise=organisation.enterprise, name="", at=access.at)
    sentence = f"{organisation} may not use the app in {team} any more."
    if find_serving(tx, one.workspace) is None:
        _record_leaving(tx, one, sentence)
    else:
        write_step(tx, SYSTEM, Step(kind=LineKind.UNINSTALLED, at=now(tx), text=own_words(sentence)))
    return True


def grant(tx: Tx, organisation: InstalledApp, team: str, access: AccessChange) -> bool:
    """Records that the app may be used there (again). False: it could be used before, or the report is stale."""
    withheld = tx.execute(select(switches.c.name).where(switches.c.name == f"{WITHHELD}{team}")).first() is not None
    if not _store_if_newest(tx, team, access) or not withheld:
        return False
    one = InstalledApp(team=team, enterprise=organisation.enterprise, name="", at=access.at)
    _record_return(tx, one, organisation, f"{organisation} may use the app in {team} again.")
    return True


def record_arrival(tx: Tx, one: InstalledApp, sentence: str) -> None:
    """Records that the app is installed (again): what was put aside for it continues."""
    if one.team is None:
        for team, value in _marked_switches(tx, WITHHELD):
            if value.get("enterprise") == one.enterprise:
                tx.execute(delete(switches).where(switches.c.name == f"{WITHHELD}{team}"))
    _record_return(tx, one, one, sentence)


def _record_leaving(tx: Tx, one: InstalledApp, sentence: str) -> None:
    value: JsonObject = {"at": stamp(now(tx)), "why": sentence, "enterprise": one.enterprise}
    tx.execute(insert_if_absent(tx.dialect, switches), {"name": f"{_REMOVED}{one.id}", "value": canonical(value)})
    write_step(tx, SYSTEM, Step(kind=LineKind.UNINSTALLED, at=now(tx), text=own_words(sentence)))
    if find_serving(tx, one.workspace) is None:
        _say_nothing_more(tx, one)
    tx.notify(DEPARTURES)


def _record_return(tx: Tx, one: InstalledApp, by: InstalledApp, sentence: str) -> None:
    """Removes the marks. An organisation also brings back its workspaces that left with installations of their own."""
    left = {
        id_ for id_, value in _marked_switches(tx, _REMOVED)
        if id_ == one.id or (one.team is None and value.get("enterprise") == one.enterprise)
    }  # fmt: skip
    for id_ in left:
        tx.execute(delete(switches).where(switches.c.name == f"{_REMOVED}{id_}"))
        _close_from_before(tx, Departure(id=id_, back=tx.now(), by=by.id))
    write_step(tx, SYSTEM, Step(kind=LineKind.INSTALLED, at=now(tx), text=own_words(sentence)))
    for table in ATTENDED.values():
        aside = update(table).where(_belongs_to(table, one), table.c.failures > 0)
        tx.execute(aside.values(due_at=tx.now(), parked_at=None, failures=0))
    for topic in (CONFIRMATIONS, SESSIONS, CARDS, THREADS, REPLIES):
        tx.notify(topic)


def _is_late(tx: Tx, one: InstalledApp, removal: Removal) -> bool:
    """Whether the app has been installed again since its removal. This matters only if work from before is left."""
    departure = Departure(id=one.id, back=one.at, by=one.id)
    granted = select(grants.c.id).where(grants.c.revoked_at.is_(None), grants.c.until > tx.now())
    found = select(confirmations.c.team, confirmations.c.enterprise).distinct()
    found = found.where(or_(OPEN, confirmations.c.id.in_(granted)), of(confirmations, one.id))
    places = [Workspace(*row) for row in tx.execute(found.where(confirmations.c.created < one.at))]
    if not any(departure.ends(tx, at, 0.0) for at in places):
        return False
    if removal.event and begin(tx, SYSTEM, f"event:{removal.event}"[:300]) is not None:
        return False
    write_step(tx, SYSTEM, Step(kind=LineKind.UNINSTALLED, at=now(tx), text=own_words(removal.sentence)))
    _close_from_before(tx, departure)
    return True


def _close_from_before(tx: Tx, departure: Departure) -> None:
    """Records that work from before must be closed. A later return replaces an earlier one."""
    tx.execute(delete(switches).where(switches.c.name == f"{_RETURNED}{departure.id}"))
    value = canonical({"back": departure.back, "by": departure.by})
    tx.execute(insert_if_absent(tx.dialect, switches), {"name": f"{_RETURNED}{departure.id}", "value": value})
    tx.notify(DEPARTURES)


def _store_if_newest(tx: Tx, team: str, access: AccessChange) -> bool:
    """Stores what Slack said about a workspace. False: Slack has said something later, or the same before."""
    names = {granted: f"{_GRANTED if granted else WITHHELD}{team}" for granted in (True, False)}
    found = select(switches.c.name, switches.c.value).where(switches.c.name.in_(names.values()))
    for row in tx.execute(for_update(found)):
        if json.loads(row.value)["at"] >= access.at:
            return False
    tx.execute(delete(switches).where(switches.c.name.in_(names.values())))
    value = canonical({"at": access.at, "enterprise": access.enterprise})
    new = tx.execute(insert_if_absent(tx.dialect, switches), {"name": names[access.granted], "value": value})
    return new.rowcount == 1


def _say_nothing_more(tx: Tx, one: InstalledApp) -> None:
    """Drops messages of the workspace's people to the agent, and answers to its voters."""
    keys = select(sessions.c.key).where(_belongs_to(sessions, one), _without_installation(sessions))
    unheard = update(mail).where(mail.c.kind == "words", mail.c.done_at.is_(None), mail.c.session.in_(keys))
    tx.execute(unheard.values(done_at=tx.now()))
    untold = update(replies).where(
        _belongs_to(replies, one), _without_installation(replies), replies.c.told_at.is_(None)
    )
    tx.execute(untold.values(due_at=None, told_at=tx.now()))


def of(table: Table, id_: str) -> ColumnElement[bool]:
    """The condition for what belongs to a workspace or an organisation."""
    return or_(table.c.team == id_, table.c.enterprise == id_)


def _belongs_to(table: Table, one: InstalledApp) -> ColumnElement[bool]:
    here: ColumnElement[bool] = table.c.team == one.team if one.team else table.c.enterprise == one.enterprise
    return here


def _without_installation(table: Table) -> ColumnElement[bool]:
    """The condition that the workspace has no installation of its own."""
    return table.c.team.not_in(select(bots.c.team_id).where(bots.c.team_id.is_not(None)))


def _marked_switches(tx: Tx, mark: str) -> list[tuple[str, dict[str, Any]]]:
    found = select(switches.c.name, switches.c.value).where(switches.c.name.startswith(mark, autoescape=True))
    return [(row.name.removeprefix(mark), json.loads(row.value)) for row in tx.execute(found).all()]


def _is_this(departure: Departure) -> tuple[ColumnElement[bool], ...]:
    value = canonical({"back": departure.back, "by": departure.by})
    return switches.c.name == f"{_RETURNED}{departure.id}", switches.c.value == value
