"""Which workspaces and organisations have installed the app, and since when.

It reads the tables of slack_sdk's installation stores without loading the SDK's stores, which takes a tenth of a
second: a service for a single workspace does not need them. `installations.py` has the tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import Any

from sqlalchemy import DateTime, Row, and_, column, delete, func, or_, select, table

from bot.slack.outbound.calls import Workspace
from bot.store.tables import switches
from runtime.store.database import Tx

BOTS, INSTALLATIONS = "bot_installed", "bot_installations"

WITHHELD = "withheld:"
"""Mark in `bot_switches`: the organisation's token may not be used in this workspace any more."""

_NAMED = ("id", "client_id", "team_id", "team_name", "enterprise_id", "enterprise_name")
bots = table(BOTS, *map(column, _NAMED), column("installed_at", DateTime))
_installations = table(INSTALLATIONS, *map(column, _NAMED))


@dataclass(frozen=True, kw_only=True)
class InstalledApp:
    """One installation, without its token: a workspace, or a whole organisation (`team` is None)."""

    team: str | None
    enterprise: str | None
    name: str
    at: float

    @property
    def id(self) -> str:
        """Slack's id of what the app is installed in. A policy's `team` may name it."""
        return self.team or self.enterprise or ""

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.team or "", self.enterprise)

    def __str__(self) -> str:
        return f"{self.name} ({self.id})" if self.name else self.id


# Transactions

_ONE = (bots.c.team_id, bots.c.enterprise_id, bots.c.team_name, bots.c.enterprise_name, bots.c.installed_at)


def list_installed(tx: Tx, client_id: str) -> list[InstalledApp]:
    """Where this app is installed, oldest first."""
    found = select(*_ONE).where(bots.c.client_id == client_id).order_by(bots.c.installed_at, bots.c.id)
    return [_read(row) for row in tx.execute(found)]


def find_serving(
    tx: Tx, at: Workspace, client_id: str | None = None, *, besides: str | None = None
) -> InstalledApp | None:
    """The installation whose token works in a workspace: its own, otherwise its organisation's, unless that may not be
    used there. `besides`: one to leave out."""
    withheld = select(switches.c.name).where(switches.c.name == f"{WITHHELD}{at.team}").exists()
    org = and_(bots.c.team_id.is_(None), bots.c.enterprise_id == (at.enterprise or ""), ~withheld)
    found = select(*_ONE).where(or_(bots.c.team_id == at.team, org)).order_by(bots.c.team_id.is_(None))
    if client_id is not None:
        found = found.where(bots.c.client_id == client_id)
    if besides is not None:
        found = found.where(func.coalesce(bots.c.team_id, bots.c.enterprise_id) != besides)
    row = tx.execute(found.limit(1)).one_or_none()
    return None if row is None else _read(row)


def forget(tx: Tx, one: InstalledApp) -> None:
    """Deletes the tokens of a workspace or organisation. A workspace has its own id, whichever organisation it has
    joined."""
    for each in (bots, _installations):
        here = each.c.team_id == one.team
        if one.team is None:
            here = and_(each.c.team_id.is_(None), each.c.enterprise_id == one.enterprise)
        tx.execute(delete(each).where(here))


def _read(row: Row[*tuple[Any, ...]]) -> InstalledApp:
    team, enterprise, team_name, enterprise_name, at = row
    name = (team_name if team else enterprise_name) or ""
    return InstalledApp(team=team, enterprise=enterprise, name=name, at=at.replace(tzinfo=UTC).timestamp())
