"""The states of one call: held → ready → running → done, refused or unknown. Pure.

A call without a gate is ready at once. `step` is the only way from one state to the next: an event that the state does
not allow raises `IllegalStep` and changes nothing. The tests prove two facts for any order of events: a held call
begins only after a person approved it, and with exactly the arguments that were approved; an attempt begins only once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, assert_never

from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.errors import Conflict
from adk_confirm.runtime.jsontypes import Json, JsonObject, canonical, same

REJECTED = "tool call was rejected by the user"
EARLIER = "Nobody knows whether an earlier attempt took effect."
NO_ANSWER = "nobody answered"
NOBODY_KNOWS = (
    "The process stopped while this tool ran. Nobody knows whether it took effect: do not simply call it again."
)
INTERRUPTED = "The process stopped while this tool ran; its result is lost."
ALTERED = "The stored call is not the call that was approved: somebody changed the database. Nothing ran."


Word = Literal["it happened", "it did not", "run again", "nobody knows"]
"""What people, or the clock, say about a call whose outcome is unknown."""


class CallState(StrEnum):
    HELD = "held"  # waits for a person
    READY = "ready"  # may begin
    RUNNING = "running"  # the intent is stored: from here on it may have taken effect
    UNKNOWN = "unknown"  # its process died while it ran
    DONE = "done"  # has its result, or its error
    REFUSED = "refused"  # did not run in this attempt, and never will


class GateKind(StrEnum):
    NONE = "none"
    STATIC = "static"  # the tool's declaration asks
    DYNAMIC = "dynamic"  # the tool's body asks
    INPUT = "input"  # the tool's body wants an answer, not an approval


SETTLED = frozenset({CallState.DONE, CallState.REFUSED})
WAITING = frozenset({CallState.HELD, CallState.UNKNOWN})


@dataclass(frozen=True)
class HeldRequest:
    """A request as people saw it, and the answer to it."""

    request_id: str
    hint: str
    payload: Json = None
    payload_schema: JsonObject | None = None
    preview: Preview | None = None
    attempts: int = 0  # made before this request: nobody knows whether the last of them took effect
    confirmed: bool | None = None
    edited_unseen: bool = False  # people edited the call, and saw a preview only of the unedited one
    answer: Json = None  # the answer's payload
    note: str | None = None  # what the approvers said to it

    def same_answer(self, confirmed: bool, payload: Json) -> bool:
        return self.confirmed is confirmed and (not confirmed or same(self.answer, payload))


@dataclass(frozen=True)
class Call:
    id: str
    tool: str
    args: JsonObject  # as the tool gets them: typed, with its defaults. The model's own words are in its event
    agent: str
    invocation_id: str
    turn: int = 0  # the session's turn that it belongs to
    place: int = 0  # its place among the turn's calls
    defaults: tuple[str, ...] = ()  # the arguments that the model did not give
    title: str | None = None  # says what the call will do, as a format string over its arguments
    why: str | None = None  # the model's own reason, for people
    gate: GateKind = GateKind.NONE
    state: CallState = CallState.READY
    asked: tuple[HeldRequest, ...] = ()  # the last one is the current request
    amended: JsonObject | None = None  # the arguments after edits, if there were any
    approved: str | None = None  # digest of what was approved
    attempt: int = 0
    key: str = ""  # by it a tool's service takes all attempts as one operation: made with the call, not guessable
    reason: str | None = None
    result: JsonObject | None = None
    tool_schema: JsonObject | None = None
    since: float = 0.0  # when the state was entered
    begun: float | None = None  # when the tool last began
    told: bool = field(default=False)  # its result is in the session's events
    actions: JsonObject | None = None  # its actions on the session, until its result is in the events

    @property
    def asks_input(self) -> bool:
        """Whether its current request is a question."""
        return self.gate is GateKind.INPUT

    @property
    def request(self) -> HeldRequest | None:
        return self.asked[-1] if self.asked else None

    @property
    def changed_preview(self) -> Preview | None:
        """The preview that people had approved, if the current request asks because it has changed."""
        before = self.asked[-2].preview if len(self.asked) > 1 and self.asked[-2].confirmed else None
        now = self.asked[-1].preview if before is not None else None
        return before if now is not None and not now.same(before) else None

    def has_asked(self, request_id: str) -> bool:
        return any(asked.request_id == request_id for asked in self.asked)

    @property
    def run_args(self) -> JsonObject:
        return self.args if self.amended is None else self.amended

    @property
    def run_defaults(self) -> JsonObject:
        """The arguments that nobody chose: the model did not give them, and people left them as they were."""
        return {name: self.args[name] for name in self.defaults if same(self.run_args.get(name), self.args[name])}

    @property
    def given_args(self) -> JsonObject:
        """The arguments that somebody chose."""
        left = self.run_defaults
        return {name: value for name, value in self.run_args.items() if name not in left}

    @property
    def settled(self) -> bool:
        return self.state in SETTLED


@dataclass(frozen=True)
class Hold:
    """The gate holds the call: before it began, also once more if its preview has changed since the approval, or, for a
    dynamic gate, from inside the tool's body."""

    asked: HeldRequest
    gate: GateKind
    result: JsonObject | None = None  # what the tool's body returned while asking


