"""Who spoke to the agent in a session. A vote on the agent's call depends on that. Transaction functions."""

from __future__ import annotations

from dataclasses import replace

from bot.audit.ledger import LineKind
from bot.confirmation.authorise import Facts
from bot.confirmation.effects import Step, UnsealedPart
from bot.confirmation.model import Confirmation
from bot.store.attempts import begin
from bot.store.ledger_lines import write_step
from bot.store.repository import Session, now, session_is_sealed
from runtime.store.database import Tx


def with_speakers(tx: Tx, session: Session, row: Confirmation, facts: Facts) -> Facts:
    """Adds everybody who has spoken so far to the facts. The session is locked, so nobody else can speak before the
    vote is counted."""
    if row.policy.allow_requester is not False:
        return facts
    sealed = session_is_sealed(tx, session)
    if not sealed:
        warn_of_session(tx, session)
    return replace(facts, speakers=facts.speakers | session.speakers, speakers_known=sealed)


def warn_of_session(tx: Tx, session: Session) -> None:
    """Warns once that a session's row was changed from outside."""
    if begin(tx, session.key, "unsealed session") is None:
        write_step(tx, session.key, Step(kind=LineKind.UNSEALED, at=now(tx), text=UnsealedPart.SESSION))
