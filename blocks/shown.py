"""`Shown`: a confirmation as people may see it, without what its policy hides. Plain data, in parts.

All that this package draws is defined here, and filled in `bot/confirmation/shown.py`, which masks it. So what draws
never sees a row, and can't show what the policy hides.

Some strings come from an agent or a tool, and may be hostile: `tool`, `agent`, `hint`, `Argument.name` and `.value`,
`FieldDiff`, `result`, `error`, `reason`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Literal

from adk_confirm.blocks import words
from adk_confirm.blocks.click_ids import Ref
from adk_confirm.blocks.ledger_kinds import LineKind, Reason
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.jsontypes import Json

Formats = tuple[tuple[str, str], ...]
PAYLOAD = "answer"
"""The name of the one field of a payload that is not an object, as people read it and as `redact` names it."""


class State(StrEnum):
    """The result of the votes so far."""

    WAITING = "waiting"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    ELSEWHERE = "elsewhere"  # somebody answered the session by another way
    LAPSED = "lapsed"  # approved, but it did not start in time


class OutcomeKind(StrEnum):
    """What happened to the call, as the host reported it. After `unknown`, people say."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    HAPPENED = "it happened"
    DID_NOT = "it did not"
    NOBODY_KNOWS = "nobody knows"


SAID_BY_PEOPLE = frozenset({OutcomeKind.HAPPENED, OutcomeKind.DID_NOT, OutcomeKind.NOBODY_KNOWS})
Stage = State | OutcomeKind
"""What a card says became of a call: its outcome if there is one, otherwise the decision."""


class ApproverKind(StrEnum):
    GROUP = "group"
    USER = "user"
    EMAIL = "email"
    PYTHON = "python"


@dataclass(frozen=True, order=True)
class Approver:
    """One entry of `approvers`, `escalate_to` or `barred`. The people behind it are looked up when a vote is
    counted."""

    kind: ApproverKind
    value: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}"


@dataclass(frozen=True)
class Unresolved:
    """Slack or a `python:` function was asked, and gave no usable answer.

    `after`: seconds until Slack can be asked again, since Slack limits questions per minute. A caller that can wait
    tries again then; other callers treat it as a missing answer.
    """

    what: str
    why: str
    after: float | None = None


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a vote is not counted, and the values for the sentence about it."""

    reason: Reason
    state: str | None = None  # TOO_LATE: the state now
    fields: tuple[str, ...] = ()  # NOT_EDITABLE, WRONG_KIND, OTHER_POLICY, REPEATS_HIDDEN: which one
    unresolved: Unresolved | None = None  # CANNOT_ASK


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a vote led to, for the person who gave it. `decided`: it was the last one needed."""

    confirmation: str
    kind: LineKind = LineKind.VOTE_REFUSED
    """The line that it made. A vote that changed nothing, such as a second click, is answered like the first."""
    refusal: Refusal | None = None
    votes: int = 0
    decided: bool = False


class Absent(Enum):
    """No value at all, unlike JSON's null."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """One difference that an edit made. A path that is only an argument's name means the whole argument: the card shows
    the difference in the argument's place."""

    path: str
    old: Json | Absent
    new: Json | Absent


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the call. If `masked`, the whole value is redacted and `value` is never shown."""

    name: str
    value: Json
    masked: bool = False
    formats: Formats = ()
    """How it is shown ("" is the value itself), and how what is inside it is: ("amount", "EUR")."""
    is_default: bool = False
    """The agent did not give it, and nobody changed it: the tool uses its own default."""


@dataclass(frozen=True, slots=True)
class Free:
    """An argument that may differ in the calls that a grant allows, and how far: `up to €2,000`. "": it may be
    anything."""

    name: str
    limit: str = ""


@dataclass(frozen=True, slots=True)
class GrantOffer:
    """What the Approve form may offer: for how long, bound to which arguments, which of them may differ, and for how
    many calls (None: any number)."""

    tool: str
    seconds: int
    on: tuple[Argument, ...] = ()
    free: tuple[Free, ...] = ()
    uses: int | None = None


@dataclass(frozen=True, slots=True)
class GrantView:
    """A permission for later calls of this tool with these arguments, in one session, given by all who approved."""

    id: str
    tool: str
    by: tuple[str, ...]
    until: int
    on: tuple[Argument, ...] = ()
    free: tuple[Free, ...] = ()
    uses: int | None = None
    """For how many calls. None: any number."""
    used: int = 0
    thread: str | None = None
    """A link to the session's thread, in a list of grants."""
    channel: str | None = None
    """The thread's channel, if it is in one."""


