"""The desk: what happens to confirmations, one transaction each, ledger line included.

These are transaction functions: `await database.run(cast, ballot, rules)`. They lock, ask the pure modules what
follows, and save it. Nothing here asks Slack or a host: what had to be found out is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import uuid4

from sqlalchemy import and_, func, select, update

from bot.audit.fingerprint import Seal
from bot.audit.ledger import LineKind
from bot.config.rules import Rules
from bot.confirmation import words
from bot.confirmation.authorise import Facts, Reason, Refusal
from bot.confirmation.decision import asked_anew, elsewhere, grant_looked_at, let_through, open_confirmation
from bot.confirmation.effects import Delivery, Step
from bot.confirmation.grants import Withheld
from bot.confirmation.model import AskedCall, Confirmation, Edit, OutcomeKind, Place, SessionKey, State, Vote, VoteKind
from bot.confirmation.outcome import HostReport, begin, observe, start, take_back, unreached
from bot.confirmation.schedule import tick, to_draw
from bot.confirmation.seals import with_seal
from bot.confirmation.states import Transition, changed
from bot.confirmation.unsealed import checked
from bot.confirmation.votes import count, needs_asking, store_vote
from bot.hosts.host import HostRequest
from bot.policy.approvers import Person
from bot.policy.model import DENIALS_WINDOW, Governs, Unfit, Ungoverned, too_many_denials
from bot.store.grants_in_force import grant_for
from bot.store.refused_clicks import without_repeats
from bot.store.repository import (
    REPLIES,
    Session,
    chain_of,
    has_mail,
    lock_confirmation,
    lock_session,
    moment,
    now,
    put_mail,
    save,
    save_places,
    write_step,
)
from bot.store.slack_lanes import card_done
from bot.store.tables import confirmations, replies
from runtime.calls.call import Call
from runtime.calls.seal import StartCheck
from runtime.jsontypes import JsonObject, canonical
from runtime.store.database import Tx
from runtime.store.lease import free
from runtime.store.records import SessionId
from runtime.store.upsert import insert_if_absent


@dataclass(frozen=True, kw_only=True)
class Opening:
    """A request found at the host, and what Slack said of the places where its card could stand."""

    request: HostRequest
    asked_by: Person
    governs: Governs | Ungoverned
    places: tuple[Place, ...] = ()
    rights: Mapping[Person, Facts] = field(default_factory=dict)  # of those whose grant is for this call
    trace: str | None = None


def open_request(tx: Tx, key: str, opening: Opening, rules: Rules) -> Confirmation | None:
    """Puts a request to people, once; None when it is known, or when nobody may be asked, which is said at once.

    A request that was refused stays refused: its agent may not have heard of it yet.
    """
    session = lock_session(tx, key)
    request = opening.request
    known = select(confirmations.c.id).where(
        confirmations.c.session == key, confirmations.c.request_id == request.request_id
    )
    if tx.execute(known).first() is not None or has_mail(tx, key, _refusal_mark(request)):
        return None
    asked, at = asked_of(session, opening), now(tx)
    found = opening.governs
    if isinstance(found, Governs) and too_many_denials(found.policy, _denials(tx, key, request.tool), at):
        found = Ungoverned(Unfit.TOO_MANY_DENIALS, found.index)
    if isinstance(found, Ungoverned):
        _refuse(tx, session, asked, found)
        return None
    grant = grant_for(tx, key, asked, found.policy, opening.rights, rules.seal)
    if grant is None:
        change = open_confirmation(uuid4().hex, asked, found.policy, rules.seal, at)
    else:
        change = let_through(uuid4().hex, asked, found.policy, rules.seal, at, grant)
    change = replace(change, row=replace(change.row, places=opening.places))
    return save(tx, session, change, new=True)


def asked_of(session: Session, opening: Opening) -> AskedCall:
    """The request as people will see it."""
    request = opening.request
    return AskedCall(
        session=session.session,
        request_id=request.request_id,
        call_id=request.call_id,
        tool=request.tool,
        arguments=request.arguments,
        agent=request.agent,
        asked_by=opening.asked_by,
        team=session.team,
        channel=session.channel,
        enterprise=session.enterprise,
        invocation_id=request.invocation_id,
        hint=request.hint,
        wants_payload=request.wants_payload,
        payload=request.payload,
        payload_schema=request.payload_schema,
        tool_schema=request.tool_schema,
        can_edit=request.can_edit,
        ask=request.ask,
        siblings=request.siblings,
        speakers=session.speakers,
        trace=opening.trace,
    )


def _denials(tx: Tx, key: str, tool: str) -> list[datetime]:
    found = select(confirmations.c.decided_at).where(
        confirmations.c.session == key,
        confirmations.c.tool == tool,
        confirmations.c.state == str(State.DENIED),
        confirmations.c.decided_at > tx.now() - DENIALS_WINDOW.total_seconds(),
    )
    return [moment(at) for at in tx.execute(found).scalars()]


def _refuse(tx: Tx, session: Session, asked: AskedCall, found: Ungoverned) -> None:
    """No person is asked: the agent hears it at once, and so does the thread."""
    reason = words.ungoverned_to_model(found)
    body: JsonObject = {
        "request": asked.request_id,
        "call": asked.call_id,
        "invocation": asked.invocation_id,
        "turn": asked.turn,
        "ask": str(asked.ask),
        "reason": reason,
        "trace": asked.trace,
    }
    put_mail(tx, session.key, kind="refusal", mark=_refusal_mark(asked), body=canonical(body))
    step = Step(kind=LineKind.CALL_REFUSED, at=now(tx), who=asked.asked_by, text=words.ungoverned(found))
    write_step(tx, session.key, step, None, asked.tool)


def _refusal_mark(asked: HostRequest | AskedCall) -> str:
    return f"refused:{asked.request_id}"


# Votes


@dataclass(frozen=True, kw_only=True)
class Ballot:
    """A click or a submitted form, as it is stored. `id` is the same when the same click is delivered again."""

    id: str
    confirmation: str
    revision: int
    kind: VoteKind
    voter: Person
    reason: str | None = None
    edit: Edit | None = None
    grant: bool = False
    way: str = "button"
    target: JsonObject | None = None  # where the voter looks for what became of it


@dataclass(frozen=True)
class Cast:
    """What a vote came to so far: `settled` when it needed nobody to be asked."""

    row: Confirmation
    settled: bool
    refusal: Refusal | None = None


Known = Callable[[Confirmation, Vote, frozenset[Person]], Facts | None]
"""What was found out already about who votes, with who spoke in the session; `None`: it has to be asked. No I/O."""


def nothing_known(row: Confirmation, vote: Vote, speakers: frozenset[Person]) -> Facts | None:  # noqa: ARG001
    return None  # a `Known`


def cast(tx: Tx, ballot: Ballot, rules: Rules, known: Known = nothing_known) -> Cast:
    """Stores a vote; whoever called acks only after. What needs no asking, or was asked just now, is counted here."""
    session, row = lock_confirmation(tx, ballot.confirmation)
    sound = checked(row, now(tx), rules.policies, rules.seal)
    plain = Vote(
        id=ballot.id,
        kind=ballot.kind,
        voter=ballot.voter,
        revision=ballot.revision,
        stored_at=now(tx),
        reason=ballot.reason,
        edit=ballot.edit,
        grant=ballot.grant,
        way=ballot.way,
        target=ballot.target,
        sealed="",
    )
    vote = with_seal(plain, sound.row, rules.seal)
    stored = store_vote(sound.row, vote)
    change, settled = stored, all(waiting.id != vote.id for waiting in stored.row.pending)
    first = stored.row.pending[:1]
    if first and first[0].id == vote.id:
        facts = known(stored.row, vote, session.speakers)
        if facts is not None or not needs_asking(stored.row, vote):
            change, settled = stored.then(count(stored.row, vote.id, facts, vote.stored_at, rules)), True
    if change.row is row:
        return Cast(row, settled=False)  # the same click, delivered again
    _tell_the_lost(tx, row, sound)
    if settled and not _tell_voter(tx, vote, change):  # likewise, of a vote that was refused
        return Cast(_put_right(tx, session, row, sound), settled=False, refusal=_refusal(change))
    news = without_repeats(tx, change)
    if settled and news is not change and not news.steps:  # refused, as often before
        return Cast(_put_right(tx, session, row, sound), settled, _refusal(change))
    save(tx, session, sound.then(news))
    return Cast(change.row, settled, _refusal(change))


def count_next(tx: Tx, confirmation_id: str, vote_id: str, facts: Facts | None, rules: Rules) -> Confirmation:
    """Counts the oldest stored vote with what was found out about its voter; another replica may have been faster."""
    session, row = lock_confirmation(tx, confirmation_id)
    if not row.pending or row.pending[0].id != vote_id:
        return row
    change = count(row, vote_id, facts, now(tx), rules)
    save(tx, session, without_repeats(tx, change))
    _tell_the_lost(tx, row, change)
    return change.row


def put_right(tx: Tx, confirmation_id: str, rules: Rules) -> Confirmation:
    """What no seal vouches for goes."""
    session, row = lock_confirmation(tx, confirmation_id)
    sound = checked(row, now(tx), rules.policies, rules.seal)
    _tell_the_lost(tx, row, sound)
    return _put_right(tx, session, row, sound)


def _put_right(tx: Tx, session: Session, row: Confirmation, sound: Transition) -> Confirmation:
    return row if sound.row is row else save(tx, session, sound)


def _tell_the_lost(tx: Tx, before: Confirmation, change: Transition) -> None:
    """Whoever's vote waited and waits no more hears what became of it."""
    waiting = {vote.id for vote in change.row.pending}
    for vote in before.pending:
        if vote.id not in waiting:
            _tell_voter(tx, vote, change)


