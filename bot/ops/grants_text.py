"""`adk-confirm grants`: the grants in force, who gave them, what they cover and how often they were used."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from bot.audit.ledger import stamp
from bot.confirmation.model import Grant
from bot.policy.redaction import Redactor
from bot.store.grants_in_force import all_grants, uses_of
from bot.store.repository import read_confirmation
from runtime.jsontypes import JsonObject
from runtime.store.database import Tx


@dataclass(frozen=True, kw_only=True)
class GrantInForce:
    """A grant, masked. `on`: the arguments that must be the same. `uses`: how many calls it let through so far, of
    `most`; None if the ledger can't say."""

    id: str
    tool: str
    on: JsonObject
    given_by: tuple[str, ...]
    given_at: datetime
    until: datetime
    session: str
    uses: int | None
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
        uses=uses_of(tx, grant),
        most=grant.uses,
    )