@dataclass(frozen=True, slots=True)
class Paused:
    """Runs are stopped by `adk-confirm pause`: by whom, and why. `reason` is supplied text. `restarts`: nobody paused
    them; the service is being restarted."""

    by: str | None = None
    reason: str | None = None
    restarts: bool = False


@dataclass(frozen=True, kw_only=True)
class AskedFor:
    """What would run, and who wants it."""

    tool: str
    agent: str
    only_agent: bool = False  # the agent that people speak to asks, none behind it
    call_id: str = ""
    asked_by: str | None = None
    asked_at: int = 0
    attempt: int = 1
    hint: str = ""  # what the tool says
    why: str = ""  # what the agent says that the call is for
    title: str | None = None
    question: bool = False  # the agent wants an answer; the arguments are what it is about
    operation: bool = False  # it has begun: people decide how it ends
    unbound: bool = False  # nobody says which arguments the tool takes
    arguments: tuple[Argument, ...] = ()
    formats: Formats = ()  # of the arguments, and of what a result calls by the same name
    hidden: int = 0
    wants_payload: bool = False
    payload: tuple[Argument, ...] = ()
    answered: bool = False  # somebody has filled the payload in, so that later approvers agree to it too
    diff: tuple[FieldDiff, ...] = ()
    edited_by: str | None = None
    editable: tuple[str, ...] = ()
    edit_denies: bool = False  # the tool takes no edit; it tells the agent what is wanted


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What the tool says that the call would do: its preview."""

    preview: Preview | None = None
    approved_preview: Preview | None = None  # if it has changed since the approval
    approved_then: tuple[str, ...] = ()  # who had approved it, as far as known
    awaits_preview: bool = False
    lacks_preview: bool = False  # so nobody may approve
    previews_edits: bool = False  # so whoever edits still has to see the new preview and approve it
    changed_by_edit: bool = False
    preview_is_masked: bool = False
    preview_is_older: bool = False  # than the edit


@dataclass(frozen=True, kw_only=True)
class Voting:
    """Who decides, and who has voted."""

    approvers: tuple[Approver, ...] = ()
    escalated_to: tuple[Approver, ...] = ()
    escalates_to: tuple[Approver, ...] = ()
    escalates_at: int = 0  # 0: it is not going to, or that will not be enough
    able: frozenset[str] = frozenset()
    """The values of those approvers who neither asked nor spoke to the agent. Members of groups are not looked up."""
    too_few_now: bool = False
    too_few_may: bool = False  # too few, even with those who may decide later
    spoke: tuple[str, ...] = ()  # approvers who can't approve, because they spoke to the agent
    speaking_bars: bool = False
    quorum: int = 1
    voted: tuple[str, ...] = ()
    voted_at: Mapping[str, int] = field(default_factory=dict)
    expires_at: int = 0
    policy_tools: tuple[str, ...] = ()
    confirm_dialog: bool = False
    approve_note: Literal["none", "optional", "required"] = "none"
    grant_offer: GrantOffer | None = None


@dataclass(frozen=True, kw_only=True)
class Became:
    """What became of the call."""

    stage: Stage
    approved_by: tuple[str, ...] = ()
    decided_by: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    reason: str | None = None
    asked_anew: bool = False  # a newer card has taken the place of this one
    drifted: bool = False  # what it would do had changed when it was to start, so that people were asked again
    start_by: int | None = None
    started_at: int | None = None
    duration: float | None = None
    said_at: int = 0  # when people said what became of it
    reported_by: str | None = None  # the program that ran it, and says so
    result: Json | Absent = ABSENT
    error: str | None = None
    outside: bool | None = None  # None if nobody can tell
    answered_outside: bool = False
    unsealed: bool = False
    tries_until: int | None = None  # its agent's server does not answer


@dataclass(frozen=True, kw_only=True)
class Around:
    """What is known besides the confirmation's row. `session_link` leads to the conversation if the card is in another
    place, `card_link` to the card from a list, `newer_link` to the card that took the place of this one."""

    paused: Paused | None = None
    grant: GrantView | None = None  # the one that came with this confirmation, while it is in force
    session_link: str | None = None
    card_link: str | None = None
    newer_link: str | None = None


@dataclass(frozen=True, kw_only=True)
class Shown(AskedFor, Planned, Voting, Became, Around):
    id: str
    revision: int
    version: int

    @property
    def ref(self) -> Ref:
        return Ref(self.id, self.revision)

    @property
    def became(self) -> str:
        """Its stage, or that a program got it and does not report."""
        handed = self.reported_by and isinstance(self.result, dict) and "handed to" in self.result
        return words.HANDED_OVER if handed else self.stage