def look_at_grant(tx: Tx, confirmation_id: str, why: Withheld | None) -> Confirmation:
    """It was found out whether a grant would still let a call through."""
    session, row = lock_confirmation(tx, confirmation_id)
    change = grant_looked_at(row, now(tx), why)
    return row if change.row is row else save(tx, session, change)


def _refusal(change: Transition) -> Refusal | None:
    return next((s.refusal for s in change.steps if s.kind is LineKind.VOTE_REFUSED), None)


_WHILE_TOLD = 1.0


def _tell_voter(tx: Tx, vote: Vote, change: Transition) -> bool:
    """Who submitted a form, or is refused, hears what became of it; False: they were told before. Whoever pressed a
    button that counted sees it on the card."""
    if vote.target is None or not (_refusal(change) or vote.target.get("view") or vote.target.get("list")):
        return True
    reply = {"vote": vote.id, "target": canonical(vote.target), "body": _verdict(change), "due_at": tx.now()}
    place = {"team": vote.target.get("team"), "enterprise": vote.target.get("enterprise")}
    person = f"{vote.voter.team}/{vote.voter.user}"
    made = {**reply, **place, "person": person, "failures": 0}
    if not tx.execute(insert_if_absent(tx.dialect, replies), made).rowcount:
        return False
    if not vote.target.get("view"):
        _take_the_place_of_older(tx, vote.id, person, change.row.id)
    tx.notify(REPLIES)
    return True


