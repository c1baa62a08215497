"""The effects of a change: lines for ledger and thread, and the message to the session. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import PlainSerializer

from bot.audit.ledger import LineKind
from bot.audit.purges import Emptied
from bot.confirmation.authorise import Refusal
from bot.confirmation.exact_json import ExactJson, ExactObject, keep
from bot.confirmation.model import OutcomeKind, VoteKind
from bot.policy.approvers import Person
from bot.policy.redaction import MaskedObject, MaskedText


@dataclass(frozen=True)
class FieldChange:
    """One row of a diff. `before` is absent for an argument that the call did not have."""

    name: str
    before: ExactJson
    after: ExactJson
    added: bool = False


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
    before: _Masked | None = None  # EDITED: the old values of what was changed, without those that were added
    after: _Masked | None = None
    arguments: _Masked | None = None
    hidden: int = 0
    text: MaskedText | StrEnum | None = None
    seconds: float | None = None
    until: datetime | None = None
    people: tuple[Person, ...] = ()
    entries: tuple[str, ...] = ()
    way: str | None = None
    yes: bool | None = None  # SETTLED: it took effect; ELSEWHERE: it was approved
    grant: str | None = None
    emptied: Emptied = ()  # PURGED: the lines that lost their content


@dataclass(frozen=True, kw_only=True)
class AnswerDelivery:
    """The answer to a request. `arguments` are those of the whole call that may run.

    `payload` is what is sent. For a call without a payload of its own, it holds only the edited arguments.
    """

    confirmed: bool
    payload: ExactJson = None
    reason: str | None = None
    arguments: ExactObject
    revision: int
    attempt: int = 1
    trace: str | None = None


class UnsealedPart(StrEnum):
    """What was void: somebody wrote it into the database, or changed it there."""

    CALL = "call"
    ROW = "row"
    WORDS = "words"
    LETTER = "letter"
    SESSION = "session"


Settled = Literal[OutcomeKind.HAPPENED, OutcomeKind.DID_NOT, OutcomeKind.NOBODY_KNOWS]
"""What people, or the clock, say about a call whose outcome is unknown."""

Settlement = Settled | Literal[VoteKind.RUN_AGAIN]
""""It happened", "it did not", "nobody knows", or "run it again"."""


@dataclass(frozen=True, kw_only=True)
class SettlementDelivery:
    """What the session gets about an unknown outcome."""

    word: Settlement
    attempt: int
    arguments: ExactObject
    payload: ExactJson = None
    by: Person | None = None
    reason: str | None = None
    trace: str | None = None


Delivery = AnswerDelivery | SettlementDelivery
"""What goes into the session's mailbox."""