@dataclass(frozen=True)
class Approve:
    payload: Json = None
    amended: JsonObject | None = None
    note: str | None = None
    preview: Preview | None = None  # the edited call's preview, as people saw it


@dataclass(frozen=True)
class Deny:
    reason: str | None = None


@dataclass(frozen=True)
class Begin:
    """The intent to run, stored immediately before the tool runs."""


@dataclass(frozen=True)
class Finish:
    result: JsonObject


@dataclass(frozen=True)
class Refuse:
    """The call can't run any more: the tool is gone, or the arguments no longer fit."""

    why: str


@dataclass(frozen=True)
class Lose:
    """The call's process died while the call ran."""


@dataclass(frozen=True)
class Retry:
    """The tool says that it can safely run once more (`idempotent=`), or that nothing happened (`verify=`)."""


@dataclass(frozen=True)
class RunAgain:
    """People decided that the call should run again: attempt n + 1."""


CallEvent = Hold | Approve | Deny | Begin | Finish | Refuse | Lose | Retry | RunAgain


class IllegalStep(Conflict):
    """The call's state does not allow this event. Nothing was changed."""

    def __init__(self, call: Call, event: CallEvent) -> None:
        super().__init__(f"Call {call.id} is {call.state}: {type(event).__name__.lower()} is not possible.")
        self.call, self.event = call, event


def call_digest(tool: str, args: JsonObject, preview: Preview | None = None) -> str:
    """A digest that binds what was shown to what runs."""
    shown: list[Json] = [tool, args] if preview is None else [tool, args, preview.shows, preview.failed]
    return hashlib.sha256(canonical(shown).encode("utf-8", "surrogatepass")).hexdigest()


def step(call: Call, event: CallEvent, now: float) -> Call:
    """The call after the event. Raises `IllegalStep`."""
    after = _step(call, event)
    if after is None:
        raise IllegalStep(call, event)
    return replace(after, since=now, begun=now if after.state is CallState.RUNNING else after.begun)


def _step(call: Call, event: CallEvent) -> Call | None:
    state = call.state
    match event:
        case Hold() if state is CallState.RUNNING or (state is CallState.READY and _may_ask_first(call)):
            return _hold(call, event)
        case Approve() if state is CallState.HELD:
            return _approve(call, event)
        case Deny() if state is CallState.HELD:
            return _deny(call, event)
        case Begin() if state is CallState.READY and _may_begin(call):
            return replace(call, state=CallState.RUNNING, attempt=call.attempt + 1, result=None)
        case Finish() if state in (CallState.RUNNING, CallState.UNKNOWN):
            return replace(call, state=CallState.DONE, result=event.result)
        case Refuse() if state in (CallState.READY, CallState.HELD):
            return replace(call, state=CallState.REFUSED, reason=event.why, result=_error(call, event.why))
        case Lose() if state is CallState.RUNNING:
            return replace(call, state=CallState.UNKNOWN)
        case Retry() if state is CallState.RUNNING:
            return replace(call, state=CallState.READY, attempt=call.attempt - 1)
        case RunAgain() if state is CallState.UNKNOWN:
            return replace(call, state=CallState.READY)
        case Hold() | Approve() | Deny() | Begin() | Finish() | Refuse() | Lose() | Retry() | RunAgain():
            return None
    assert_never(event)


