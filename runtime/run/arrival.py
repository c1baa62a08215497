"""Accepts a message: checks its sender and its answers, then stores it and leases its session in one transaction."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from adk_confirm.runtime.adk.type_checks import check_answer
from adk_confirm.runtime.calls.call import (
    ALTERED,
    Approve,
    Call,
    CallEvent,
    CallState,
    Deny,
    GateKind,
    Refuse,
    already_answered,
    step,
)
from adk_confirm.runtime.errors import Conflict, Invalid, NotFound
from adk_confirm.runtime.jsontypes import JsonObject, alike, canonical, same
from adk_confirm.runtime.requests_and_answers import Answer, IncomingMessage
from adk_confirm.runtime.signature import BadArguments
from adk_confirm.runtime.store import lease
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.lease import Lease, LeaseLost
from adk_confirm.runtime.store.sessions import (
    ANYBODY,
    LockedSession,
    OnChange,
    Writer,
    active,
    active_invocations,
    add,
    call_asked_by,
    check_against,
    check_sender,
    create,
    find,
    is_free,
    lock,
    read_call,
    read_invocation,
    read_turn,
    run_of,
    set_aside,
    take_over_session,
)
from adk_confirm.runtime.store.stored_session import (
    Invocation,
    InvocationStatus,
    SessionChange,
    StoredSession,
    split_temporary,
)
from adk_confirm.runtime.tool import Tool, bind
from adk_confirm.runtime.wire import (
    REQUEST_CONFIRMATION,
    REQUEST_INPUT,
    USER,
    Content,
    Event,
    EventActions,
    Part,
    SessionId,
    new_invocation_id,
)


@dataclass(frozen=True)
class CallDecision:
    """What should happen to a call, checked against its tool. It is stored only if the call has not changed since."""

    call_id: str
    event: CallEvent
    answer: Answer | None = None
    part: Part | None = None
    attempt: int | None = None  # the attempt that people decided about


def decide(answer: Answer, call: Call, tool: Tool | None, part: Part, *, final: bool = False) -> CallDecision | None:
    """What an answer means for its call. None if it was given before. Raises if it does not fit.

    `final`: people have decided exactly this, and nobody can correct it: an edit that does not fit refuses the call.
    """
    if already_answered(call, answer.id, answer.confirmed, answer.payload):
        return None
    if not answer.confirmed:
        return CallDecision(call.id, Deny(_reason(answer, call, part)), answer, part)
    if call.asks_input and call.request is not None:
        check_answer(answer.payload, call.request.payload_schema, answer.id)
    try:
        amended = _amended_arguments(call, answer, tool, exact=final) if call.gate is GateKind.STATIC else None
    except Invalid as error:
        if not final:
            raise
        return CallDecision(call.id, Refuse(f"{error} Nothing ran."), answer, part)
    return CallDecision(call.id, Approve(answer.payload, amended, answer.reason, answer.preview), answer, part)


def _reason(answer: Answer, call: Call, part: Part) -> str | None:
    """The reason of a denial. ADK's web page sends the call's own arguments with a denial; a `reason` among those does
    not count."""
    said = part.function_response.response if part.function_response else None
    return None if said and alike(said.get("payload"), call.given_args) else answer.reason


def one_per_call(decisions: Sequence[CallDecision]) -> tuple[CallDecision, ...]:
    """Reduces decisions to one for each call. A call may be answered twice, by the request's id and by its own id. The
    two answers must agree."""
    first: dict[str, CallDecision] = {}
    for decision in decisions:
        said = first.setdefault(decision.call_id, decision)
        if not _same_event(said.event, decision.event):
            raise Invalid(f"The message answers call {decision.call_id} twice, and differently: send one answer.")
    return tuple(first.values())


def _same_event(one: CallEvent, other: CallEvent) -> bool:
    match one, other:
        case Approve(), Approve():
            return same([one.payload, one.amended], [other.payload, other.amended])
        case _:
            return one == other


def _amended_arguments(call: Call, answer: Answer, tool: Tool | None, *, exact: bool) -> JsonObject | None:
    """The call's arguments with the payload's changes, as the tool gets them. None if there are no changes.

    `exact`: 1 instead of 1.0 is a change. Other clients may write 1.0 as 1 without meaning a change.
    """
    if answer.payload is None:
        return None
    if not isinstance(answer.payload, dict):
        raise Invalid(f"payload must be an object with arguments of {call.tool}; the request still waits.")
    args = {**call.args, **answer.payload}
    equal = same if exact else alike
    changed = {
        name for name, value in answer.payload.items() if name not in call.args or not equal(call.args[name], value)
    }
    if not changed:
        return None
    if tool is None:
        return args
    try:
        bound = bind(tool, args, strict=True)
    except BadArguments as error:
        # What the person wrote must have the right type. The other arguments may still be converted.
        edited = {field: why for field, why in error.fields.items() if field.split(".")[0] in changed}
        if edited:
            raise BadArguments(call.tool, edited) from error
        bound = bind(tool, args)
    if exact and not same(bound.args, args):
        other = [name for name, value in bound.args.items() if not same(args.get(name), value)]
        raise BadArguments(call.tool, {name: f"would run as {canonical(bound.args[name])}" for name in other})
    return bound.args


@dataclass(frozen=True)
class AcceptedMessage:
    """A message that fits, with its session leased."""

    before: StoredSession  # the session before this message, to compare with the cached copy
    stored: StoredSession
    change: SessionChange  # what the message adds. If it is not stored yet, the run stores it with its first step
    token: str
    work: tuple[tuple[Invocation, tuple[Call, ...]], ...]  # in the order in which it is done
    temporary: JsonObject
    speaking: str | None = None  # the invocation that a person's message began, if it has not ended

    @property
    def is_written(self) -> bool:
        return self.stored is not self.before or not self.change.any

    @property
    def altered(self) -> list[Call]:
        """The calls that somebody changed in the database: none of them runs."""
        calls = [*(call for _, turn in self.work for call in turn), *self.change.calls.values()]
        return [*{call.id: call for call in calls if _is_void(call)}.values()]


async def _is_sure() -> None: ...


class RunControl(NamedTuple):
    """How a message's sender controls the run. `stop` is set when somebody stops the run. `held`: the sender's lease on
    the session, under which the run works. `sure` is awaited right before anything is sent to another server, and
    raises an error if nothing may be sent."""

    stop: asyncio.Event | None = None
    held: Lease | None = None
    sure: Callable[[], Awaitable[None]] = _is_sure


FREE = RunControl()
"""For a run that nobody stops, and that leases its session itself."""


@dataclass(frozen=True)
class Arrival:
    """Everything that the transaction needs to accept a message."""

    name: SessionId
    root: str
    term: float
    incoming: IncomingMessage | None = None
    decisions: tuple[CallDecision, ...] = ()
    create: bool = False
    sender: Writer = ANYBODY
    resumed: str | None = None  # the invocation to continue without a message
    begins: bool = True  # if not, the run only finds out what became of calls whose process died
    state_delta: JsonObject | None = None
    metadata: JsonObject | None = None  # the sender's metadata, kept with every event of the run
    control: RunControl = FREE
    invocation_id: str = field(default_factory=new_invocation_id)
    marked: bool = False  # if this invocation id is known, the message was sent before
    clock: Callable[[], float] = time.time
    on_change: OnChange | None = None

    @property
    def writes(self) -> JsonObject:
        """The state that the message sets."""
        return (self.incoming.state_delta if self.incoming else self.state_delta) or {}

    @property
    def speaks(self) -> bool:
        """Whether it is a person's message and not answers."""
        return self.incoming is not None and not self.incoming.answers

    @property
    def answers(self) -> bool:
        return self.incoming is not None and bool(self.incoming.answers)


