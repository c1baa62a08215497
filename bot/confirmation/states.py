"""The states of a confirmation, which may follow which, and what follows from a change: lines for ledger and
thread, and the message to the session. Pure.

There are two tables: one for the decision, one for the outcome that is copied from the host. Only `change_decision` and
`change_outcome` apply them. What is not in the table raises `Illegal` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import PlainSerializer

from adk_confirm.blocks.shown import SAID_BY_PEOPLE
from adk_confirm.blocks.shown import Verdict as Verdict
from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.audit.verification import Emptied
from adk_confirm.bot.confirmation.authorise import Refusal
from adk_confirm.bot.confirmation.confirmation import Confirmation, Decision, Outcome, OutcomeKind, State
from adk_confirm.bot.confirmation.stored_json import ExactJson, ExactObject, keep
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.policy.redaction import MaskedObject, MaskedText
from adk_confirm.runtime.calls.call import Word
from adk_confirm.runtime.errors import Conflict

_Masked = Annotated[MaskedObject, PlainSerializer(keep)]


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something that happened: one line in the ledger and one in the thread. Its types take only what is masked."""

    kind: LineKind
    at: datetime
    who: Person | None = None
    revision: int = 1
    attempt: int = 1
    votes: int | None = None
    quorum: int | None = None
    reason: MaskedText | None = None
    refusal: Refusal | None = None
    before: _Masked | None = None  # EDITED: the old values of changed arguments; an added one had none
    after: _Masked | None = None
    arguments: _Masked | None = None
    hidden: int = 0
    preview: MaskedText | None = None  # the digest of what the call would do, as people may see it
    text: MaskedText | StrEnum | None = None
    seconds: float | None = None  # how long it ran; APPROVAL: how long its voter could see it, at most
    until: datetime | None = None
    people: tuple[Person, ...] = ()
    entries: tuple[str, ...] = ()
    way: str | None = None
    yes: bool | None = None  # SETTLED: it took effect; ELSEWHERE: it was approved
    grant: str | None = None
    emptied: Emptied = ()  # PURGED: the lines that lost their content


class UnsealedPart(StrEnum):
    """What was void: somebody wrote it into the database, or changed it there."""

    CALL = "call"
    ROW = "row"
    WORDS = "words"
    LETTER = "letter"
    SESSION = "session"


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What goes into the session's mailbox: the answer to a request, or what people say about an unknown outcome.

    `arguments` are those of the whole call that may run. `payload` is what is sent with an approval. For a call without
    a payload of its own, it holds only the edited arguments.
    """

    word: Word | Literal["approved", "denied"]
    payload: ExactJson = None
    preview: ExactObject | None = None  # the edited call's preview, as people saw it
    reason: str | None = None
    arguments: ExactObject
    revision: int
    attempt: int = 1
    trace: str | None = None

    @property
    def approves(self) -> bool:
        return self.word in ("approved", "run again")

    @property
    def answers(self) -> bool:
        return self.word in ("approved", "denied")

    @property
    def lost_attempt(self) -> int:
        """The attempt whose outcome is unknown."""
        return self.attempt - 1 if self.approves else self.attempt


DECISIONS: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        State.WAITING: frozenset({State.APPROVED, State.DENIED, State.EXPIRED, State.WITHDRAWN, State.ELSEWHERE}),
        State.APPROVED: frozenset({State.LAPSED}),
        State.DENIED: frozenset(),
        State.EXPIRED: frozenset(),
        State.WITHDRAWN: frozenset(),
        State.ELSEWHERE: frozenset(),
        State.LAPSED: frozenset(),
    }
)

SEEN_BY_HOSTS = frozenset(
    {OutcomeKind.RUNNING, OutcomeKind.DONE, OutcomeKind.FAILED, OutcomeKind.REFUSED, OutcomeKind.UNKNOWN}
)
_END: frozenset[OutcomeKind] = frozenset()

OUTCOMES: Mapping[OutcomeKind | None, frozenset[OutcomeKind]] = MappingProxyType(
    {
        None: SEEN_BY_HOSTS,
        OutcomeKind.RUNNING: SEEN_BY_HOSTS,  # RUNNING again if the call waits, as for a sign-in
        OutcomeKind.UNKNOWN: SAID_BY_PEOPLE | {OutcomeKind.DONE, OutcomeKind.FAILED},
        OutcomeKind.DONE: _END,
        OutcomeKind.FAILED: _END,
        OutcomeKind.REFUSED: _END,
        OutcomeKind.HAPPENED: _END,
        OutcomeKind.DID_NOT: _END,
        OutcomeKind.NOBODY_KNOWS: _END,
    }
)
"""Beside these, `begin_next_attempt` takes an approved call's outcome from unknown back to none: attempt n + 1."""


class Illegal(Conflict):
    """The confirmation's state does not allow this. Nothing was changed."""

    def __init__(self, row: Confirmation, what: str, why: str = "") -> None:
        outcome = f" ({row.outcome.kind})" if row.outcome else ""
        super().__init__(f'Confirmation {row.id} is {row.state}{outcome}: "{what}" is not possible{why}.')


@dataclass(frozen=True, kw_only=True)
class Transition:
    """The row after an event, and what must be written, posted and delivered because of it."""

    row: Confirmation
    steps: tuple[Step, ...] = ()
    delivery: Delivery | None = None

    def then(self, later: Transition) -> Transition:
        """This change, and then `later`, which began from its row. Only one of the two may deliver something."""
        delivery = later.delivery or self.delivery
        return replace(later, steps=(*self.steps, *later.steps), delivery=delivery)

    def after(self, *before: Step) -> Transition:
        """The same change with its steps placed after others that led to it."""
        return replace(self, steps=(*before, *self.steps))


def next_version(row: Confirmation, now: datetime, *, visible: bool = True) -> Confirmation:
    """Makes a new version of the row. `visible`: people see the difference, so its cards have to be drawn."""
    version = row.version + 1
    if not visible:
        return replace(row, version=version)
    return replace(row, version=version, face=version, changed_at=now)


def change_decision(
    row: Confirmation, state: State, now: datetime, by: Person | None = None, reason: str | None = None
) -> Confirmation:
    """Sets the decision. No other function does."""
    if state not in DECISIONS[row.state]:
        raise Illegal(row, state)
    decision = Decision(state=state, at=now, revision=row.revision.number, by=by, reason=reason)
    return next_version(replace(row, state=state, decision=decision, remind_at=None), now)


def change_outcome(row: Confirmation, outcome: Outcome, now: datetime) -> Confirmation:
    """Changes the outcome of a call that was approved here or answered elsewhere. No other function does."""
    before = row.outcome.kind if row.outcome else None
    if row.state not in (State.APPROVED, State.ELSEWHERE) or outcome.kind not in OUTCOMES[before]:
        raise Illegal(row, outcome.kind)
    return next_version(replace(row, outcome=outcome, unknown_until=None, unreached=False), now)


def begin_next_attempt(row: Confirmation, now: datetime, by: Person) -> Confirmation:
    """Goes from unknown back to approved and not begun, for the next attempt."""
    if row.state is not State.APPROVED or not row.unknown:
        raise Illegal(row, "run again")
    decision = Decision(state=State.APPROVED, at=now, revision=row.revision.number, by=by)
    start_by = now + row.policy.start_within
    fresh = replace(
        row, outcome=None, attempt=row.attempt + 1, decision=decision, start_by=start_by, unknown_until=None
    )
    return next_version(fresh, now)
