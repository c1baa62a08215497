"""Creates a confirmation from a host's request, or refuses the request at once. Transaction functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.config.settings import WaitingLimits
from adk_confirm.bot.confirmation import decision_texts
from adk_confirm.bot.confirmation.confirmation import AskedCall, Confirmation, HostRequest, Place
from adk_confirm.bot.confirmation.decision import approve_by_grant, open_confirmation
from adk_confirm.bot.confirmation.grants import Rights
from adk_confirm.bot.confirmation.states import Step
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.policy.policies import (
    DENIALS_WINDOW,
    CallRefusal,
    CallRefusalReason,
    GoverningPolicy,
    too_many_denials,
)
from adk_confirm.bot.policy.redaction import own_words
from adk_confirm.bot.store.cast_vote import warn_of_session
from adk_confirm.bot.store.grants_in_force import grant_for
from adk_confirm.bot.store.ledger_rows import write_steps
from adk_confirm.bot.store.letters import Letter, Mail, finish_and_read_next
from adk_confirm.bot.store.marks import begin_attempt
from adk_confirm.bot.store.outbox import NextPost, say
from adk_confirm.bot.store.repository import (
    Session,
    lock_session,
    moment,
    now,
    put_mail,
    save,
    session_is_sealed,
)
from adk_confirm.bot.store.sealed_rows import storable
from adk_confirm.bot.store.waiting_index import asker
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.telemetry import tracing


@dataclass(frozen=True, kw_only=True)
class Opening:
    """A host's request, with the places for its card and what was looked up about it."""

    place: tuple[str | None, ...]
    asked: AskedCall
    governs: GoverningPolicy | CallRefusal
    places: tuple[Place, ...] = ()
    rights: Rights = lambda _: None  # of the people whose grant covers this call


_KNOWN = """
    SELECT EXISTS (SELECT 1 FROM bot_confirmations WHERE session = :key AND request_id = :request)
        OR EXISTS (SELECT 1 FROM bot_mail WHERE session = :key AND mark = :refused)
"""
_DENIALS = """
    SELECT decided_at FROM bot_confirmations
    WHERE session = :key AND tool = :tool AND state = 'denied' AND decided_at > :since
"""
_COUNT_WAITING = """
    SELECT (SELECT count(*) FROM bot_confirmations WHERE state = 'waiting' AND session = :key) AS in_session,
        (SELECT count(*) FROM bot_waiting w JOIN bot_confirmations c ON c.id = w.confirmation
         WHERE w.team = :team AND w.whom = :whom AND c.state = 'waiting') AS of_person
"""


def open_request(tx: Tx, key: str, opening: Opening, limits: WaitingLimits) -> Confirmation | None:
    """Creates the confirmation for a request. Returns None if the request is known, or if nobody may be asked; the
    agent and the thread get that refusal at once.

    A refused request stays refused, even if its agent does not know yet.
    """
    session = lock_session(tx, key)
    asked, at = replace(opening.asked, speakers=session.speakers), now(tx)
    if tx.value(_KNOWN, key=key, request=storable(asked.request_id), refused=_refusal_mark(asked)):
        return None
    found = opening.governs
    if not session_is_sealed(tx, session) or opening.place != session.place:
        found = CallRefusal(CallRefusalReason.SESSION_CHANGED)
        warn_of_session(tx, session)
    elif storable(asked.tool) != asked.tool:
        found = CallRefusal(CallRefusalReason.NOT_TO_BE_SHOWN, detail=own_words(decision_texts.ODD_NAME))
    elif isinstance(found, GoverningPolicy) and too_many_denials(found.policy, _denials(tx, key, asked.tool), at):
        found = CallRefusal(CallRefusalReason.TOO_MANY_DENIALS, found.index)
    grant = grant_for(tx, key, asked, found.policy, opening.rights) if isinstance(found, GoverningPolicy) else None
    if grant is None and isinstance(found, GoverningPolicy):
        found = _too_many_wait(tx, session, asked, limits) or found
    if isinstance(found, CallRefusal):
        _refuse(tx, session, asked, found)
        return None
    if grant is None:
        change = open_confirmation(uuid4().hex, asked, found.policy, at)
    else:
        change = approve_by_grant(uuid4().hex, asked, found.policy, at, grant)
    change = replace(change, row=replace(change.row, places=opening.places))
    return save(tx, session, change, new=True)


