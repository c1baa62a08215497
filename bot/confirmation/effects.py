"""What follows from a change: lines for ledger and thread, and the message to the session. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import PlainSerializer

from adk_confirm.blocks.shown import Verdict as Verdict
from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.audit.verification import Emptied
from adk_confirm.bot.confirmation.authorise import Refusal
from adk_confirm.bot.confirmation.stored_json import ExactJson, ExactObject, keep
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.policy.redaction import MaskedObject, MaskedText
from adk_confirm.runtime.calls.call import Word

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
