"""View models: the data that `blocks` draws. They contain ids, epoch seconds and JSON, but no Slack markup and no
secrets.

Some strings come from an agent or a tool, and may be hostile: `tool`, `agent`, `hint`, `Argument.name` and `.value`,
`FieldDiff`, `result`, `error`, `reason`, `checks`. Everything else comes from our own rows. Remove what the policy
redacts before you build a view; `masked` says where a value was removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from pydantic import JsonValue


class Absent(Enum):
    """No value at all, unlike JSON's null."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


class Face(StrEnum):
    """The state that a card shows: the decision and, once the call began, its outcome."""

    WAITING = "waiting"
    APPROVED = "approved"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    REFUSED = "refused"
    EXPIRED = "expired"
    LAPSED = "lapsed"
    WITHDRAWN = "withdrawn"
    ELSEWHERE = "elsewhere"
    UNKNOWN = "unknown"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the call. If `masked`, the whole value is redacted and `value` is never shown."""

    name: str
    value: JsonValue
    masked: bool = False
    formats: tuple[tuple[str, str], ...] = ()
    """How it is shown ("" is the value itself), and how what is inside it is: ("amount", "EUR")."""
    is_default: bool = False
    """The agent did not give it, and nobody changed it: the tool uses its own default."""


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """One difference that an edit made. If the path is an argument's own name, it is shown in that argument's place."""

    path: str
    old: JsonValue | Absent
    new: JsonValue | Absent


class VoteSide(StrEnum):
    APPROVE = "approve"
    DENY = "deny"
    RUN_AGAIN = "run_again"


@dataclass(frozen=True, slots=True)
class VoteView:
    user: str
    verdict: VoteSide


@dataclass(frozen=True, slots=True)
class Email:
    """An approver named by address. `user` is empty until Slack has found the account."""

    address: str
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Approvers:
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    emails: tuple[Email, ...] = ()
    callables: tuple[str, ...] = ()


NOBODY = Approvers()


@dataclass(frozen=True, slots=True)
class GrantView:
    """A permission for later calls of this tool with these arguments, in one session, given by all who approved."""

    id: str
    tool: str
    by: tuple[str, ...]
    until: int
    on: tuple[Argument, ...] = ()
    uses: int | None = None
    """For how many calls. None: any number."""
    used: int = 0
    channel: str | None = None
    """Where its session is, in a list of grants. None: in direct messages."""


@dataclass(frozen=True, slots=True)
class GrantOffer:
    """What the Approve form may offer: for how long (None: the rest of the session), bound to which arguments, and for
    how many calls (None: any number)."""

    seconds: int | None
    on: tuple[Argument, ...] = ()
    uses: int | None = None


@dataclass(frozen=True, slots=True)
class Paused:
    """Runs are stopped by `adk-confirm pause`: by whom, and why. `reason` is supplied text."""

    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AgentUnreachable:
    """The agent's server does not answer. Sending is retried until then."""

    until: int


@dataclass(frozen=True, slots=True)
class Parked:
    """Work failed too often and was stopped. An operator has to look."""


@dataclass(frozen=True, slots=True)
class AnsweredOutside:
    """Somebody answered the agent's server directly. This is an alarm in any state."""


@dataclass(frozen=True, slots=True)
class NotSealed:
    """Part of the row was not written by this app. This is an alarm."""


@dataclass(frozen=True, slots=True)
class EndsTurn:
    """google-adk ends the turn with this approval, so the agents that follow never run."""


Notice = Paused | AgentUnreachable | Parked | AnsweredOutside | NotSealed | EndsTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class CardView:
    """A confirmation as a card shows it. `version` is the row's, `revision` is what a vote applies to."""

    id: str
    revision: int
    version: int
    face: Face
    tool: str
    agent: str
    arguments: tuple[Argument, ...]

    title: str | None = None
    """A format string over the arguments that says what the call will do: the policy's, or the tool's own."""
    hint: str | None = None
    hidden: int = 0
    unbound: bool = False
    """Nobody says which arguments the tool takes, so some that are shown may not reach it, and it may use others."""
    asked_by: str | None = None
    asked_at: int
    attempt: int = 1

    approvers: Approvers = NOBODY
    escalated_to: Approvers | None = None
    quorum: int = 1
    votes: tuple[VoteView, ...] = ()
    expires_at: int | None = None
    start_by: int | None = None

    edited_by: str | None = None
    diff: tuple[FieldDiff, ...] = ()

    decided_by: tuple[str, ...] = ()
    reason: str | None = None

    started_at: int | None = None
    result: JsonValue | Absent = ABSENT
    error: str | None = None
    duration: float | None = None
    checks: tuple[str, ...] = ()
    happened: bool | None = None
    """What people said about an unknown outcome; None if nobody said anything in time."""
    outside: bool | None = None
    """How it was answered elsewhere: True for a yes, False for a no, None when nobody can tell."""

    editable: tuple[str, ...] = ()
    edit_denies: bool = False
    """Edited arguments do not reach the tool: an edit denies the call, and tells the agent what is wanted instead."""
    asked_anew: bool = False
    """WITHDRAWN: a newer card has taken the place of this one."""
    left_behind: bool = False
    """WITHDRAWN: the agent went on, so an answer would have no effect any more."""
    operation: bool = False
    """A long-running operation that has begun: people decide how it ends."""
    question: bool = False
    """The agent wants an answer, not an approval. `arguments` are what the question is about."""
    wants_payload: bool = False
    payload: tuple[Argument, ...] = ()
    """The values that the request asks for, as they are now (`form.payload_fields` makes fields of them)."""
    answered: bool = False
    """Whether somebody has filled the payload in already, so that later approvers agree to it too."""
    withdrawable: bool = True
    confirm_dialog: bool = False
    grant_offer: GrantOffer | None = None
    grant: GrantView | None = None

    session_link: str | None = None
    """The conversation, if the card is somewhere else."""
    card_link: str | None = None
    """The link to the card, for views that point to it (Home, lists)."""
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeView:
    """A person's Home tab, or a channel's list: what this reader may decide and what they asked for."""

    version: int
    waiting: tuple[CardView, ...] = ()
    asked: tuple[CardView, ...] = ()
    here: tuple[CardView, ...] = ()
    """`/approvals` only: what waits in this channel and is not the reader's to decide."""
    grants: tuple[GrantView, ...] = ()
    more_waiting: int = 0
    more_asked: int = 0
    more_here: int = 0
    paused: bool = False
