"""Who spoke to the agent in a session, for a vote on what it asks. Transaction functions."""

from __future__ import annotations

from bot.audit.ledger import LineKind
from bot.confirmation.authorise import Facts
from bot.confirmation.effects import Step, Unsealed
from bot.confirmation.model import Confirmation
from bot.store.attempts import begin
from bot.store.ledger_lines import write_step
from bot.store.repository import Session, now, session_stands
from runtime.replacing import replace
from runtime.store.database import Tx


def with_speakers(tx: Tx, session: Session, row: Confirmation, facts: Facts) -> Facts:
    """The facts with everybody who has spoken so far. The session is locked, so nobody speaks before the vote is
    counted."""
    if row.policy.allow_requester is not False:
        return facts
    stands = session_stands(tx, session)
    if not stands:
        warn_of_session(tx, session)
    return replace(facts, speakers=facts.speakers | session.speakers, speakers_known=stands)


def warn_of_session(tx: Tx, session: Session) -> None:
    """Does nothing if the session was warned of before."""
    if begin(tx, session.key, "unsealed session") is None:
        write_step(tx, session.key, Step(kind=LineKind.UNSEALED, at=now(tx), text=str(Unsealed.SESSION)))
