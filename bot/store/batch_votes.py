"""Stores several votes that one person gave in one form: all of them or none."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sqlalchemy import select

from bot.config.rules import Rules
from bot.store.casting import CastResult, SubmittedVote, cast
from bot.store.tables import confirmations
from runtime.store.database import Tx

log = logging.getLogger(__name__)


def cast_all(tx: Tx, ballots: Sequence[SubmittedVote], rules: Rules) -> list[tuple[SubmittedVote, CastResult]]:
    """Stores each vote of a batch. Confirmations that were purged since the form was opened are left out.

    Sessions are locked in the order of their keys, as everywhere.
    """
    by_confirmation = {ballot.confirmation: ballot for ballot in ballots}
    found = select(confirmations.c.id).where(confirmations.c.id.in_(by_confirmation))
    there = tx.execute(found.order_by(confirmations.c.session, confirmations.c.id)).scalars().all()
    if len(there) < len(by_confirmation):
        log.info("%d were purged before they could be voted on", len(by_confirmation) - len(there))
    return [(ballot, cast(tx, ballot, rules)) for ballot in (by_confirmation[id_] for id_ in there)]