def invocation_of(name: SessionId, mark: str) -> str:
    """The invocation that a message with this mark begins: a repeated message has the same one."""
    return f"e-{uuid.uuid5(_MARKS, f'{name}{mark}')}"


_MARKS = uuid.UUID("b0f7c5d2-6c39-4f3e-9a55-6f3f2b1d7e10")


def find_answered_calls(
    tx: Tx, name: SessionId, incoming: IncomingMessage, sender: Writer
) -> list[tuple[Answer, Call]] | None:
    """The calls that a message answers. Raises an error for the sender if an answer does not fit. Returns None if the
    session does not exist yet."""
    stored = find(tx, name)
    if stored is None:
        return None
    check_sender(tx, sender, name, stored)
    return _match_answers(tx, stored, incoming)


def _match_answers(tx: Tx, stored: StoredSession, incoming: IncomingMessage) -> list[tuple[Answer, Call]]:
    for foreign in incoming.foreign:
        if (call := call_asked_by(tx, stored.key, foreign)) is not None:
            raise Invalid(
                f"A client cannot give the result of {call.tool} itself: an answer about call {call.id} is named "
                "adk_request_confirmation. Nothing was stored."
            )
    found = []
    for answer in incoming.answers:
        call = call_asked_by(tx, stored.key, answer.id)
        if call is None or call.request is None:
            raise NotFound(f"No request {answer.id} waits in this session: nothing was stored.")
        _check_name(answer, call)
        found.append((answer, call))
    return found


