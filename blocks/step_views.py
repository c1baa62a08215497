"""View models of ledger lines, as a thread and a history show them, and of the answer to a vote. Pure data.

`tool`, `reason`, `text`, `changes` and `arguments` come from others and are never trusted, as in `view`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from blocks.ledger_kinds import LineKind, Reason
from bot.confirmation.shown import Argument, FieldDiff, Stage
from bot.policy.approvers import Approver


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """A ledger line, as a thread and a history show it. `reason` and `text` come from others.

    `asker`, `editor`, `several`, `headline`, `notified` and `carded` are for the thread only. At the end of a call,
    `people` are those who approved it.
    """

    seq: int
    kind: LineKind
    at: int
    tool: str = ""
    who: str | None = None
    people: tuple[str, ...] = ()
    approvers: tuple[Approver, ...] = ()
    revision: int = 1
    attempt: int = 1
    votes: int | None = None
    quorum: int = 1
    reason: str | None = None
    why: Reason | None = None
    changes: tuple[FieldDiff, ...] = ()
    arguments: tuple[Argument, ...] = ()
    text: str | None = None
    seconds: float | None = None
    until: int | None = None
    channel: str | None = None
    grant: str | None = None
    on: tuple[Argument, ...] = ()
    """GRANTED: in which arguments calls have to be like this one."""
    operation: bool = False
    """A long-running operation that has begun."""
    question: bool = False
    """The agent wants an answer, not an approval."""
    yes: bool | None = None
    """SETTLED: whether it happened; ELSEWHERE: whether it was approved."""
    asker: str | None = None
    """Who is notified that the call has ended."""
    editor: str | None = None
    """Whose edit is what was decided on."""
    several: bool = False
    """The thread has other calls as well, so that a line has to name its own."""
    headline: str = ""
    """What the call would do, as its card says it, where people are asked again to decide."""
    notified: tuple[Approver, ...] = ()
    """REMINDED: who is notified in place of the approvers."""
    answer: tuple[Argument, ...] = ()
    """What an approver filled in, where the agent asked for it; `call` is what it was asked for."""
    call: tuple[Argument, ...] = ()
    carded: bool = False
    """The card is in the same thread, so the line does not repeat what it shows."""


class Counted(StrEnum):
    """What a person's vote led to."""

    APPROVED = "approved"
    EDITED = "edited"
    DENIED = "denied"
    WITHDRAWN = "withdrawn"
    SETTLED = "settled"
    RUN_AGAIN = "run again"
    REVOKED = "revoked"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictView:
    """The answer to one click or one submitted form. `decided`: this vote was the last one needed."""

    counted: Counted
    tool: str
    what: str = ""
    """What the call does, in one sentence."""
    votes: int = 0
    quorum: int = 1
    decided: bool = False
    revision: int = 1
    why: Reason | None = None
    stage: Stage | None = None
    """TOO_LATE: the state that the confirmation has now."""
    fields: tuple[str, ...] = ()
    unresolved: str | None = None
    """CANNOT_ASK: which entry of the policy Slack could not be asked about."""
    question: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    id: str
    revision: int
    version: int
    what: str
    """What the call does, in one sentence."""
    steps: tuple[StepView, ...]
