"""`adk-confirm grants`: the grants in force, who gave them, what they cover and how often they were used."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import select

from bot.audit.ledger import LineKind, stamp
from bot.confirmation.model import Grant
from bot.policy.redaction import Redactor
from bot.store.grants_in_force import all_grants
from bot.store.repository import chain_of, read_confirmation
from bot.store.tables import ledger
from runtime.jsontypes import JsonObject
from runtime.store.database import Tx


@dataclass(frozen=True, kw_only=True)
class GrantInForce:
    """A grant, masked. `on`: the arguments that must be the same. `uses`: how many calls it let through so far, of
    `most`."""

    id: str
    tool: str
    on: JsonObject
    given_by: tuple[str, ...]
    given_at: datetime
    until: datetime
    session: str
    uses: int
    most: int | None

    def to_json(self) -> JsonObject:
        return {**asdict(self), "given_at": stamp(self.given_at), "until": stamp(self.until)}


def read_grants(tx: Tx) -> list[GrantInForce]:
    """Sorted by when they end."""
    return [_grant_in_force(tx, grant) for grant in all_grants(tx)]


def _grant_in_force(tx: Tx, grant: Grant) -> GrantInForce:
    row = read_confirmation(tx, grant.id)
    redactor = row.redactor if row is not None else Redactor(("*",))
    return GrantInForce(
        id=grant.id,
        tool=grant.tool,
        on=redactor.mask_call(grant.on)[0],
        given_by=tuple(giver.user for giver in grant.given_by),
        given_at=grant.given_at,
        until=grant.until,
        session=grant.session.id,
        uses=_uses(tx, grant),
        most=grant.uses,
    )


def _uses(tx: Tx, grant: Grant) -> int:
    """How many calls the grant let through, according to the ledger."""
    used = ledger.c.kind == str(LineKind.GRANT_USED)
    found = select(ledger.c.content).where(
        ledger.c.chain == chain_of(grant.session), used, ledger.c.content.is_not(None)
    )
    return sum(json.loads(content).get("grant") == grant.id for content in tx.execute(found).scalars())