def _check_name(answer: Answer, call: Call) -> None:
    """An answer to a question does not approve a call, and an approval does not answer a question."""
    earlier = any(asked.request_id == answer.id for asked in call.asked[:-1])
    if not earlier and answer.question is not call.asks_input:
        right = REQUEST_INPUT if call.asks_input else REQUEST_CONFIRMATION
        raise Invalid(f"The request {answer.id} is answered under the name {right}: nothing was stored.")


def enter(tx: Tx, arrival: Arrival) -> AcceptedMessage | Literal["nothing to do"] | None:
    """Stores the message and leases its session, unless the sender holds the lease. None while somebody else works on
    the session.

    The result's `work` includes what a dead process left unfinished.
    """
    locked = _lock_session(tx, arrival)
    session, held = locked.session, arrival.control.held
    check_against(locked.reserved, arrival.sender, arrival.name, session, arrival.writes)
    decided = _decide(tx, arrival, session)
    if decided is None:
        return "nothing to do"
    if held is not None and not lease.holds(tx, held.job, held.token):
        raise LeaseLost
    token = held.token if held is not None else lease.claim(tx, run_of(session), term=arrival.term)
    if token is None:
        return None
    accepted = _accept(tx, *decided, session, token)
    if not accepted.change.any:
        return accepted
    return replace(accepted, stored=add(tx, session, accepted.change, arrival.on_change))


def look_in(tx: Tx, arrival: Arrival) -> AcceptedMessage | Literal["nothing to do"] | None:
    """Like `enter`, for a sender that holds the session's lease and keeps the message until the run has ended: nothing
    is stored yet. None if the session must be created first."""
    session = find(tx, arrival.name)
    if arrival.create and (session is None or session.opened_by != arrival.sender.opens):
        return None
    if session is None:
        raise NotFound(f"Session not found: {arrival.name.id}")
    check_sender(tx, arrival.sender, arrival.name, session, arrival.writes)
    assert arrival.control.held is not None
    decided = _decide(tx, arrival, session)
    return "nothing to do" if decided is None else _accept(tx, *decided, session, arrival.control.held.token)


def look_in_or_enter(tx: Tx, arrival: Arrival) -> AcceptedMessage | Literal["nothing to do"] | None:
    """Like `look_in`, and makes the session if it has to be made."""
    return look_in(tx, arrival) or enter(tx, arrival)


def _accept(tx: Tx, arrival: Arrival, known: Mapping[str, Call], session: StoredSession, token: str) -> AcceptedMessage:
    """What the message adds to the session, and the work that is to be done then."""
    change = SessionChange()
    temporary = _admit(tx, arrival, session, change, known)
    owed = {one.id: one for one in (*active_invocations(tx, session.key), *change.invocations.values())}
    speaking = arrival.invocation_id if arrival.speaks and arrival.invocation_id in owed else None
    # The newest message is answered last, together with what came before.
    order = sorted(owed.values(), key=lambda one: (one.id == speaking, one.turn))
    work = [(one, tuple(_turn(tx, session, one, change)) if one.turn else ()) for one in order]
    return AcceptedMessage(session, session, change, token, tuple(work), temporary, speaking)


def _turn(tx: Tx, session: StoredSession, invocation: Invocation, change: SessionChange) -> list[Call]:
    return [change.calls.get(call.id, call) for call in read_turn(tx, session.key, invocation.turn)]


def _decide(tx: Tx, arrival: Arrival, session: StoredSession) -> tuple[Arrival, dict[str, Call]] | None:
    """The arrival, now with what its answers decide, and the calls that were asked about. None if all answers were
    given before, and no work is left."""
    if not arrival.answers or arrival.decisions:
        return arrival, {}
    assert arrival.incoming is not None
    found = _match_answers(tx, session, arrival.incoming)
    content = arrival.incoming.content_of
    decided = [decide(answer, call, None, content(answer), final=arrival.sender.desk) for answer, call in found]
    decisions = one_per_call([decision for decision in decided if decision])
    if not decisions and not active(tx, arrival.name, [call.invocation_id for _, call in found]):
        return None
    if not decisions:
        arrival = replace(arrival, incoming=None, metadata=None)
    return replace(arrival, decisions=decisions), {call.id: call for _, call in found}