def take_in(tx: Tx, key: str, said: Sequence[NextPost], asks: Opening | None, limits: WaitingLimits) -> None:
    """Stores the agent's last messages, and then its last request, if any."""
    for post in said:
        say(tx, key, post)
    if asks is not None:
        open_request(tx, key, asks, limits)


def open_and_finish(
    tx: Tx,
    /,
    key: str,
    said: Sequence[NextPost],
    asks: Opening | None,
    limits: WaitingLimits,
    letters: Sequence[Letter],
    *,
    alone: bool,
    may_end: bool,
) -> Mail:
    """Stores what came of letters (`take_in`), marks the letters as received, and returns the next mail."""
    take_in(tx, key, said, asks, limits)
    return finish_and_read_next(tx, key, letters, alone=alone, may_end=may_end)


def asked_call(session: Session, request: HostRequest, asked_by: Person) -> AskedCall:
    """The call as people will see it."""
    return AskedCall(
        **vars(request),
        session=session.session,
        asked_by=asked_by,
        team=session.team,
        channel=session.channel,
        speakers=session.speakers,
        trace=tracing.traceparent(),
    )


def _denials(tx: Tx, key: str, tool: str) -> list[datetime]:
    since = tx.now() - DENIALS_WINDOW.total_seconds()
    return [moment(at) for at in tx.column(_DENIALS, key=key, tool=tool, since=since)]


def _too_many_wait(tx: Tx, session: Session, asked: AskedCall, limits: WaitingLimits) -> CallRefusal | None:
    whom = asker(asked.asked_by)
    # Another session of the person may count at the same time.
    tx.lock("SELECT pg_advisory_xact_lock(hashtextextended(:person, 0))", person=f"{asked.team} {whom}")
    waiting = tx.first(_COUNT_WAITING, key=session.key, team=asked.team, whom=whom)
    if waiting.in_session >= limits.waiting_per_session:
        return CallRefusal(CallRefusalReason.SESSION_FULL, detail=own_words(str(limits.waiting_per_session)))
    if waiting.of_person >= limits.waiting_per_person:
        return CallRefusal(CallRefusalReason.PERSON_FULL, detail=own_words(str(limits.waiting_per_person)))
    return None


_ONCE_A_TURN = (CallRefusalReason.SESSION_FULL, CallRefusalReason.PERSON_FULL)


def _refuse(tx: Tx, session: Session, asked: AskedCall, found: CallRefusal) -> None:
    """Refuses without asking anybody. The agent gets the reason at once, and so does the thread: once a turn if too
    many calls wait."""
    reason = decision_texts.ungoverned_to_model(found)
    body: JsonObject = {
        "request": asked.request_id,
        "call": asked.call_id,
        "turn": asked.turn,
        "ask": str(asked.ask),
        "reason": reason,
        "trace": asked.trace,
    }
    mark, person = _refusal_mark(asked), asked.asked_by.user or None
    put_mail(tx, session.key, kind="refusal", mark=mark, body=canonical(body), person=person)
    turn = asked.invocation_id or asked.turn or asked.request_id
    if found.why in _ONCE_A_TURN and begin_attempt(tx, session.key, storable(f"{found.why}:{turn}")) is not None:
        return  # the thread says it already
    text = own_words(decision_texts.ungoverned(found))
    step = Step(kind=LineKind.CALL_REFUSED, at=now(tx), who=asked.asked_by if person else None, text=text)
    write_steps(tx, session.key, step, tool=storable(asked.tool))


def _refusal_mark(asked: AskedCall) -> str:
    return storable(f"refused:{asked.request_id}")