def _hold(call: Call, event: Hold) -> Call:
    # A run of the body that only asked does not count as an attempt.
    attempts = call.attempt - 1 if call.state is CallState.RUNNING else call.attempt
    hint = event.asked.hint
    if attempts and not hint.startswith(EARLIER):
        hint = f"{EARLIER} {hint}".strip()
    return replace(
        call,
        state=CallState.HELD,
        gate=event.gate,
        asked=(*call.asked, replace(event.asked, attempts=attempts, hint=hint)),
        result=event.result,
        approved=None,
        attempt=attempts,
    )


def _approve(call: Call, event: Approve) -> Call:
    amended = replace(call, amended=event.amended if event.amended is not None else call.amended)
    preview = event.preview or call.asked[-1].preview
    unseen = event.amended is not None and event.preview is None
    answered = _with_answer(call, True, event.payload, event.note)
    return replace(
        amended,
        state=CallState.READY,
        asked=(*answered[:-1], replace(answered[-1], preview=preview, edited_unseen=unseen)),
        approved=call_digest(call.tool, amended.run_args, preview),
    )


def _deny(call: Call, event: Deny) -> Call:
    result = _error(call, REJECTED)
    if call.asks_input:
        result = _error(call, event.reason or NO_ANSWER)
    elif event.reason is not None:
        result["reason"] = event.reason
    return replace(
        call, state=CallState.REFUSED, asked=_with_answer(call, False, None), reason=event.reason, result=result
    )


def _error(call: Call, why: str) -> JsonObject:
    """The error: why the call did not run. If people had it run again, also that its first effect is unknown."""
    return {"error": f"{why.rstrip('.')}. {EARLIER}" if call.attempt else why}


def _may_begin(call: Call) -> bool:
    if call.gate is GateKind.NONE:
        return True
    return call.approved == call_digest(call.tool, call.run_args, call.asked[-1].preview)


def _may_ask_first(call: Call) -> bool:
    """A call that has begun asks before its next attempt only because of its preview."""
    return call.attempt == 0 or (call.request is not None and call.request.preview is not None)


def _with_answer(call: Call, confirmed: bool, payload: Json, note: str | None = None) -> tuple[HeldRequest, ...]:
    return (*call.asked[:-1], replace(call.asked[-1], confirmed=confirmed, answer=payload, note=note))


def refuse_to_start(call: Call, why: str, now: float) -> Call:
    """The state of a call that was about to begin and may not: refused, or unknown again if people had it run again."""
    if call.attempt > (call.request.attempts if call.request is not None else 0) + 1:
        return replace(call, state=CallState.UNKNOWN, attempt=call.attempt - 1, since=now)
    ready = replace(call, state=CallState.READY, attempt=call.attempt - 1)
    return replace(step(ready, Refuse(why), now), told=False)


def void(call: Call) -> Call:
    """What is left of a call that somebody changed in the database: a name, and an end. Nothing of it runs.

    A call that had begun may have taken effect, with whatever arguments. If people can be asked, it is unknown.
    """
    begun = call.state in (CallState.RUNNING, CallState.UNKNOWN)
    lost = begun or call.state is CallState.DONE
    left = Call(
        id=call.id,
        tool=call.tool,
        args={},
        agent=call.agent,
        invocation_id=call.invocation_id,
        turn=call.turn,
        place=call.place,
        gate=call.gate,
        state=CallState.DONE if lost else CallState.REFUSED,
        asked=call.asked,
        attempt=call.attempt,
        reason=ALTERED,
        result={"error": INTERRUPTED if lost else ALTERED},
        since=call.since,
        begun=call.begun,
        told=call.told and call.settled,
    )
    return replace(left, state=CallState.UNKNOWN, result=None) if begun and call.request is not None else left


def already_answered(call: Call, request_id: str, confirmed: bool, payload: Json) -> bool:
    """Whether the same answer was given before. Raises `Conflict` if a different one was.

    An answer may name the call's own id, which means its first request. Once the call has asked again, such an answer
    may repeat the one to that first request.
    """
    asked = next((a for a in reversed(call.asked) if request_id == a.request_id), (*call.asked, None)[0])
    if asked is None or asked.confirmed is None:
        return False
    if asked.same_answer(confirmed, payload):
        return True
    before, now = ("approved" if verdict else "denied" for verdict in (asked.confirmed, confirmed))
    if before == now:
        raise Conflict(f"Request {request_id} was already approved with another payload; the first answer stands.")
    raise Conflict(f"Request {request_id} was already {before}; it cannot be {now} any more. The first answer stands.")


def default_hint(tool: str) -> str:
    return f"Approve execution of tool {tool}?"