def _lock_session(tx: Tx, arrival: Arrival) -> LockedSession:
    """The locked session, created if necessary. If somebody else made a session of this name, the desk takes it over
    only if it is empty. Otherwise the old session is renamed and a new one is created, because nothing in the old one
    was said at the desk."""
    locked = lock(tx, arrival.name)
    if locked is None and arrival.create:
        create(tx, arrival.name, arrival.root, {}, arrival.sender.opens)
        locked = lock(tx, arrival.name)
    if locked is None:
        raise NotFound(f"Session not found: {arrival.name.id}")
    session = locked.session
    theirs = arrival.create and arrival.sender.desk and session.opened_by != "desk"
    if not theirs or not is_free(tx, session):
        return locked
    if not (session.events or session.state):
        take_over_session(tx, session)
        return locked
    set_aside(tx, session)
    create(tx, arrival.name, arrival.root, {}, arrival.sender.opens)
    renewed = lock(tx, arrival.name)
    assert renewed is not None
    return renewed


def _admit(
    tx: Tx, arrival: Arrival, session: StoredSession, change: SessionChange, known: Mapping[str, Call]
) -> JsonObject:
    """Adds the message to the change. Returns the state that is only for this run."""
    decided = [d for d in arrival.decisions if _apply(tx, session, change, d, known)]
    if arrival.incoming is not None and arrival.speaks:
        if arrival.marked and read_invocation(tx, session.key, arrival.invocation_id) is not None:
            return {}
        change.put(Invocation(arrival.invocation_id, session.agent, 0, InvocationStatus.ACTIVE))
        content, delta = arrival.incoming.content, arrival.incoming.state_delta
        return (
            _add_message(change, arrival, arrival.invocation_id, content, delta) if content is not None or delta else {}
        )
    if decided:
        return _admit_answers(tx, arrival, session, change, decided)
    if arrival.resumed is None:
        return {}
    if read_invocation(tx, session.key, arrival.resumed) is None:
        raise NotFound(f"No invocation {arrival.resumed} in this session: nothing was stored.")
    return _add_message(change, arrival, arrival.resumed, None, arrival.state_delta) if arrival.state_delta else {}


def _apply(
    tx: Tx,
    session: StoredSession,
    change: SessionChange,
    decision: CallDecision,
    known: Mapping[str, Call],
) -> bool:
    call = known.get(decision.call_id) or read_call(tx, session.key, decision.call_id)
    if call is None:
        raise NotFound(f"No call {decision.call_id} in this session: nothing was stored.")
    answer = decision.answer
    if answer is not None and already_answered(call, answer.id, answer.confirmed, answer.payload):
        return False  # somebody decided the same first
    if decision.attempt is not None and decision.attempt != call.attempt:
        raise Conflict(
            f"Call {call.id} is at attempt {call.attempt} now, and this is about attempt {decision.attempt}."
        )
    change.put(replace(_apply_decision(tx, call, decision), told=False))
    return True


def _apply_decision(tx: Tx, call: Call, decision: CallDecision) -> Call:
    """The call after its decision. It is refused if somebody changed it in the database."""
    if _is_void(call) and call.settled:
        return call
    after = step(call, decision.event, tx.now())
    if after.state is not CallState.READY:
        return after
    return step(after, Refuse(ALTERED), tx.now()) if call.reason == ALTERED else after


def _is_void(call: Call) -> bool:
    """Whether somebody changed the call in the database, and the agent does not know yet."""
    return call.reason == ALTERED and not call.told


def _admit_answers(
    tx: Tx, arrival: Arrival, session: StoredSession, change: SessionChange, decided: Sequence[CallDecision]
) -> JsonObject:
    """Adds answers to the invocations that asked, even if another agent has the conversation now."""
    parts: dict[str, list[Part]] = {}
    for decision in decided:
        asking = parts.setdefault(change.calls[decision.call_id].invocation_id, [])
        asking += [decision.part] if decision.part else []
    delta = arrival.incoming.state_delta if arrival.incoming else None
    temporary: JsonObject = {}
    for invocation_id, answers in parts.items():
        if answers:
            temporary.update(_add_message(change, arrival, invocation_id, Content(role="user", parts=answers), delta))
            delta = None
        invocation = read_invocation(tx, session.key, invocation_id)
        assert invocation is not None
        change.put(replace(invocation, status=InvocationStatus.ACTIVE))
    return temporary


def _add_message(
    change: SessionChange, arrival: Arrival, invocation_id: str, content: Content | None, delta: JsonObject | None
) -> JsonObject:
    kept, temporary = split_temporary(delta or {})
    change.add(
        Event(
            invocation_id=invocation_id,
            author=USER,
            content=content,
            actions=EventActions(state_delta=kept),
            custom_metadata=arrival.metadata,
            timestamp=arrival.clock(),
        )
    )
    return temporary