def _take_the_place_of_older(tx: Tx, vote: str, person: str, matter: str) -> None:
    """Of what somebody was not told yet about one confirmation only the newest is worth telling, and no later than the
    oldest would have been. What is shown in a view of its own is told there."""
    now, same = tx.now(), and_(replies.c.person == person, replies.c.matter == matter, replies.c.due_at.is_not(None))
    waits = free(replies, now)
    due_at = tx.execute(select(func.min(replies.c.due_at)).where(same, waits)).scalar_one()
    if due_at is None and tx.execute(select(replies.c.id).where(same)).first() is not None:
        due_at = now + _WHILE_TOLD  # one is on its way: what comes until it has arrived is told together
    tx.execute(update(replies).where(same, waits).values(due_at=None, owed_since=None, told_at=now))
    values = {"matter": matter} if due_at is None else {"matter": matter, "due_at": due_at}
    tx.execute(update(replies).where(replies.c.vote == vote).values(values))


def _verdict(change: Transition) -> str:
    """What the voter is told: the step their word led to, and where the confirmation stands now."""
    row = change.row
    told = [step for step in change.steps if step.kind is not LineKind.VOTE_FELL]  # that was somebody else's vote
    heard = next((step for step in told if step.kind is LineKind.VOTE_REFUSED), told[0] if told else None)
    refusal = heard.refusal if heard else None
    return canonical(
        {
            "kind": str(heard.kind) if heard else None,
            "reason": str(refusal.reason) if refusal else None,
            "fields": list(refusal.fields) if refusal else [],
            "unresolved": refusal.unresolved.what if refusal and refusal.unresolved else None,
            "votes": heard.votes if heard else None,
            "state": _too_late_for(refusal) or str(row.state),
            "outcome": str(row.outcome.kind) if row.outcome else None,
            "confirmation": row.id,
            "question": row.asked.question,
            "tool": row.redactor.mask_text(row.asked.tool),
            "quorum": row.policy.quorum,
            "revision": row.revision.number,
        }
    )


def _too_late_for(refusal: Refusal | None) -> str | None:
    """A vote that came after the deadline is too late for it, also before the clock was looked at."""
    return refusal.state if refusal is not None and refusal.reason is Reason.TOO_LATE else None


# What time and hosts bring


def keep_time(tx: Tx, confirmation_id: str) -> Confirmation:
    """Reminders, escalation, expiry, lapse: whatever is due by now."""
    session, row = lock_confirmation(tx, confirmation_id)
    change = tick(row, now(tx))
    return row if change.row is row else save(tx, session, change)


def hand_over(tx: Tx, confirmation_id: str, delivery: Delivery, seal: Seal) -> Confirmation:
    """The last look before a host gets an approval. Raises `Illegal`: it must not run any more. Without `handed_at` in
    the row that comes back it was refused just now."""
    session, row = lock_confirmation(tx, confirmation_id)
    return save(tx, session, begin(row, delivery, now(tx), seal))


def may_start(seal: Seal) -> StartCheck:
    """What our own runtime asks in the transaction that writes down that a call begins."""

    def check(tx: Tx, name: SessionId, call: Call, again: bool) -> bool:
        if call.request is None:
            return False
        key = chain_of(SessionKey(name.app, name.user_id, name.id))
        here = (confirmations.c.session == key, confirmations.c.request_id == call.request.request_id)
        found = tx.execute(select(confirmations.c.id).where(*here)).scalar_one_or_none()
        if found is None:
            return False
        session, row = lock_confirmation(tx, found)
        change = start(row, now(tx), seal, begun_at=moment(call.begun or tx.now()), again=again)
        if change.row is not row:
            save(tx, session, change)
        outcome = change.row.outcome
        return outcome is not None and outcome.kind is OutcomeKind.RUNNING and change.row.state is State.APPROVED

    return check


def never_arrived(tx: Tx, confirmation_id: str) -> Confirmation:
    """The host turned out not to have got the approval."""
    session, row = lock_confirmation(tx, confirmation_id)
    return save(tx, session, take_back(row, now(tx)))


def out_of_reach(tx: Tx, confirmation_id: str) -> Confirmation:
    """The host can't be reached just now."""
    session, row = lock_confirmation(tx, confirmation_id)
    change = unreached(row, now(tx))
    return row if change.row is row else save(tx, session, change)


def see(tx: Tx, confirmation_id: str, seen: HostReport) -> Confirmation:
    """Copies what the host says of the call."""
    session, row = lock_confirmation(tx, confirmation_id)
    change = observe(row, seen, now(tx))
    return row if change.row is row else save(tx, session, change)


def answered_elsewhere(tx: Tx, confirmation_id: str, confirmed: bool | None) -> Confirmation:
    session, row = lock_confirmation(tx, confirmation_id)
    change = elsewhere(row, confirmed, now(tx))
    return row if change.row is row else save(tx, session, change)


def asked_again(tx: Tx, confirmation_id: str) -> Confirmation:
    session, row = lock_confirmation(tx, confirmation_id)
    change = asked_anew(row, now(tx))
    return row if change.row is row else save(tx, session, change)


@dataclass(frozen=True)
class Shown:
    """Votes that every card shows by now, and for the first time: so many seconds after each was stored."""

    seconds: tuple[float, ...]


def placed(tx: Tx, confirmation_id: str, places: tuple[Place, ...]) -> Confirmation:
    """Facts that a worker writes back: where cards stand, and which version they show."""
    _, row = lock_confirmation(tx, confirmation_id)
    by_place = {(place.channel, place.thread_ts): place for place in places}
    kept = tuple(by_place.pop((place.channel, place.thread_ts), place) for place in row.places)
    after = replace(row, places=(*kept, *by_place.values()))
    fresh = [vote for vote in row.votes if vote.heard is not None and row.shown < vote.heard <= after.shown]
    if fresh:
        at = now(tx)
        tx.report(Shown(tuple((at - vote.stored_at).total_seconds() for vote in fresh)))
    save_places(tx, after)
    return after


def drawn(tx: Tx, confirmation_id: str) -> None:
    """All its cards show the row, unless it has changed meanwhile."""
    _, row = lock_confirmation(tx, confirmation_id)
    if not to_draw(row):
        card_done(tx, confirmation_id)


def draw_again(tx: Tx, confirmation_id: str) -> None:
    """A drawing may have landed after a later one: each place is drawn once more, whatever it is known to show."""
    session, row = lock_confirmation(tx, confirmation_id)
    save(tx, session, Transition(row=changed(row, now(tx))))
